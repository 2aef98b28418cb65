/*
 * cudasim.h: what a program can say to the simulated CUDA driver beyond cuda.h.
 *
 * Everything here is an inline function that looks for the simulator once, at run time, and does
 * nothing where there is none: a program that uses this header runs unchanged on a real GPU.
 * Nothing is to be linked. Under `cuda-sim run --shadow` the checker watches a real driver: then
 * all of it works but for what runs functions of the host as kernels.
 *
 * - Kernels: host functions that stand for kernels, with the bytes that they read and write.
 *   `cudasim_register` makes them known by name, for cuModuleGetFunction and cuLaunchKernel;
 *   `cudasim_launch` enqueues one directly. `cudasim_accesses` says what a real one touches.
 * - Accesses of the host: `cudasim_host_read` and `cudasim_host_write` say that this thread touches
 * memory which the device can touch too (pinned, registered, managed).
 * - Order between host threads, where the simulator does not see it: `cudasim_hb_before`,
 * `cudasim_hb_after`.
 * - Allocators on top of the driver's: `cudasim_suballoc`, `cudasim_subfree`.
 * - Arrays that libraries exchange: `cudasim_cai`.
 * - Names in reports: `cudasim_name_stream`, `cudasim_label`.
 *
 * Include <cuda.h>, or anything else that defines CUstream and CUresult as CUDA does, before or
 * after; this header needs neither. Streams are passed as `void *`, device addresses as `const void
 * *` or integers.
 *
 * Thread safety: every function may be called from every thread, but not from a host function or a
 * kernel, unless it says so.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef CUDASIM_H
#define CUDASIM_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows with the table below; a simulator answers any version up to its own. */
#define CUDASIM_VERSION 3

/* What an access does. Both together: the bytes are read and then written. */
#define CUDASIM_READ 1u
#define CUDASIM_WRITE 2u

#define CUDASIM_MAX_NDIM 8

/*
 * The bytes that an operation touches: blocks of `nbytes` bytes that follow each other
 * contiguously, repeated `count[d]` times at steps of `stride[d]` bytes, for each of `ndim`
 * dimensions. The block at index (0, 0,
 * ...) begins at `address`. Strides may be negative or zero. A contiguous range has `ndim` 0.
 */
typedef struct cudasim_access {
    uint64_t address;
    uint64_t nbytes;
    uint32_t mode; /* CUDASIM_READ, CUDASIM_WRITE or both */
    uint32_t ndim; /* 0 to CUDASIM_MAX_NDIM */
    int64_t count[CUDASIM_MAX_NDIM];
    int64_t stride[CUDASIM_MAX_NDIM];
} cudasim_access;

/* How a kernel was launched: what a kernel knows as gridDim, blockDim and the size of its shared
 * memory. */
typedef struct cudasim_grid {
    unsigned grid[3];
    unsigned block[3];
    unsigned shared_bytes;
} cudasim_grid;

/*
 * A host function that stands for a kernel.
 *
 * `name`: what cuModuleGetFunction looks for. Of a C++ kernel, its mangled name.
 * `run`: does the whole grid's work. `args[i]` points to the i-th argument, as in cuLaunchKernel.
 * Runs on some thread of the simulator, later than the launch; must not call the driver.
 * `accesses`: says what a launch with these arguments reads and writes: fills up to `room` elements
 * of `out` and returns how many there are. NULL: nothing that the checker should know. Runs during
 * the launch. `nargs`, `arg_sizes`: the number of arguments and the size of each in bytes, to copy
 * them at the launch.
 */
typedef struct cudasim_kernel {
    const char *name;
    void (*run)(const cudasim_grid *grid, void **args);
    size_t (*accesses)(const cudasim_grid *grid, void **args, cudasim_access *out, size_t room);
    size_t nargs;
    const size_t *arg_sizes;
} cudasim_kernel;

/* What happened to an array that libraries exchange (the CUDA Array Interface). */
#define CUDASIM_CAI_EXPORT 1u /* a producer hands it out: cai_array_produce */
#define CUDASIM_CAI_BEGIN 2u  /* a consumer has made its stream wait: cai_array_consume_begin */
#define CUDASIM_CAI_END 3u /* a consumer has made the exported stream wait: cai_array_consume_end \
                            */
#define CUDASIM_CAI_SYNCHRONIZE 4u /* the host has waited: cai_array_synchronize */
#define CUDASIM_CAI_RELEASE_AFTER \
    5u /* the reference goes when a stream gets there: cai_owner_release_after */
#define CUDASIM_CAI_DESTROY 6u /* the last reference is gone; the data is freed next */

