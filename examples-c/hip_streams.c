/*
 * A producer fills an array of an AMD GPU on its stream, and a consumer copies it on another one.
 * It prints 7:
 *
 *     hipcc hip_streams.c $(pkg-config --cflags --libs cai) -o hip_streams && ./hip_streams
 *
 * With CMake: find_package(hip), and link hip::host and cai::cai. It has not run on an AMD GPU yet.
 */
#include <cai/cai.h>
#include <hip/hip_runtime_api.h>
#include <stdio.h>

#define CHECK(call) \
    if ((call) != CAI_OK) return fprintf(stderr, "%s\n", error.message), 1

int main(void) {
    static const int64_t shape[1] = {4096};
    static unsigned char bytes[4096];
    cai_array array = CAI_ARRAY_INIT;
    hipStream_t producer, reader;
    cai_error error;
    if (hipStreamCreate(&producer) != hipSuccess || hipStreamCreate(&reader) != hipSuccess)
        return 1;
    if (hipMalloc(&array.data, sizeof bytes) != hipSuccess) return 1;
    array.shape = shape;
    array.ndim = 1;
    memcpy(array.typestr, "|u1", sizeof("|u1"));
    array.device.type = CAI_DEVICE_ROCM;
    array.device.id = 0;
    array.stream = cai_inline_stream(producer);
    if (hipMemsetAsync(array.data, 7, sizeof bytes, producer) != hipSuccess) return 1;

    CHECK(cai_array_consume_begin(&array, cai_inline_stream(reader), CAI_ACCESS_READ, &error));
    if (hipMemcpyAsync(bytes, array.data, sizeof bytes, hipMemcpyDeviceToHost, reader) !=
        hipSuccess)
        return 1;
    CHECK(cai_array_consume_end(&array, cai_inline_stream(reader), CAI_ACCESS_READ, &error));

    if (hipStreamSynchronize(reader) != hipSuccess) return 1;
    printf("%d\n", bytes[4095]); /* 7 */
    return hipFree(array.data) != hipSuccess;
}
