/*
 * The functions that compilers call for each access of instrumented code (-fsanitize=thread),
 * without a sanitizer: accesses to memory that the device can access, too, are reported to the race
 * checker of cuda-sim. Others cost a few instructions, and so does everything where there is no
 * simulator.
 *
 * A function that walks through an array accesses it from one instruction: each instruction's
 * contiguous accesses are collected, and reported before the thread's next call that may order it.
 * Atomic operations order threads as they do in the C standard.
 *
 * Linked statically into each instrumented module, which must not be unloaded.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <cudasim.h>
#include <stdbool.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* Contiguous accesses from one instruction. */
struct run {
    uintptr_t pc, start, end;
    uint32_t mode, place;
};

#define RUNS 16
static __thread struct run runs[RUNS];
static __thread bool pending, busy;

/* Where there may be memory of the device: see cudasim.h. NULL: no simulator, or no checker. */
static const unsigned char *memory;
static const cudasim_api *sim;

#define AT_ONCE 0x80000000u

static void report(struct run *run) {
    if (run->pc != 0) {
        run->pc = 0;
        sim->host_access_at((const void *)run->start, run->end - run->start, run->mode, run->place);
    }
}

static void flush(void) {
    if (!pending || busy) return;
    busy = true;
    pending = false;
    for (int i = 0; i < RUNS; ++i)
        report(&runs[i]);
    busy = false;
}

__attribute__((noinline)) static void touched(uintptr_t at, size_t size, uint32_t mode,
                                              uintptr_t pc) {
    struct run *run = &runs[(pc ^ pc >> 5) % RUNS];
    if (busy) return;
    if (run->pc == pc && run->mode == mode) {
        if (at >= run->start && at + size <= run->end) return;
        if (at == run->end) {
            run->end += size;
            return;
        }
        if (at + size == run->start) {
            run->start = at;
            return;
        }
    }
    busy = true;
    report(run);
    uint32_t place = sim->host_place((const void *)pc);
    if (place != 0) {
        *run = (struct run){pc, at, at + size, mode, place};
        pending = true;
        if (place & AT_ONCE) report(run);
    }
    busy = false;
}

static inline void check(const void *at, size_t size, uint32_t mode, void *pc) {
    const unsigned char *table = __atomic_load_n(&memory, __ATOMIC_RELAXED);
    if (table != NULL && table[(uintptr_t)at >> 16 & 0xfffff] != 0 && size != 0)
        touched((uintptr_t)at, size, mode, (uintptr_t)pc);
}

/* The same for ranges that are longer than a unit of the table. */
static inline void check_range(const void *at, size_t size, uint32_t mode, void *pc) {
    const unsigned char *table = __atomic_load_n(&memory, __ATOMIC_RELAXED);
    if (table == NULL) return;
    for (size_t done = 0; done < size; done += 0x10000)
        if (table[((uintptr_t)at + done) >> 16 & 0xfffff] != 0) {
            touched((uintptr_t)at, size, mode, (uintptr_t)pc);
            return;
        }
    if (size != 0) check((const char *)at + size - 1, 1, mode, pc);
}

/* The functions of the C library, which gcc calls without a hook. */
static void *(*next_memcpy)(void *, const void *, size_t);
static void *(*next_memmove)(void *, const void *, size_t);
static void *(*next_memset)(void *, int, size_t);

/* Loads the driver as cudasim_register does: the first access may be before its first use. */
__attribute__((constructor)) static void start(void) {
    *(void **)&next_memcpy = dlsym(RTLD_NEXT, "memcpy");
    *(void **)&next_memmove = dlsym(RTLD_NEXT, "memmove");
    *(void **)&next_memset = dlsym(RTLD_NEXT, "memset");
    sim = cudasim_find();
    if (sim == NULL && (getenv("CUDASIM_SCHEDULE") != NULL || getenv("CUDASIM_REAL") != NULL) &&
        dlopen("libcuda.so.1", RTLD_LAZY) != NULL)
        sim = cudasim_find();
    if (sim != NULL) __atomic_store_n(&memory, sim->watch_host(flush), __ATOMIC_RELEASE);
}

#define HOOK __attribute__((visibility("hidden"))) void
#define PC __builtin_return_address(0)

HOOK __tsan_init(void) {}
HOOK __tsan_func_entry(void *pc) { (void)pc; }
HOOK __tsan_func_exit(void) {}
HOOK __tsan_vptr_update(void **at, void *value) {
    (void)value;
    check(at, sizeof *at, CUDASIM_WRITE, PC);
}
HOOK __tsan_vptr_read(void **at) { check(at, sizeof *at, CUDASIM_READ, PC); }
HOOK __tsan_read_range(void *at, size_t size) { check_range(at, size, CUDASIM_READ, PC); }
HOOK __tsan_write_range(void *at, size_t size) { check_range(at, size, CUDASIM_WRITE, PC); }

#define ACCESSES(size)                                                                            \
    HOOK __tsan_read##size(void *at) { check(at, size, CUDASIM_READ, PC); }                       \
    HOOK __tsan_write##size(void *at) { check(at, size, CUDASIM_WRITE, PC); }                     \
    HOOK __tsan_read_write##size(void *at) { check(at, size, CUDASIM_READ | CUDASIM_WRITE, PC); } \
    HOOK __tsan_volatile_read##size(void *at) { check(at, size, CUDASIM_READ, PC); }              \
    HOOK __tsan_volatile_write##size(void *at) { check(at, size, CUDASIM_WRITE, PC); }            \
    HOOK __tsan_unaligned_read##size(void *at) { check(at, size, CUDASIM_READ, PC); }             \
    HOOK __tsan_unaligned_write##size(void *at) { check(at, size, CUDASIM_WRITE, PC); }           \
    HOOK __tsan_unaligned_read_write##size(void *at) {                                            \
        check(at, size, CUDASIM_READ | CUDASIM_WRITE, PC);                                        \
    }                                                                                             \
    HOOK __tsan_unaligned_volatile_read##size(void *at) { check(at, size, CUDASIM_READ, PC); }    \
    HOOK __tsan_unaligned_volatile_write##size(void *at) { check(at, size, CUDASIM_WRITE, PC); }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

