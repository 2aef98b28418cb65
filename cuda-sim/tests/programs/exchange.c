// What the programs about exchanged arrays share.
#include "exchange.h"

char owners[8];

struct array make_array(CUdeviceptr at, CUstream stream) {
    return (struct array){
        .at = at, .n = N, .stream = (uint64_t)(uintptr_t)stream, .owner = &owners[0]};
}

static cudasim_cai_note about(unsigned kind, const struct array *array, uint64_t consumer,
                              unsigned mode) {
    cudasim_cai_note note = {
        .struct_size = sizeof note,
        .kind = kind,
        .owner = array->owner,
        .bytes = range(array->at, array->n, mode),
        .flags = array->flags,
        .stream = array->stream,
        .stream_id = array->stream_id,
        .context = array->context,
        .consumer = consumer,
    };
    if (array->rows != 0) {
        note.bytes.ndim = 1;
        note.bytes.count[0] = array->rows;
        note.bytes.stride[0] = array->pitch;
    }
    return note;
}

void notify(unsigned kind, const struct array *array, CUstream consumer, unsigned mode) {
    const cudasim_cai_note note = about(kind, array, (uint64_t)(uintptr_t)consumer, mode);
    cudasim_cai(&note);
}

void notify_refused(unsigned kind, const struct array *array, uint64_t consumer, int status,
                    const char *rule) {
    cudasim_cai_note note = about(kind, array, consumer, CUDASIM_READ);
    note.status = status;
    note.rule = rule;
    cudasim_cai(&note);
}

void exports(const struct array *array) {
    const unsigned mode =
        array->flags & CUDASIM_CAI_READONLY ? CUDASIM_READ : CUDASIM_READ | CUDASIM_WRITE;
    notify(CUDASIM_CAI_EXPORT, array, stream_of(array), mode);
}

static int names_stream(const struct array *array) { return array->stream < UNKNOWN_STREAM; }

void begins(const struct array *array, CUstream consumer, unsigned mode) {
    if (names_stream(array) && stream_of(array) != consumer) order(stream_of(array), consumer);
    notify(CUDASIM_CAI_BEGIN, array, consumer, mode);
}

void ends(const struct array *array, CUstream consumer, unsigned mode) {
    if (names_stream(array) && stream_of(array) != consumer) order(consumer, stream_of(array));
    notify(CUDASIM_CAI_END, array, consumer, mode);
}

void destroys(const struct array *array) { notify(CUDASIM_CAI_DESTROY, array, NULL, 0); }

void reads_properly(const struct array *array, CUstream consumer) {
    begins(array, consumer, CUDASIM_READ);
    reads(consumer, array->at, array->n);
    ends(array, consumer, CUDASIM_READ);
}