#define CUDASIM_CAI_READONLY 1u

/*
 * A note about one of these, sent after the calls of the driver that belong to it. The library cai
 * sends them by itself; others can, through `cudasim_cai`. Streams are as in the array: 1 legacy, 2
 * per thread, all ones: none, all ones minus one: not known, else a CUstream.
 */
typedef struct cudasim_cai_note {
    uint32_t struct_size; /* sizeof(cudasim_cai_note) */
    uint32_t kind;        /* CUDASIM_CAI_EXPORT, ... */
    const void *owner;    /* who keeps the array alive, by address; NULL: borrowed */
    cudasim_access bytes; /* what the array can touch; mode: what the consumer does, or may do */
    uint32_t flags;       /* CUDASIM_CAI_READONLY */
    int32_t status;       /* 0, or why it was refused and nothing happened */
    uint64_t stream;      /* the array's */
    uint64_t stream_id;   /* cuStreamGetId of it; 0: not known */
    void *context;        /* what gives 1 and 2 a meaning; NULL: the current context */
    uint64_t consumer;    /* the other side's stream */
    void *consumer_context;
    const char *rule; /* NULL, or the rule because of which it was refused: "R7", "R8", "R10" */
} cudasim_cai_note;

/* The simulator's side, found at run time. Fields are only ever added at the end. */
typedef struct cudasim_api {
    uint32_t struct_size;
    uint32_t version;
    void (*register_kernels)(const cudasim_kernel *kernels, size_t count);
    int (*launch)(void *stream, const char *label, void (*run)(void *data), const void *data,
                  size_t size, const cudasim_access *accesses, size_t count);
    void (*host_access)(const void *address, size_t nbytes, uint32_t mode, const char *label);
    void (*hb_before)(const void *object);
    void (*hb_after)(const void *object);
    void (*suballoc)(const void *address, size_t nbytes, void *stream);
    void (*subfree)(const void *address, size_t nbytes, void *stream);
    void (*name_stream)(void *stream, const char *name);
    void (*label)(const char *label);
    size_t (*races)(void);
    size_t (*step)(size_t operations);
    void *(*host_address)(const void *address);
    size_t (*take_report)(char *out, size_t room);
    void (*fail_kernel)(int result);
    void (*cai)(const cudasim_cai_note *note);
    void (*accesses)(void *stream, const char *label, const cudasim_access *accesses, size_t count);
    int (*simulated)(void);
} cudasim_api;

/* NULL where the driver of this process is neither the simulator nor watched, or none is loaded
 * yet. */
static inline const cudasim_api *cudasim_find(void) {
    static const cudasim_api *found; /* written with the same value by whoever comes first */
    const cudasim_api *api = __atomic_load_n(&found, __ATOMIC_ACQUIRE);
    if (api == NULL) {
        void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
        void *symbol = dlsym(driver != NULL ? driver : RTLD_DEFAULT, "cudasim_get_api");
        if (symbol != NULL) {
            const cudasim_api *(*get)(uint32_t);
            *(void **)&get = symbol;
            api = get(CUDASIM_VERSION);
            __atomic_store_n(&found, api, __ATOMIC_RELEASE);
        }
        if (driver != NULL) {
            dlclose(driver);
        }
    }
    return api;
}

/* Whether the driver is the simulator. 0 beside a real one, also where the checker watches it. */
static inline int cudasim_present(void) {
    const cudasim_api *sim = cudasim_find();
    return sim != NULL && sim->simulated();
}

/* Makes kernels known by name. The array may go away afterwards; what it points to may not. */
static inline void cudasim_register(const cudasim_kernel *kernels, size_t count) {
    const cudasim_api *sim = cudasim_find();
    if (sim != NULL) {
        sim->register_kernels(kernels, count);
    }
}

/*
 * Enqueues `run(copy of data)` on a stream, as a kernel that reads and writes `accesses`. Returns a
 * CUresult: what cuLaunchKernel would; 801 (not supported) where there is no simulator, also under
 * `--shadow`. `label` names it in reports.
 */
static inline int cudasim_launch(void *stream, const char *label, void (*run)(void *data),
                                 const void *data, size_t size, const cudasim_access *accesses,
                                 size_t count) {
    const cudasim_api *sim = cudasim_find();
    return sim != NULL ? sim->launch(stream, label, run, data, size, accesses, count) : 801;
}

/*
 * A kernel that the checker knows nothing else of, because it is a real one, or its function
 * declares no accesses, touches these. To be called right before or right after its launch on the
 * same stream, also while that captures: what counts is the place in the stream.
 */