/* Atomic operations. What a release stores happens before what an acquire loads it does. */

static void before(const volatile void *at, int order) {
    if (memory != NULL && order >= __ATOMIC_RELEASE) sim->hb_before((const void *)at);
}

static void after(const volatile void *at, int order) {
    if (memory != NULL && order != __ATOMIC_RELAXED && order != __ATOMIC_RELEASE)
        sim->hb_after((const void *)at);
}

#define FETCH(bits, type, name, operation)                                   \
    __attribute__((visibility("hidden"))) type __tsan_atomic##bits##_##name( \
        volatile type *at, type value, int order) {                          \
        before(at, order);                                                   \
        type old = operation(at, value, __ATOMIC_SEQ_CST);                   \
        after(at, order);                                                    \
        return old;                                                          \
    }
#define EXCHANGE(bits, type, strength, weak)                                                     \
    __attribute__((visibility("hidden"))) int __tsan_atomic##bits##_compare_exchange_##strength( \
        volatile type *at, type *expected, type value, int order, int failed) {                  \
        before(at, order);                                                                       \
        int done = __atomic_compare_exchange_n(at, expected, value, weak, __ATOMIC_SEQ_CST,      \
                                               __ATOMIC_SEQ_CST);                                \
        after(at, done ? order : failed);                                                        \
        return done;                                                                             \
    }
#define ATOMICS(bits, type)                                                                        \
    __attribute__((visibility("hidden"))) type __tsan_atomic##bits##_load(const volatile type *at, \
                                                                          int order) {             \
        type value = __atomic_load_n(at, __ATOMIC_SEQ_CST);                                        \
        after(at, order);                                                                          \
        return value;                                                                              \
    }                                                                                              \
    HOOK __tsan_atomic##bits##_store(volatile type *at, type value, int order) {                   \
        before(at, order);                                                                         \
        __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                             \
    }                                                                                              \
    FETCH(bits, type, exchange, __atomic_exchange_n)                                               \
    FETCH(bits, type, fetch_add, __atomic_fetch_add)                                               \
    FETCH(bits, type, fetch_sub, __atomic_fetch_sub)                                               \
    FETCH(bits, type, fetch_and, __atomic_fetch_and)                                               \
    FETCH(bits, type, fetch_or, __atomic_fetch_or)                                                 \
    FETCH(bits, type, fetch_xor, __atomic_fetch_xor)                                               \
    FETCH(bits, type, fetch_nand, __atomic_fetch_nand)                                             \
    EXCHANGE(bits, type, strong, false)                                                            \
    EXCHANGE(bits, type, weak, true)                                                               \
    __attribute__((visibility("hidden"))) type __tsan_atomic##bits##_compare_exchange_val(         \
        volatile type *at, type expected, type value, int order, int failed) {                     \
        __tsan_atomic##bits##_compare_exchange_strong(at, &expected, value, order, failed);        \
        return expected;                                                                           \
    }
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)
HOOK __tsan_atomic_thread_fence(int order) {
    (void)order;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
HOOK __tsan_atomic_signal_fence(int order) {
    (void)order;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* Before the constructor has run, bytes are copied one by one. */
static void *copy_forward(void *to, const void *from, size_t size) {
    for (size_t i = 0; i < size; ++i)
        ((volatile char *)to)[i] = ((const volatile char *)from)[i];
    return to;
}

static void *copy(void *to, const void *from, size_t size, void *pc) {
    check_range(from, size, CUDASIM_READ, pc);
    check_range(to, size, CUDASIM_WRITE, pc);
    return next_memcpy != NULL ? next_memcpy(to, from, size) : copy_forward(to, from, size);
}

static void *move(void *to, const void *from, size_t size, void *pc) {
    check_range(from, size, CUDASIM_READ, pc);
    check_range(to, size, CUDASIM_WRITE, pc);
    if (next_memmove != NULL) return next_memmove(to, from, size);
    if ((uintptr_t)to - (uintptr_t)from >= size) return copy_forward(to, from, size);
    while (size-- > 0)
        ((volatile char *)to)[size] = ((const volatile char *)from)[size];
    return to;
}

static void *set(void *to, int byte, size_t size, void *pc) {
    check_range(to, size, CUDASIM_WRITE, pc);
    if (next_memset != NULL) return next_memset(to, byte, size);
    for (size_t i = 0; i < size; ++i)
        ((volatile char *)to)[i] = (char)byte;
    return to;
}

#define REPLACED __attribute__((visibility("hidden"))) void *
REPLACED memcpy(void *to, const void *from, size_t size) { return copy(to, from, size, PC); }
REPLACED memmove(void *to, const void *from, size_t size) { return move(to, from, size, PC); }
REPLACED memset(void *to, int byte, size_t size) { return set(to, byte, size, PC); }
REPLACED __tsan_memcpy(void *to, const void *from, size_t size) { return copy(to, from, size, PC); }
REPLACED __tsan_memmove(void *to, const void *from, size_t size) {
    return move(to, from, size, PC);
}
REPLACED __tsan_memset(void *to, int byte, size_t size) { return set(to, byte, size, PC); }
