/* An array of one stream goes through a handler of XLA on another one, which works on a third: on
   the simulated driver, whose race checker is silent if the order is right. `xla_streams wrong`
   leaves the order out.
   run: by test_xla_ffi.py */
#include <cai/xla_ffi.h>

typedef struct CUstream_st *CUstream;
typedef struct CUctx_st *CUcontext;
typedef unsigned long long CUdeviceptr;
int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(CUcontext *context, int device);
int cuCtxSetCurrent(CUcontext context);
int cuStreamCreate(CUstream *stream, unsigned flags);
int cuMemAlloc_v2(CUdeviceptr *data, size_t size);
int cuMemsetD8Async(CUdeviceptr data, unsigned char value, size_t size, CUstream stream);
int cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream);
int cuStreamSynchronize(CUstream stream);
int cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size);

#define SIZE 1024
#define CHECK(condition)                                        \
    if (!(condition)) {                                         \
        fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
        exit(1);                                                \
    }

static CUstream producer, xla, worker;
static int destroyed;

static void destroy(void *context) { *(int *)context += 1; }

static cai_stream as_number(CUstream stream) {
    cai_stream number = 0;
    memcpy(&number, &stream, sizeof(stream));
    return number;
}
static CUdeviceptr address(const cai_array *array) {
    CUdeviceptr number = 0;
    memcpy(&number, &array->data, sizeof(array->data));
    return number;
}

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
    cai_device device;
    const cai_stream mine = as_number(worker);
    CHECK(cai_xla_stream(frame, CAI_DEVICE_CUDA, &stream, &device, NULL) == CAI_OK);
    CHECK(stream == as_number(xla) && device.type == CAI_DEVICE_CUDA && device.id == 0);
    CHECK(cai_array_from_xla(frame->args.args[0], stream, device, CAI_ARRAY_READONLY, &in, NULL) ==
          CAI_OK);
    CHECK(cai_array_from_xla(frame->rets.rets[0], stream, device, 0, &out, NULL) == CAI_OK);
    CHECK(cai_array_consume_begin(&in, mine, CAI_ACCESS_READ, NULL) == CAI_OK);
    CHECK(cai_array_consume_begin(&out, mine, CAI_ACCESS_WRITE, NULL) == CAI_OK);
    CHECK(cuMemcpyDtoDAsync_v2(address(&out), address(&in), SIZE, worker) == 0);
    CHECK(cai_array_consume_end(&in, mine, CAI_ACCESS_READ, NULL) == CAI_OK);
    CHECK(cai_array_consume_end(&out, mine, CAI_ACCESS_WRITE, NULL) == CAI_OK);
    return NULL;
}

static cai_array make(void) {
    static const int64_t shape[1] = {SIZE};
    cai_array description = CAI_ARRAY_INIT, made = CAI_ARRAY_INIT;
    CUdeviceptr data;
    CHECK(cuMemAlloc_v2(&data, SIZE) == 0);
    CHECK(cuMemsetD8Async(data, 5, SIZE, producer) == 0);
    memcpy(&description.data, &data, sizeof(data));
    description.shape = shape;
    description.ndim = 1;
    memcpy(description.typestr, "|u1", sizeof("|u1"));
    description.stream = as_number(producer);
    description.device.type = CAI_DEVICE_CUDA;
    CHECK(cai_array_create(&description, &destroyed, destroy, &made, NULL) == CAI_OK);
    return made;
}

int main(int count, char **words) {
    CUcontext context;
    CHECK(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&context, 0) == 0);
    CHECK(cuCtxSetCurrent(context) == 0);
    CHECK(cuStreamCreate(&producer, 1) == 0 && cuStreamCreate(&xla, 1) == 0);
    CHECK(cuStreamCreate(&worker, 1) == 0);
    cai_array from = make(), to = make();

    XLA_FFI_Buffer argument, result;
    const cai_stream on = as_number(xla);
    const uint32_t order = count > 1 && strcmp(words[1], "wrong") == 0 ? CAI_SYNC_IGNORE : 0;
    CHECK(cai_array_to_xla(&from, on, CAI_ACCESS_READ | order, &argument, NULL) == CAI_OK);
    CHECK(cai_array_to_xla(&to, on, CAI_ACCESS_WRITE | order, &result, NULL) == CAI_OK);
    void *args[1] = {&argument}, *rets[1] = {&result};
    XLA_FFI_Api api = {0};
    XLA_FFI_CallFrame frame = {0};
    api.XLA_FFI_Stream_Get = its_stream;
    api.XLA_FFI_DeviceOrdinal_Get = its_ordinal;
    frame.api = &api;
    frame.args.args = args;
    frame.rets.rets = rets;
    CHECK(handler(&frame) == NULL);
    CHECK(cai_array_consume_end(&from, on, CAI_ACCESS_READ | order, NULL) == CAI_OK);
    CHECK(cai_array_consume_end(&to, on, CAI_ACCESS_WRITE | order, NULL) == CAI_OK);

    unsigned char found[SIZE];
    CHECK(cuMemsetD8Async(address(&from), 9, SIZE, producer) == 0);
    CHECK(cuStreamSynchronize(producer) == 0 && cuMemcpyDtoH_v2(found, address(&to), SIZE) == 0);
    CHECK(order != 0 || (found[0] == 5 && found[SIZE - 1] == 5));
    cai_array_release(&from);
    cai_array_release(&to);
    CHECK(destroyed == 2);
    return 0;
}