static inline void cudasim_accesses(void *stream, const char *label, const cudasim_access *accesses,
                                    size_t count) {
    const cudasim_api *sim = cudasim_find();
    if (sim != NULL) {
        sim->accesses(stream, label, accesses, count);
    }
}

/* This thread reads, or writes, these bytes now. Memory that the device cannot touch is ignored. */
static inline void cudasim_host_read(const void *address, size_t nbytes) {
    const cudasim_api *sim = cudasim_find();
    if (sim != NULL) {
        sim->host_access(address, nbytes, CUDASIM_READ, NULL);
    }
}
static inline void cudasim_host_write(const void *address, size_t nbytes) {
    const cudasim_api *sim = cudasim_find();
    if (sim != NULL) {
        sim->host_access(address, nbytes, CUDASIM_WRITE, NULL);
    }
}

/*
 * What this thread did so far comes before what another thread does after its `cudasim_hb_after` on
 * the same address. Locks, condition variables, semaphores, thread creation and joining need no
 * word where the program was started by `cuda-sim run`; synchronization by atomics does. May be
 * called anywhere.
 */
static inline void cudasim_hb_before(const void *object) {
    const cudasim_api *sim = cudasim_find();
    if (sim != NULL) {
        sim->hb_before(object);
    }
}
static inline void cudasim_hb_after(const void *object) {
    const cudasim_api *sim = cudasim_find();
    if (sim != NULL) {
        sim->hb_after(object);
    }
}

/*
 * For allocators that hand out parts of what they got from the driver: these bytes go to a user who
 * works on `stream`, and come back from it. A user's work on another stream that is not ordered
 * before the return is then a race, as it is with cuMemFreeAsync. CUDASIM_HOST as the stream: this
 * thread.
 */
#define CUDASIM_HOST ((void *)-1)
static inline void cudasim_suballoc(const void *address, size_t nbytes, void *stream) {
    const cudasim_api *sim = cudasim_find();
    if (sim != NULL) {
        sim->suballoc(address, nbytes, stream);
    }
}
static inline void cudasim_subfree(const void *address, size_t nbytes, void *stream) {
    const cudasim_api *sim = cudasim_find();
    if (sim != NULL) {
        sim->subfree(address, nbytes, stream);
    }
}

/* An array was exported, used, or let go. */
static inline void cudasim_cai(const cudasim_cai_note *note) {
    const cudasim_api *sim = cudasim_find();
    if (sim != NULL) {
        sim->cai(note);
    }
}

/* The name of a stream in reports. The text is copied. */
static inline void cudasim_name_stream(void *stream, const char *name) {
    const cudasim_api *sim = cudasim_find();
    if (sim != NULL) {
        sim->name_stream(stream, name);
    }
}

/* The name in reports of the operations that this thread enqueues from here on; NULL: the
 * functions' own. */
static inline void cudasim_label(const char *label) {
    const cudasim_api *sim = cudasim_find();
    if (sim != NULL) {
        sim->label(label);
    }
}

/* How many races were found so far. 0 where there is no simulator or no checker. */
static inline size_t cudasim_races(void) {
    const cudasim_api *sim = cudasim_find();
    return sim != NULL ? sim->races() : 0;
}

/*
 * Moves the text of the races found since the last call into `out`, cut at `room` bytes with the
 * NUL, and does not print or count them at exit: for tests that provoke one. Returns how many there
 * were.
 */
static inline size_t cudasim_take_report(char *out, size_t room) {
    const cudasim_api *sim = cudasim_find();
    return sim != NULL ? sim->take_report(out, room) : 0;
}

/* Runs up to so many pending operations, whatever the schedule, and says how many it ran. */
static inline size_t cudasim_step(size_t operations) {
    const cudasim_api *sim = cudasim_find();
    return sim != NULL ? sim->step(operations) : 0;
}

/*
 * Where a kernel finds the bytes of a device address: the address itself but for registered host
 * memory whose device address differs. May be called from a kernel.
 */
static inline void *cudasim_host_address(const void *address) {
    const cudasim_api *sim = cudasim_find();
    return sim != NULL ? sim->host_address(address) : (void *)(uintptr_t)address;
}

/* From inside a kernel: it fails with this CUresult, for example 700, and its context with it. */
static inline void cudasim_fail_kernel(int result) {
    const cudasim_api *sim = cudasim_find();
    if (sim != NULL) {
        sim->fail_kernel(result);
    }
}

#ifdef __cplusplus
}
#endif

#endif /* CUDASIM_H */
