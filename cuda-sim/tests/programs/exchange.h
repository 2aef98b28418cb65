// Arrays that are exchanged by hand: the driver calls that a library would make, then its note.
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
static char owners[8];

// A copy that lives as long as the program.
static struct array *kept(struct array array) {
    static struct array all[32];
    static size_t count;
    CHECK(count == sizeof all / sizeof all[0]);
    all[count] = array;
    return &all[count++];
}

static struct array *make_array(CUdeviceptr at, uint64_t stream) { // N bytes of the first owner
    return kept((struct array){.at = at, .n = N, .stream = stream, .owner = &owners[0]});
}

// --- arrays like another, but for one thing

static struct array *owned_by(struct array array, const void *owner) {
    array.owner = owner;
    return kept(array);
}

static struct array *read_only(struct array array) {
    array.flags |= CUDASIM_CAI_READONLY;
    return kept(array);
}

static struct array *first_bytes(struct array array, size_t n) {
    array.n = n;
    return kept(array);
}

static struct array *exported_on(struct array array, CUstream stream) {
    array.stream = (uint64_t)(uintptr_t)stream;
    return kept(array);
}

static struct array *within(struct array array, CUcontext context) {
    array.context = context;
    return kept(array);
}

// One of two interleaved columns of 4 bytes, with an owner of its own.
static struct array *column(struct array array, size_t which) {
    array.at += which * 4;
    array.owner = &owners[which];
    array.n = 4;
    array.rows = N / 8;
    array.pitch = 8;
    return kept(array);
}

static CUstream stream_of(const struct array *array) { return (CUstream)(uintptr_t)array->stream; }

// Its owner has functions of its own: no library reports when it ends.
static struct array *foreign(struct array array) {
    array.flags |= CUDASIM_CAI_FOREIGN_OWNER;
    CHECK(cuStreamGetId(stream_of(&array), (unsigned long long *)&array.stream_id));
    return kept(array);
}

// --- notes

// A note about a call, which was refused if there is a status, by a rule if there is a number.
static void notify_refused(unsigned kind, const struct array *array, CUstream consumer,
                           unsigned mode, uint64_t status, uint64_t rule) {
    char name[8];
    cudasim_cai_note note = {
        .struct_size = sizeof note,
        .kind = kind,
        .owner = array->owner,
        .bytes = range(array->at, array->n, mode),
        .flags = array->flags,
        .stream = array->stream,
        .stream_id = array->stream_id,
        .context = array->context,
        .consumer = (uint64_t)(uintptr_t)consumer,
        .status = (int32_t)status,
    };
    if (rule != 0) {
        snprintf(name, sizeof name, "R%u", (unsigned)rule);
        note.rule = name;
    }
    if (array->rows != 0) {
        note.bytes.ndim = 1;
        note.bytes.count[0] = array->rows;
        note.bytes.stride[0] = array->pitch;
    }
    cudasim_cai(&note);
}

static void notify(unsigned kind, const struct array *array, CUstream consumer, unsigned mode) {
    notify_refused(kind, array, consumer, mode, 0, 0);
}

static void exports(const struct array *array) {
    const unsigned mode =
        array->flags & CUDASIM_CAI_READONLY ? CUDASIM_READ : CUDASIM_READ | CUDASIM_WRITE;
    notify(CUDASIM_CAI_EXPORT, array, stream_of(array), mode);
}

static int names_stream(const struct array *array) { return array->stream < UNKNOWN_STREAM; }

static void begins(const struct array *array, CUstream consumer, unsigned mode) {
    if (names_stream(array) && stream_of(array) != consumer) order(stream_of(array), consumer);
    notify(CUDASIM_CAI_BEGIN, array, consumer, mode);
}

static void ends(const struct array *array, CUstream consumer, unsigned mode) {
    if (names_stream(array) && stream_of(array) != consumer) order(consumer, stream_of(array));
    notify(CUDASIM_CAI_END, array, consumer, mode);
}

static void reads_properly(const struct array *array, CUstream consumer) {
    begins(array, consumer, CUDASIM_READ);
    reads(consumer, array->at, array->n);
    ends(array, consumer, CUDASIM_READ);
}

static void destroys(void *array) { notify(CUDASIM_CAI_DESTROY, array, NULL, 0); }

#endif
