/*
 * cudasim.h: functions of the simulated CUDA driver beyond cuda.h.
 *
 * Everything here is an inline function that looks up the simulator once, at run time, and does
 * nothing if there is none: a program that uses this header runs unchanged on a real GPU. Nothing
 * needs to be linked. Under `cuda-sim run --shadow` the checker runs beside a real driver; then all
 * functions work, except those that run host functions as kernels.
 *
 * - Kernels: host functions that replace kernels, with the bytes that they read and write.
 *   `cudasim_register` registers them by name, for cuModuleGetFunction and cuLaunchKernel;
 *   `cudasim_launch` enqueues one directly. `cudasim_accesses` declares the accesses of a real one.
 * - Host accesses: `cudasim_host_read` and `cudasim_host_write` report that this thread accesses
 *   memory that the device can access too (pinned, registered, managed).
 * - Order between host threads that the simulator does not observe: `cudasim_hb_before`,
 *   `cudasim_hb_after`.
 * - Allocators on top of the driver's: `cudasim_suballoc`, `cudasim_subfree`.
 * - Arrays that libraries exchange: `cudasim_cai`.
 * - Names in reports: `cudasim_name_stream`, `cudasim_label`.
 *
 * Include <cuda.h>, or another header that defines CUstream and CUresult as CUDA does, before or
 * after; this header needs neither. Streams are passed as `void *`, device addresses as
 * `const void *` or integers.
 *
 * Thread safety: every function may be called from every thread, but not from a host function or a
 * kernel, unless its comment allows it. There it does nothing. The first call of a function without
 * a result that has no effect, there or because an argument is invalid, is reported on stderr.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef CUDASIM_H
#define CUDASIM_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows with the table below. A simulator supports all versions up to its own. */
#define CUDASIM_VERSION 7

/* The mode of an access. Both together: the bytes are read and then written. */
#define CUDASIM_READ 1u
#define CUDASIM_WRITE 2u

#define CUDASIM_MAX_NDIM 8

/*
 * The bytes that an operation touches: blocks of `nbytes` bytes that follow each other
 * contiguously, repeated `count[d]` times at steps of `stride[d]` bytes, for each of `ndim`
 * dimensions. The block at index (0, 0, ...) begins at `address`. Strides may be negative or zero.
 * A contiguous range has `ndim` 0.
 */
typedef struct cudasim_access {
    uint64_t address;
    uint64_t nbytes;
    uint32_t mode; /* CUDASIM_READ, CUDASIM_WRITE or both */
    uint32_t ndim; /* 0 to CUDASIM_MAX_NDIM */
    int64_t count[CUDASIM_MAX_NDIM];
    int64_t stride[CUDASIM_MAX_NDIM];
} cudasim_access;

/* The launch of a kernel: gridDim, blockDim and the size of its shared memory. */
typedef struct cudasim_grid {
    unsigned grid[3];
    unsigned block[3];
    unsigned shared_bytes;
} cudasim_grid;

/*
 * A host function that replaces a kernel.
 *
 * - `name`: the name for cuModuleGetFunction; the mangled name of a C++ kernel.
 * - `run`: performs the work of the whole grid. `args[i]` points to the i-th argument, as in
 *   cuLaunchKernel. Runs on a thread of the simulator, later than the launch; must not call the
 *   driver. NULL: the result is not known, so that all bytes that `accesses` writes become 0xff.
 * - `accesses`: declares the accesses of a launch with these arguments: fills up to `capacity`
 *   elements of `out` and returns the number of accesses. NULL: none. Runs during the launch; calls
 *   of the driver fail there with CUDA_ERROR_NOT_PERMITTED, which is reported on stderr. So are
 *   accesses, or parts of them, that are in no memory of the device: they are not checked.
 * - `nargs`, `arg_sizes`: the number of arguments and the size of each in bytes, to copy them at
 *   the launch.
 */
typedef struct cudasim_kernel {
    const char *name;
    void (*run)(const cudasim_grid *grid, void **args);
    size_t (*accesses)(const cudasim_grid *grid, void **args, cudasim_access *out, size_t capacity);
    size_t nargs;
    const size_t *arg_sizes;
} cudasim_kernel;

/* Events of an array that libraries exchange (the CUDA Array Interface). */
/* A producer exports it: cai_array_produce. */
#define CUDASIM_CAI_EXPORT 1u
/* A consumer made its stream wait: cai_array_consume_begin. */
#define CUDASIM_CAI_BEGIN 2u
/* A consumer made the exported stream wait: cai_array_consume_end. */
#define CUDASIM_CAI_END 3u
/* The host waited: cai_array_synchronize. */
#define CUDASIM_CAI_SYNCHRONIZE 4u
/* The reference is released when a stream reaches this point: cai_owner_release_after. */
#define CUDASIM_CAI_RELEASE_AFTER 5u
/* The last reference was released; the data is freed next. */
#define CUDASIM_CAI_DESTROY 6u

