// Allocators on top of the driver's say what they hand out and take back. [cudasim_suballoc, cudasim_subfree]
#include "case.h"

static void taken_and_returned_on_one_stream(void) {
    CUdeviceptr pool = device(2 * N);
    CUstream a = nonblocking();
    for (int i = 0; i < 3; ++i) {
        cudasim_suballoc((void *)pool, N, a);
        writes(a, pool, N);
        cudasim_subfree((void *)pool, N, a);
    }
}

static void used_elsewhere_after_the_return(void) {
    CUdeviceptr pool = device(2 * N);
    CUstream a = nonblocking(), b = nonblocking();
    cudasim_suballoc((void *)pool, N, a);
    after(b, a);
    reads(b, pool, N);
    cudasim_subfree((void *)pool, N, a);
}

static void returned_after_a_wait(void) {
    CUdeviceptr pool = device(2 * N);
    CUstream a = nonblocking(), b = nonblocking();
    cudasim_suballoc((void *)pool, N, a);
    after(b, a);
    reads(b, pool, N);
    after(a, b);
    cudasim_subfree((void *)pool, N, a);
}

// The allocator waited for the first user by means of its own: a new life.
static void handed_to_another_stream(void) {
    CUdeviceptr pool = device(2 * N);
    CUstream a = nonblocking(), b = nonblocking();
    cudasim_suballoc((void *)pool, N, a);
    writes(a, pool, N);
    cudasim_subfree((void *)pool, N, a);
    cudasim_suballoc((void *)pool, N, b);
    writes(b, pool, N);
}

static void handed_to_another_stream_without_a_word(void) {
    CUdeviceptr pool = device(2 * N);
    CUstream a = nonblocking(), b = nonblocking();
    writes(a, pool, N);
    writes(b, pool, N);
}

static void used_on_the_wrong_stream(void) {
    CUdeviceptr pool = device(2 * N);
    CUstream a = nonblocking(), b = nonblocking();
    cudasim_suballoc((void *)pool, N, a);
    writes(b, pool, N);
}

static void handed_to_the_host(void) {
    CUdeviceptr pool = device(2 * N);
    cudasim_suballoc((void *)pool, N, CUDASIM_HOST);
    CUstream a = nonblocking();
    writes(a, pool, N);
    OK(cuStreamSynchronize(a));
    cudasim_subfree((void *)pool, N, CUDASIM_HOST);
}

static void returned_by_the_host_too_early(void) {
    CUdeviceptr pool = device(2 * N);
    cudasim_suballoc((void *)pool, N, CUDASIM_HOST);
    writes(nonblocking(), pool, N);
    cudasim_subfree((void *)pool, N, CUDASIM_HOST);
}

const struct race_case allocators_cases[] = {
    CORRECT(taken_and_returned_on_one_stream),
    RACY(used_elsewhere_after_the_return),
    CORRECT(returned_after_a_wait),
    CORRECT(handed_to_another_stream),
    RACY(handed_to_another_stream_without_a_word),
    RACY(used_on_the_wrong_stream),
    CORRECT(handed_to_the_host),
    RACY(returned_by_the_host_too_early),
    {NULL, 0, NULL},
};
