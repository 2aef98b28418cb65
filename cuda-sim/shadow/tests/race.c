// A program with and without a race, for the race checker beside any driver: `race ordered` waits
// for the writer before it reads on another stream, `race racy` does not. Exit status 0 if all
// calls succeed.
#include <cuda.h>

#include <stdio.h>
#include <string.h>

#define CHECK(call)                                           \
    do {                                                      \
        const int code = (int)(call);                         \
        if (code != 0) {                                      \
            fprintf(stderr, "%s returned %d\n", #call, code); \
            return 1;                                         \
        }                                                     \
    } while (0)

enum { SIZE = 1 << 20 };

int main(int count, char **words) {
    const int ordered = count > 1 && strcmp(words[1], "ordered") == 0;
    CUdevice device;
    CUcontext context;
    CUstream writer, reader;
    CUevent event;
    CUdeviceptr from, to;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&writer, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&reader, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemAlloc(&from, SIZE));
    CHECK(cuMemAlloc(&to, SIZE));
    CHECK(cuMemsetD8Async(from, 7, SIZE, writer));
    if (ordered) {
        CHECK(cuEventRecord(event, writer));
        CHECK(cuStreamWaitEvent(reader, event, 0));
    }
    CHECK(cuMemcpyDtoDAsync(to, from, SIZE, reader));
    CHECK(cuStreamSynchronize(writer));
    CHECK(cuStreamSynchronize(reader));
    CHECK(cuMemFree(from));
    CHECK(cuMemFree(to));
    return 0;
}
