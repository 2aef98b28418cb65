// Two devices: their streams know nothing of each other but by events and the host.
#include "race_test.h"

static CUcontext first, second;

// Contexts of devices 0 and 1; that of device 0 stays current.
static void two_devices(void) {
    first = primary(0);
    second = primary(1);
}

static CUstream stream_of(CUcontext context) {
    use(context);
    return make_nonblocking();
}

static CUdeviceptr memory_of(CUcontext context) {
    use(context);
    return alloc(N);
}

// No order between streams of two devices.
static void no_event_between_devices(void) {
    two_devices();
    CUdeviceptr p = alloc_managed(N);
    writes(stream_of(first), p, N);
    reads(stream_of(second), p, N);
}

// A stream may wait for an event of another device.
static void event_between_devices(void) {
    two_devices();
    CUdeviceptr p = alloc_managed(N);
    CUstream a = stream_of(first);
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    CUstream b = stream_of(second);
    CHECK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

// The event belongs to the right device but was recorded before the write.
static void early_event_between_devices(void) {
    two_devices();
    CUdeviceptr p = alloc_managed(N);
    CUstream a = stream_of(first);
    CUevent e = make_event();
    CHECK(cuEventRecord(e, a));
    writes(a, p, N);
    CUstream b = stream_of(second);
    CHECK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

// Legacy streams of two devices do not wait for each other.
static void legacy_streams_of_two_devices(void) {
    two_devices();
    CUdeviceptr p = alloc_managed(N);
    writes(CU_STREAM_LEGACY, p, N);
    use(second);
    reads(CU_STREAM_LEGACY, p, N);
}

// Legacy work on device 1 is no barrier for device 0.
static void barrier_on_the_wrong_device(void) {
    two_devices();
    CUdeviceptr p = alloc_managed(N);
    CUstream a = make_stream(), b = make_stream();
    writes(a, p, N);
    use(second);
    CHECK(cuMemsetD8Async(alloc(N), 0, N, NULL));
    use(first);
    reads(b, p, N);
}

// cuCtxSynchronize waits for the current device's context.
static void host_waits_for_the_other_device(void) {
    two_devices();
    char *host = alloc_pinned(N);
    writes(stream_of(first), at_device(host), N);
    use(second);
    CHECK(cuCtxSynchronize());
    host_reads(host, N);
}

// The right one.
static void host_waits_for_the_device(void) {
    two_devices();
    char *host = alloc_pinned(N);
    writes(stream_of(first), at_device(host), N);
    use(second);
    use(first);
    CHECK(cuCtxSynchronize());
    host_reads(host, N);
}

// The host waits on behalf of the other device.
static void host_between_devices(void) {
    two_devices();
    CUdeviceptr p = alloc_managed(N);
    CUstream a = stream_of(first), b = stream_of(second);
    writes(a, p, N);
    CHECK(cuStreamSynchronize(a));
    reads(b, p, N);
}

// What is copied to a peer is read there without waiting for the copy.
static void peer_copy_read_too_early(void) {
    two_devices();
    CUdeviceptr from = memory_of(first), to = memory_of(second);
    CUstream a = stream_of(first), b = stream_of(second);
    use(first);
    CHECK(cuMemcpyPeerAsync(to, second, from, first, N, a));
    reads(b, to, N);
}

// Read after an event behind the copy.
static void peer_copy_read_after_an_event(void) {
    two_devices();
    CUdeviceptr from = memory_of(first), to = memory_of(second);
    CUstream b = stream_of(second), a = stream_of(first);
    CUevent e = make_event();
    CHECK(cuMemcpyPeerAsync(to, second, from, first, N, a));
    CHECK(cuEventRecord(e, a));
    CHECK(cuStreamWaitEvent(b, e, 0));
    reads(b, to, N);
}

// The source of a peer copy is overwritten while it may still be read.
static void peer_copy_source_overwritten(void) {
    two_devices();
    CUdeviceptr to = memory_of(second), from = memory_of(first);
    CUstream a = make_nonblocking(), c = make_nonblocking();
    CHECK(cuMemcpyPeerAsync(to, second, from, first, N, a));
    writes(c, from, N);
}

// In the stream of the copy it may be overwritten.
static void peer_copy_source_overwritten_in_its_stream(void) {
    two_devices();
    CUdeviceptr to = memory_of(second), from = memory_of(first);
    CUstream a = make_nonblocking();
    CHECK(cuMemcpyPeerAsync(to, second, from, first, N, a));
    writes(a, from, N);
}

// The destination is still read by its device when the copy comes.
static void peer_copy_destination_still_read(void) {
    two_devices();
    CUdeviceptr to = memory_of(second), from = memory_of(first);
    CUstream b = stream_of(second), a = stream_of(first);
    reads(b, to, N);
    CHECK(cuMemcpyPeerAsync(to, second, from, first, N, a));
}

// Unified addresses: a plain copy between devices touches both as well.
static void plain_copy_between_devices(void) {
    two_devices();
    CUdeviceptr to = memory_of(second), from = memory_of(first);
    CUstream b = stream_of(second), a = stream_of(first);
    CHECK(cuMemcpyDtoDAsync(to, from, N, a));
    writes(b, to, N);
}

// Device 0, device 1, device 0 again, with an event for each step.
static void chain_over_devices(void) {
    two_devices();
    CUdeviceptr p = alloc_managed(N);
    CUstream a = make_nonblocking(), c = make_nonblocking();
    CUevent ab = make_event();
    CUstream b = stream_of(second);
    CUevent bc = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(ab, a));
    CHECK(cuStreamWaitEvent(b, ab, 0));
    CHECK(cuEventRecord(bc, b));
    CHECK(cuStreamWaitEvent(c, bc, 0));
    reads(c, p, N);
}

// The stream in the middle does not wait.
static void chain_over_devices_without_a_link(void) {
    two_devices();
    CUdeviceptr p = alloc_managed(N);
    CUstream a = make_nonblocking(), c = make_nonblocking();
    CUevent ab = make_event();
    CUstream b = stream_of(second);
    CUevent bc = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(ab, a));
    CHECK(cuEventRecord(bc, b));
    CHECK(cuStreamWaitEvent(c, bc, 0));
    reads(c, p, N);
}

