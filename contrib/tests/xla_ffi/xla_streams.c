/* An array of one stream goes through a handler of XLA on another one, which works on a third: on
   the simulated driver, whose race checker is silent if the order is right. `xla_streams wrong`
   leaves the order out.
   run: by test_xla_ffi.py */
#include <cai/xla_ffi.h>

#include "sync/sync_test.h"

static CUstream producer, xla, worker;

static CUdeviceptr address(const cai_array *array) { return (CUdeviceptr)(uintptr_t)array->data; }

static XLA_FFI_Error *its_stream(XLA_FFI_Stream_Get_Args *args) {
    args->stream = xla;
    return NULL;
}
static XLA_FFI_Error *its_ordinal(XLA_FFI_DeviceOrdinal_Get_Args *args) {
    args->device_ordinal = 0;
    return NULL;
}

/* The handler: copies its argument to its result on a stream of its own. */
static XLA_FFI_Error *handler(XLA_FFI_CallFrame *frame) {
    cai_array in = CAI_ARRAY_INIT, out = CAI_ARRAY_INIT;
    cai_stream stream = 0;
    cai_device of;
    const cai_stream mine = as_value(worker);
    OK(cai_xla_stream(frame, CAI_DEVICE_CUDA, &stream, &of, error));
    ASSERT(stream == as_value(xla) && of.type == CAI_DEVICE_CUDA && of.id == 0);
    OK(cai_array_from_xla(frame->args.args[0], stream, of, CAI_ARRAY_READONLY, &in, error));
    OK(cai_array_from_xla(frame->rets.rets[0], stream, of, 0, &out, error));
    OK(cai_array_consume_begin(&in, mine, CAI_ACCESS_READ, error));
    OK(cai_array_consume_begin(&out, mine, CAI_ACCESS_WRITE, error));
    copy(address(&out), address(&in), worker);
    OK(cai_array_consume_end(&in, mine, CAI_ACCESS_READ, error));
    OK(cai_array_consume_end(&out, mine, CAI_ACCESS_WRITE, error));
    return NULL;
}

static cai_array make(int *destroyed) {
    const cai_array description = array_of(new_buffer(), as_value(producer));
    cai_array made = CAI_ARRAY_INIT;
    fill(address(&description), 5, producer);
    OK(cai_array_create(&description, destroyed, count_destroy, &made, error));
    return made;
}

int main(int count, char **words) {
    const bool is_wrong = count > 1 && strcmp(words[1], "wrong") == 0;
    const uint32_t order = is_wrong ? CAI_SYNC_IGNORE : 0;
    int destroyed = 0;
    find_shim();
    set_up();
    producer = new_stream(), xla = new_stream(), worker = new_stream();
    cai_array from = make(&destroyed), to = make(&destroyed);

    XLA_FFI_Buffer argument, result;
    const cai_stream on = as_value(xla);
    OK(cai_array_to_xla(&from, on, CAI_ACCESS_READ | order, &argument, error));
    OK(cai_array_to_xla(&to, on, CAI_ACCESS_WRITE | order, &result, error));
    void *args[1] = {&argument}, *rets[1] = {&result};
    XLA_FFI_Api api = {0};
    XLA_FFI_CallFrame frame = {0};
    api.XLA_FFI_Stream_Get = its_stream;
    api.XLA_FFI_DeviceOrdinal_Get = its_ordinal;
    frame.api = &api;
    frame.args.args = args;
    frame.rets.rets = rets;
    ASSERT(handler(&frame) == NULL);
    OK(cai_array_consume_end(&from, on, CAI_ACCESS_READ | order, error));
    OK(cai_array_consume_end(&to, on, CAI_ACCESS_WRITE | order, error));

    fill(address(&from), 9, producer);
    ASSERT(holds(address(&to), 5, producer) || is_wrong);
    cai_array_release(&from);
    cai_array_release(&to);
    ASSERT(destroyed == 2);
    return 0;
}
