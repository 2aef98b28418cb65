/* Precedes the programs that the tests in Python contain. */
#define _GNU_SOURCE
#include <cuda.h>
#include <cudasim.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ok.h"