// Each device works on memory of its own.
static void each_on_its_own_memory(void) {
    two_devices();
    CUdeviceptr p = memory_of(first), q = memory_of(second);
    writes(stream_of(first), p, N);
    writes(stream_of(second), q, N);
}

// The call that is not asynchronous comes after all work of the contexts, and before all later
// work. [cuMemcpyPeer]
static void serialized_copy_between_contexts(void) {
    two_devices();
    CUstream a = make_nonblocking();
    CUdeviceptr from = alloc(N);
    use(second);
    CUdeviceptr to = alloc(N);
    CUstream b = make_nonblocking();
    reads(b, to, N);
    use(first);
    writes(a, from, N);
    CHECK(cuMemcpyPeer(to, second, from, first, N));
    writes(a, from, N);
    use(second);
    writes(b, to, N);
    CUstream later = make_nonblocking();
    order(b, later);
    reads(later, to, N);
}

static void streams_made_after_a_serialized_copy(void) {
    two_devices();
    CUdeviceptr from = alloc(N);
    use(second);
    CUdeviceptr to = alloc(N);
    use(first);
    CHECK(cuMemcpyPeer(to, second, from, first, N));
    use(second);
    reads(make_nonblocking(), to, N);
}

// Streams of other contexts are not ordered.
static void another_context_after_a_serialized_copy(void) {
    two_devices();
    use(second);
    CUdeviceptr to = alloc(N);
    use(first);
    CUdeviceptr source = alloc(N);
    CHECK(cuMemcpyPeer(to, second, source, first, N));
    use(second_context());
    claims_read(make_nonblocking(), to, N);
}

const struct race_program programs_devices[] = {
    RACY(no_event_between_devices),
    CORRECT(event_between_devices),
    RACY(early_event_between_devices),
    RACY(legacy_streams_of_two_devices),
    RACY(barrier_on_the_wrong_device),
    RACY(host_waits_for_the_other_device),
    CORRECT(host_waits_for_the_device),
    CORRECT(host_between_devices),
    RACY(peer_copy_read_too_early),
    CORRECT(peer_copy_read_after_an_event),
    RACY(peer_copy_source_overwritten),
    CORRECT(peer_copy_source_overwritten_in_its_stream),
    RACY(peer_copy_destination_still_read),
    RACY(plain_copy_between_devices),
    CORRECT(chain_over_devices),
    RACY(chain_over_devices_without_a_link),
    CORRECT(each_on_its_own_memory),
    CORRECT(serialized_copy_between_contexts),
    CORRECT(streams_made_after_a_serialized_copy),
    RACY(another_context_after_a_serialized_copy),
    END_OF_PROGRAMS,
};
