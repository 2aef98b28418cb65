// Contexts and devices: default streams order within one context only; events order across all.
#include "case.h"

static CUcontext second(void) {
    CUcontext made;
    OK(cuDevicePrimaryCtxRetain(&made, 1));
    return made;
}

static CUcontext another_of_device_0(void) {
    CUcontext made;
#if CUDA_VERSION >= 13000
    OK(cuCtxCreate(&made, NULL, 0, 0));
#else
    OK(cuCtxCreate(&made, 0, 0));
#endif
    return made;
}

static void legacy_streams_of_two_contexts(void) {
    CUdeviceptr p = device(N);
    writes(CU_STREAM_LEGACY, p, N);
    use(another_of_device_0());
    reads(CU_STREAM_LEGACY, p, N);
}

static void two_contexts_with_an_event(void) {
    CUdeviceptr p = device(N);
    CUevent e = event();
    writes(CU_STREAM_LEGACY, p, N);
    OK(cuEventRecord(e, CU_STREAM_LEGACY));
    use(another_of_device_0());
    OK(cuStreamWaitEvent(CU_STREAM_LEGACY, e, 0));
    reads(CU_STREAM_LEGACY, p, N);
}

static void synchronizing_one_context_is_not_the_other(void) {
    CUdeviceptr p = device(N);
    CUstream a = nonblocking();
    writes(a, p, N);
    use(another_of_device_0());
    OK(cuCtxSynchronize());
    reads(nonblocking(), p, N);
}

static void synchronizing_the_right_context(void) {
    CUdeviceptr p = device(N);
    writes(nonblocking(), p, N);
    OK(cuCtxSynchronize());
    use(another_of_device_0());
    reads(nonblocking(), p, N);
}

static void legacy_against_a_blocking_stream_of_another_context(void) {
    CUdeviceptr p = device(N);
    CUstream a = blocking();
    writes(a, p, N);
    use(another_of_device_0());
    reads(CU_STREAM_LEGACY, p, N);
}

static void two_devices(void) {
    CUdeviceptr p = device(N);
    CUstream a = nonblocking();
    writes(a, p, N);
    use(second());
    reads(nonblocking(), p, N);
}

static void two_devices_with_an_event(void) {
    CUdeviceptr p = device(N);
    CUstream a = nonblocking();
    CUevent e = event();
    writes(a, p, N);
    OK(cuEventRecord(e, a));
    use(second());
    CUstream b = nonblocking();
    OK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

static void a_peer_copy_without_order(void) {
    CUdeviceptr p = device(N);
    CUstream a = nonblocking();
    writes(a, p, N);
    CUcontext other = second();
    use(other);
    CUdeviceptr q = device(N);
    OK(cuMemcpyPeerAsync(q, other, p, ctx, N, nonblocking()));
}

static void a_peer_copy_in_order(void) {
    CUdeviceptr p = device(N);
    CUstream a = nonblocking();
    CUevent e = event();
    writes(a, p, N);
    OK(cuEventRecord(e, a));
    CUcontext other = second();
    use(other);
    CUdeviceptr q = device(N);
    CUstream b = nonblocking();
    OK(cuStreamWaitEvent(b, e, 0));
    OK(cuMemcpyPeerAsync(q, other, p, ctx, N, b));
    reads(b, q, N);
}

// Device 0's stream must wait before it writes again.
static void a_peer_copy_overtaken(void) {
    CUdeviceptr p = device(N);
    CUstream a = nonblocking();
    CUevent e = event();
    writes(a, p, N);
    OK(cuEventRecord(e, a));
    CUcontext other = second();
    use(other);
    CUdeviceptr q = device(N);
    CUstream b = nonblocking();
    OK(cuStreamWaitEvent(b, e, 0));
    OK(cuMemcpyPeerAsync(q, other, p, ctx, N, b));
    use(ctx);
    writes(a, p, N);
}

static void the_token_1_of_another_context(void) {
    CUdeviceptr p = device(N);
    writes(CU_STREAM_LEGACY, p, N);
    use(second());
    CUevent e = event();
    CUstream b = nonblocking();
    OK(cuEventRecord(e, CU_STREAM_LEGACY));
    OK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

const struct race_case contexts_cases[] = {
    RACY(legacy_streams_of_two_contexts),
    CORRECT(two_contexts_with_an_event),
    RACY(synchronizing_one_context_is_not_the_other),
    CORRECT(synchronizing_the_right_context),
    RACY(legacy_against_a_blocking_stream_of_another_context),
    RACY(two_devices),
    CORRECT(two_devices_with_an_event),
    RACY(a_peer_copy_without_order),
    CORRECT(a_peer_copy_in_order),
    RACY(a_peer_copy_overtaken),
    RACY(the_token_1_of_another_context),
    {NULL, 0, NULL},
};