/* Flags of a note. */
#define CUDASIM_CAI_READONLY 1u
/* The owner has functions of its own, so that its end is not reported. */
#define CUDASIM_CAI_FOREIGN_OWNER 2u
/* A begin that ordered nothing: the array's stream is unknown, it has no event, and the consumer
 * did not choose how to go on. Reports count such exchanges. Older simulators ignore this flag. */
#define CUDASIM_CAI_UNORDERED 4u

/*
 * One event, sent after the calls of the driver that belong to it. The library cai sends them;
 * other libraries can send them with `cudasim_cai`. Streams are as in the array: 1 for legacy, 2
 * for per-thread, all ones for none, all ones minus one for unknown, otherwise a CUstream.
 */
typedef struct cudasim_cai_note {
    uint32_t struct_size; /* sizeof(cudasim_cai_note) */
    uint32_t kind;        /* CUDASIM_CAI_EXPORT, ... */
    const void *owner;    /* the owner of the array, by address; NULL: borrowed */
    cudasim_access bytes; /* the bytes of the array; mode: the accesses of the consumer */
    uint32_t flags;       /* CUDASIM_CAI_READONLY, CUDASIM_CAI_FOREIGN_OWNER */
    int32_t status;       /* 0, or the reason why the call was refused */
    uint64_t stream;      /* the array's */
    uint64_t stream_id;   /* its cuStreamGetId; 0: unknown */
    void *context;        /* the context of 1 and 2; NULL: the current one */
    uint64_t consumer;    /* the other side's stream */
    void *consumer_context;
    const char *rule; /* NULL, or the rule of the refusal: "R7", "R8", "R10" */
} cudasim_cai_note;

/* The table of the simulator, looked up at run time. Members are only added at the end. */
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
    size_t (*take_report)(char *out, size_t capacity);
    void (*fail_kernel)(int result);
    void (*cai)(const cudasim_cai_note *note); /* NULL: exchanges are not observed */
    void (*accesses)(void *stream, const char *label, const cudasim_access *accesses, size_t count);
    int (*simulated)(void);
    size_t (*take_json)(char *out, size_t capacity);        /* since version 4 */
    int (*synchronize)(unsigned milliseconds);              /* since version 4 */
    void (*set_condition)(uint64_t handle, unsigned value); /* since version 5 */
    void (*host_waited)(const void *address, size_t nbytes, uint64_t value,
                        unsigned flags); /* since version 6 */
    /* For instrumented code, which collects the accesses of a thread, since version 7: `flush` runs
     * in each thread before its next call. Returns a table: memory of the device is only at
     * addresses whose bits 16 to 35 are the index of a byte that is not 0. NULL: nothing is
     * checked. */
    const unsigned char *(*watch_host)(void (*flush)(void));
    /* Returns the place of an access, of which `pc` is the return address of the hook; 0: it is not
     * checked. With the highest bit, report the access at once. */
    uint32_t (*host_place)(const void *pc);
    void (*host_access_at)(const void *address, size_t nbytes, uint32_t mode, uint32_t place);
} cudasim_api;

/*
 * Returns NULL if no driver is loaded yet, or if it is neither the simulator nor followed by the
 * checker.
 */
