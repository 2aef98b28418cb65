/*
 * The cases of release.c, while something is missing that WITHOUT names: `memory` or `threads`
 * during the release and a while after it, `any_threads` for ever. Only the library misses it. With
 * `_foreign` behind it, the owners are another library's, which have no memory for the release.
 * The library has loaded the driver before: without it, nothing says whether a stream is captured.
 * run: sim lazy; devices 2
 * run: with WITHOUT= memory threads any_threads memory_foreign threads_foreign any_threads_foreign
 */
#define _GNU_SOURCE
#define WITHOUT
#include <errno.h>

#include "release.c"
#include <cai/unstable/release.h>

static atomic_int away;
static int loader_too;

static int is_missing(const char *what, const void *caller) {
    const char *without = getenv("WITHOUT");
    Dl_info info;
    return atomic_load(&away) && strncmp(without, what, strlen(what)) == 0 &&
           dladdr(caller, &info) != 0 &&
           (strstr(info.dli_fname, "libcai.so") != NULL ||
            (loader_too && strstr(info.dli_fname, "/ld-") != NULL));
}

static void take_away(int on) {
    if (on || strncmp(getenv("WITHOUT"), "any_", 4) != 0) atomic_store(&away, on);
}

void *__libc_malloc(size_t size);
void *malloc(size_t size) {
    return is_missing("memory", __builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

int pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*main)(void *),
                   void *argument) {
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    const void *caller = __builtin_return_address(0);
    if (is_missing("threads", caller) || is_missing("any_threads", caller)) return EAGAIN;
    *(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
    return create(out, attributes, main, argument);
}

/* Another library's owner with one reference. */
typedef struct foreign {
    cai_owner base;
    atomic_int references;
} foreign;

static void retain_foreign(cai_owner *owner) {
    atomic_fetch_add(&((foreign *)owner)->references, 1);
}

static void release_foreign(cai_owner *owner) {
    if (atomic_fetch_sub(&((foreign *)owner)->references, 1) == 1) {
        free(owner);
        atomic_fetch_add(&destroyed, 1);
    }
}

static cai_owner *new_owner(void) {
    static const cai_owner_ops ops = {sizeof ops, 0, retain_foreign, release_foreign};
    cai_owner *owner;
    cai_driver_info driver;
    OK(cai_driver_info_get(&driver, error));
    if (strstr(getenv("WITHOUT"), "_foreign") != NULL) {
        foreign *it = malloc(sizeof *it);
        it->base.ops = &ops;
        atomic_init(&it->references, 1);
        return &it->base;
    }
    OK(cai_owner_create(&destroyed, count_destroyed, &owner, error));
    return owner;
}

/* The library has not loaded the driver yet, and the loader has no memory to find it. */
CASE(before_the_driver_is_loaded) {
    const CUstream streams[] = {new_stream(), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
    const CUdeviceptr buffer = new_buffer();
    loader_too = 1;
    unsetenv("CAI_CUDA_DRIVER");
    for (int i = 0; i < 3; ++i) {
        cai_array array = array_of(buffer, as_value(streams[i]));
        OK(cai_owner_create(&destroyed, count_destroyed, &array.owner, error));
        held_at_gate(streams[i]);
        take_away(1);
        cai_unstable_array_release_in_order(&array);
        for (int calls = 0; calls < 8; ++calls) {
            usleep(500);
            cai_owner_release(NULL);
        }
        take_away(0);
        ASSERT(atomic_load(&destroyed) == 0);
    }
    atomic_store(&gate, 1);
    CU(cuCtxSynchronize());
}

/* Where no thread can ever be had, functions that return a status fail. */
int main(int count, char **words) {
    const int never = strncmp(getenv("WITHOUT"), "any_", 4) == 0;
    test_case **it = &all_cases;
    while (*it != NULL) {
        if (never && strncmp((*it)->name, "IN_ORDER", 8) != 0) {
            *it = (*it)->next;
        } else {
            it = &(*it)->next;
        }
    }
    return run_cases(count, words);
}
