/*
 * Preloaded: allocations of one thread fail from the n-th one on, during a call. Those of other
 * threads, and all others of this one, succeed.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

/* Allocations until the next one fails; negative: none fails. */
static __thread long budget __attribute__((tls_model("initial-exec"))) = -1;
static __thread long failures __attribute__((tls_model("initial-exec")));

/* Calls a function of the library with the n-th allocation failing, and all later ones. */
typedef int (*library_call)(size_t, size_t, size_t, size_t);
int failing_malloc_call(long n, library_call function, size_t a, size_t b, size_t c, size_t d);
int failing_malloc_call(long n, library_call function, size_t a, size_t b, size_t c, size_t d) {
    failures = 0;
    budget = n;
    int status = function(a, b, c, d);
    budget = -1;
    return status;
}

/* How many allocations have failed in the last call. */
long failing_malloc_failures(void);
long failing_malloc_failures(void) { return failures; }

static int fails(void) {
    if (budget == 0) {
        failures++;
        errno = ENOMEM; /* the C library relies on it */
        return 1;
    }
    budget -= budget > 0;
    return 0;
}

void *malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return fails() ? NULL : __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { return fails() ? NULL : __libc_realloc(old, size); }
void *memalign(size_t alignment, size_t size) {
    return fails() ? NULL : __libc_memalign(alignment, size);
}
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void **out, size_t alignment, size_t size) {
    void *memory = memalign(alignment, size);
    if (memory == NULL) return ENOMEM;
    *out = memory;
    return 0;
}
