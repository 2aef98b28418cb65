// The rows of tests/litmus/per_thread.txt: the interpreter once more, with the functions of cuda.h
// for which 0 is the per-thread default stream.
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#define litmus_visit litmus_visit_per_thread
#define litmus_visit_row litmus_visit_row_per_thread
#include "litmus.c"