static inline const cudasim_api *cudasim_find(void) {
    static const cudasim_api *found; /* all threads write the same value */
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

/* Returns whether the driver is the simulator. 0 for a real one, also if the checker follows it. */
static inline int cudasim_present(void) {
    const cudasim_api *sim = cudasim_find();
    return sim != NULL && sim->simulated();
}

/*
 * Registers kernels by name. The array is copied; what its elements point to must remain valid. A
 * kernel without a name is reported on stderr, and ignored.
 *
 * May be called before the driver is loaded if the program runs under `cuda-sim run`, which states
 * a schedule in the environment: this function loads the driver then. Without it, nothing is
 * registered before the driver is loaded.
 */
static inline void cudasim_register(const cudasim_kernel *kernels, size_t count) {
    const cudasim_api *sim = cudasim_find();
    if (sim == NULL && getenv("CUDASIM_SCHEDULE") != NULL &&
        dlopen("libcuda.so.1", RTLD_LAZY) != NULL) {
        sim = cudasim_find();
    }
    if (sim != NULL) {
        sim->register_kernels(kernels, count);
    }
}

/*
 * Enqueues `run(copy of data)` on a stream, as a kernel that reads and writes `accesses`. Returns
 * the CUresult of cuLaunchKernel; 801 (not supported) without the simulator, also under `--shadow`.
 * `label` is its name in reports. `run` may be NULL, as in cudasim_kernel.
 */
static inline int cudasim_launch(void *stream, const char *label, void (*run)(void *data),
                                 const void *data, size_t size, const cudasim_access *accesses,
                                 size_t count) {
    const cudasim_api *sim = cudasim_find();
    return sim != NULL ? sim->launch(stream, label, run, data, size, accesses, count) : 801;
}

/*
 * Declares the accesses of a real kernel, of one whose function declares none, or of a host
 * function. Call it right before or after the launch on the same stream, also while that captures:
 * the place in the stream counts.
 */
static inline void cudasim_accesses(void *stream, const char *label, const cudasim_access *accesses,
                                    size_t count) {
    const cudasim_api *sim = cudasim_find();
    if (sim != NULL) {
        sim->accesses(stream, label, accesses, count);
    }
}

/*
 * Report that this thread reads, or writes, these bytes now. Memory that the device cannot access
 * is ignored. The accesses of a host function or a kernel are declared with `cudasim_accesses`
 * instead.
 */
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
 * Everything that this thread did before `cudasim_hb_before` happens before everything that another
 * thread does after `cudasim_hb_after` on the same address. Locks, condition variables, semaphores,
 * thread creation and joining, pipes, sockets and OpenMP are observed if `cuda-sim run` started the
 * program; synchronization by atomics is not. May be called anywhere.
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
 * Reports that this thread has read a number of 4 or 8 bytes that a stream writes with
 * cuStreamWriteValue32 or cuStreamWriteValue64, and that it satisfies the comparison with `value`:
 * `flags` is as in cuStreamWaitValue32, 0 for "at least". What happens before the writes that may
 * have satisfied it happens before everything that this thread does afterwards. Call it after the
 * loop that polls.
 */
static inline void cudasim_host_waited(const void *address, size_t nbytes, uint64_t value,
                                       unsigned flags) {
    const cudasim_api *sim = cudasim_find();
    if (sim != NULL) {
        sim->host_waited(address, nbytes, value, flags);
    }
}

/*
 * For allocators that divide memory of the driver: these bytes are allocated for, and returned
 * from, work on `stream`. Work on another stream that is not ordered before the return is a race,
 * as with cuMemFreeAsync. CUDASIM_HOST as the stream is this thread.
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

/* Reports that an array was exported, used, or released. */
static inline void cudasim_cai(const cudasim_cai_note *note) {
    const cudasim_api *sim = cudasim_find();
    if (sim != NULL && sim->cai != NULL) {
        sim->cai(note);
    }
}

/* Sets the name of a stream in reports. The text is copied. */
static inline void cudasim_name_stream(void *stream, const char *name) {
    const cudasim_api *sim = cudasim_find();
    if (sim != NULL) {
        sim->name_stream(stream, name);
    }
}

/*
 * Sets the name in reports for operations that this thread enqueues from here on; NULL for the
 * names of the functions. May be called before cuInit.
 */
static inline void cudasim_label(const char *label) {
    const cudasim_api *sim = cudasim_find();
    if (sim != NULL) {
        sim->label(label);
    }
}

/* Returns the number of races found so far; 0 without simulator or checker. */
static inline size_t cudasim_races(void) {
    const cudasim_api *sim = cudasim_find();
    return sim != NULL ? sim->races() : 0;
}

/*
 * Moves the text of the races found since the last call into `out`, truncated to `capacity` bytes
 * with the NUL. They are not printed or counted at exit. For tests that provoke a race. Returns the
 * number of races.
 */
static inline size_t cudasim_take_report(char *out, size_t capacity) {
    const cudasim_api *sim = cudasim_find();
    return sim != NULL ? sim->take_report(out, capacity) : 0;
}

/*
 * Moves the races found since the last call into `out`, as a JSON array with the members that
 * `--report` writes, if `capacity` bytes are enough for it and its NUL. Returns the number of bytes
 * that are needed; 0 if there are no races.
 */
static inline size_t cudasim_take_json(char *out, size_t capacity) {
    const cudasim_api *sim = cudasim_find();
    return sim != NULL ? sim->take_json(out, capacity) : 0;
}

/*
 * Waits until all work of all contexts is done, at most for a time, as between two tests in one
 * process. What is done then happens before everything that this thread does afterwards. Returns 0;
 * 600 if work is left; 801 without the simulator, also under `--shadow`.
 */
static inline int cudasim_synchronize(unsigned milliseconds) {
    const cudasim_api *sim = cudasim_find();
    return sim != NULL ? sim->synchronize(milliseconds) : 801;
}

/* Runs up to `operations` pending operations, under any schedule. Returns the number that ran. */
static inline size_t cudasim_step(size_t operations) {
    const cudasim_api *sim = cudasim_find();
    return sim != NULL ? sim->step(operations) : 0;
}

/*
 * Returns the host address of the bytes of a device address: the same, except for registered host
 * memory whose device address differs. May be called from a kernel.
 */
static inline void *cudasim_host_address(const void *address) {
    const cudasim_api *sim = cudasim_find();
    return sim != NULL ? sim->host_address(address) : (void *)(uintptr_t)address;
}

/*
 * Sets the value of a CUgraphConditionalHandle, as cudaGraphSetConditional does in device code.
 * Called from a kernel.
 */
static inline void cudasim_set_condition(uint64_t handle, unsigned value) {
    const cudasim_api *sim = cudasim_find();
    if (sim != NULL) {
        sim->set_condition(handle, value);
    }
}

/*
 * Makes the current kernel, and its context, fail with this CUresult, for example 700. Called from
 * a kernel.
 */
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
