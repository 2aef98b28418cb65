/*
 * driver.c: finds libcuda.so.1 and its functions, on the first call that needs them. Nothing
 * happens when this library is loaded: programs may link with it and never use a GPU, or fork
 * before they do.
 */
#define _GNU_SOURCE
#include "runtime.h"

#include <dlfcn.h>
#include <pthread.h>

struct driver driver;

static struct {
    pthread_once_t library_once, driver_once;
    cudaError_t library_error, driver_error;
} state = {PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, cudaSuccess, cudaSuccess};

static void find_function_of_driver(void *library, const char *name, void *slot) {
    *(void **)slot = dlsym(library, name);
}

static void load_library(void) {
    /* Global, because programs that look for the driver's symbols in the process expect to find
     * them. */
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) {
        state.library_error = cudaErrorInsufficientDriver;
        return;
    }
#define DRIVER_FUNCTION(name, parameters) find_function_of_driver(library, #name, &driver.name);
#include "driver_functions.h"
#undef DRIVER_FUNCTION
}

static void start_driver(void) {
    int version = 0;
    state.driver_error = need_library();
    if (state.driver_error != cudaSuccess) return;
    state.driver_error = CALL(cuInit, 0);
    if (state.driver_error != cudaSuccess) return;
    /* A driver works with every runtime of its own major version, newer minor ones included. */
    if (CALL(cuDriverGetVersion, &version) != cudaSuccess || version / 1000 < CUDART_MAJOR) {
        state.driver_error = cudaErrorInsufficientDriver;
    }
}

cudaError_t need_library(void) {
    pthread_once(&state.library_once, load_library);
    return state.library_error;
}

cudaError_t need_driver(void) {
    pthread_once(&state.driver_once, start_driver);
    return state.driver_error;
}
