// Arrays that are exchanged by hand: the calls of the driver that a library would make, and then
// its note.
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include "race_test.h"

#define NO_STREAM UINT64_MAX
#define UNKNOWN_STREAM (UINT64_MAX - 1)

// An array of a producer: its owner is known by its address.
struct array {
    CUdeviceptr at;
    size_t n;
    uint64_t stream, stream_id;
    const void *owner;
    unsigned flags;
    CUcontext context;
    int64_t rows, pitch; // 0 rows: n bytes in one piece; otherwise n bytes of each row
};

// Addresses for owners.
extern char owners[8];

struct array make_array(CUdeviceptr at, CUstream stream); // N bytes of the first owner

// A note alone, and one about a call that was refused.
void notify(unsigned kind, const struct array *array, CUstream consumer, unsigned mode);
void notify_refused(unsigned kind, const struct array *array, uint64_t consumer, int status,
                    const char *rule);

void exports(const struct array *array);
void begins(const struct array *array, CUstream consumer, unsigned mode);
void ends(const struct array *array, CUstream consumer, unsigned mode);
void destroys(const struct array *array);
void reads_properly(const struct array *array, CUstream consumer);

static inline CUstream stream_of(const struct array *array) {
    return (CUstream)(uintptr_t)array->stream;
}

#endif
