/* What a process pays once: loading the library, its first calls, and its first call of the driver.
 * Each round is a process of its own. */
#define _GNU_SOURCE
#include "timing.h"

#include <cai/cai.h>

#include <dlfcn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static double begun;

static void row(const char *name) {
    const double ended = now();
    printf("start of a process\t%s\t%.1f\n", name, ended - begun);
    begun = now();
}

static void *opened(const char *file) {
    void *library = dlopen(file, RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        _exit(1);
    }
    return library;
}

static int by_hand(void) {
    int (*init)(unsigned);
    *(void **)&init = dlsym(opened("libcuda.so.1"), "cuInit");
    const int status = init(0);
    row("by hand: load the driver, cuInit");
    opened("libstdc++.so.6");
    row("another library: load libstdc++.so.6");
    return status;
}

static int with_library(void) {
    const int64_t shape[1] = {4};
    cai_array array = CAI_ARRAY_INIT;
    cai_driver_info info = {0};
    cai_status (*validate)(const cai_array *, uint32_t, cai_error *);
    cai_status (*driver)(cai_driver_info *, cai_error *);
    void *library = opened("./libcai.so.1");
    row("libcai: load it");
    *(void **)&validate = dlsym(library, "cai_array_validate");
    *(void **)&driver = dlsym(library, "cai_driver_info_get");
    array.data = &array;
    array.shape = shape;
    array.ndim = 1;
    memcpy(array.typestr, "<f4", sizeof "<f4");
    array.device.type = CAI_DEVICE_CPU;
    array.stream = CAI_STREAM_NONE;
    begun = now();
    int failed = validate(&array, 0, NULL);
    row("libcai: first cai_array_validate");
    failed |= validate(&array, 0, NULL);
    row("libcai: second cai_array_validate");
    failed |= driver(&info, NULL);
    row("libcai: first call of the driver, which loads it");
    return failed;
}

int main(void) {
    int (*const ways[])(void) = {by_hand, with_library};
    for (int round = 0; round < (int)bench_setting("BENCH_ROUNDS", 9); round++) {
        for (int way = 0; way < 2; way++) {
            int status = 0;
            fflush(stdout);
            const pid_t child = fork();
            if (child == 0) {
                begun = now();
                status = ways[way]();
                fflush(stdout);
                _exit(status != 0);
            }
            if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;
        }
    }
    return 0;
}
