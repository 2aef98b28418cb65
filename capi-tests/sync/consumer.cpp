// cai::consumer whose end fails (SHIM), with a report or, in its destructor, without: the work is
// done afterwards.
// run: sim eager lazy random:7 threads; devices 2; with SHIM= cuEventRecord:1:400
// run: arguments 0 1 2 3 4 5
#include <cai/cai.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cuda.h>
#include <dlfcn.h>
#include <thread>

#include "../cai_test.h"

namespace {

std::atomic<int> done;

void CUDA_CB finish(void *) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ++done;
}

void check(CUresult result) { ASSERT(result == CUDA_SUCCESS); }

} // namespace

int main(int, char **words) {
    CUdevice device;
    CUcontext context;
    CUstream own;
    CUdeviceptr memory;
    check(cuInit(0));
    check(cuDeviceGet(&device, 0));
    check(cuDevicePrimaryCtxRetain(&context, device));
    check(cuCtxSetCurrent(context));
    check(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    check(cuMemAlloc(&memory, 64));
    void *shim = dlopen(std::getenv("CAI_CUDA_DRIVER"), RTLD_NOW);
    auto *arm = reinterpret_cast<int (*)(int)>(dlsym(shim, "shim_arm"));
    auto *fired = reinterpret_cast<int (*)()>(dlsym(shim, "shim_fired"));
    // 0: a handle; 3 to 5: the failure is reported
    const int number = std::atoi(words[1]) % 3;
    const bool reports = std::atoi(words[1]) >= 3;
    const CUstream stream = number == 1   ? CU_STREAM_LEGACY
                            : number == 2 ? CU_STREAM_PER_THREAD
                                          : own;
    const std::int64_t shape[] = {4};
    cai_array array = CAI_ARRAY_INIT;
    array.data = reinterpret_cast<void *>(memory);
    array.shape = shape;
    array.ndim = 1;
    memcpy(array.typestr, "<f4", 4);
    array.device = cai::cuda_device(0);
    array.stream = number == 1 ? CAI_STREAM_PER_THREAD : CAI_STREAM_LEGACY;
    {
        cai::consumer work(array, reinterpret_cast<std::uintptr_t>(stream), CAI_ACCESS_READ);
        check(cuLaunchHostFunc(stream, finish, nullptr));
        arm(1);
        if (reports) {
            cai_error why;
            ASSERT(work.try_end(&why) != CAI_OK && why.driver_code == 400 && done == 1);
            ASSERT_STATUS(CAI_OK, work.try_end());
        }
    }
    arm(0);
    ASSERT(fired() != 0 && done == 1);
    check(cuMemFree(memory));
    return 0;
}
