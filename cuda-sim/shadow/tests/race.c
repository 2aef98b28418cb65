// A program with and without a race, for the race checker beside any driver: `race ordered` waits
// for the writer before it reads on another stream, `race racy` does not. Exit status 0 if all
// calls succeed.
#include "../../tests/ok.h"

#include <cuda.h>

#include <string.h>

enum { SIZE = 1 << 20 };

int main(int count, char **words) {
    const int ordered = count > 1 && strcmp(words[1], "ordered") == 0;
    CUdevice device;
    CUcontext context;
    CUstream writer, reader;
    CUevent event;
    CUdeviceptr from, to;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&writer, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&reader, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuMemAlloc(&from, SIZE));
    OK(cuMemAlloc(&to, SIZE));
    OK(cuMemsetD8Async(from, 7, SIZE, writer));
    if (ordered) {
        OK(cuEventRecord(event, writer));
        OK(cuStreamWaitEvent(reader, event, 0));
    }
    OK(cuMemcpyDtoDAsync(to, from, SIZE, reader));
    OK(cuStreamSynchronize(writer));
    OK(cuStreamSynchronize(reader));
    OK(cuMemFree(from));
    OK(cuMemFree(to));
    return 0;
}
