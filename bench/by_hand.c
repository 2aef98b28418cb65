/* The other side of the comparison, in a file of its own, as a library would be: nothing is inlined
 * into the loop that measures. */
#include "exchange.h"

static int hand_dtype(const char *t, int64_t *itemsize) {
    int64_t size = 0;
    int i = 2;
    if (t[0] != '<' && t[0] != '>' && t[0] != '|') return -1;
    for (; t[i] >= '0' && t[i] <= '9' && i < 15; i++)
        size = size * 10 + (t[i] - '0');
    if (i == 2 || t[i] != '\0') return -1;
    switch (t[1]) {
    case 'b':
        if (size != 1) return -1;
        break;
    case 'i':
    case 'u':
    case 'f':
        if (size != 1 && size != 2 && size != 4 && size != 8 && size != 16) return -1;
        break;
    case 'c':
        if (size != 4 && size != 8 && size != 16 && size != 32) return -1;
        break;
    default: return -1;
    }
    *itemsize = size;
    return 0;
}

int hand_validate(const cai_array *a) {
    int64_t itemsize, count = 1, bytes, lower = 0, upper;
    uint64_t end;
    if (a == NULL || a->struct_size < sizeof(*a) || (a->flags & ~1u) != 0 || a->version > 3)
        return -1;
    if (hand_dtype(a->typestr, &itemsize) != 0 || a->ndim < 0 || a->ndim > CAI_MAX_NDIM) return -1;
    if (a->ndim > 0 && a->shape == NULL) return -1;
    upper = itemsize;
    for (int i = 0; i < a->ndim; i++) {
        if (a->shape[i] < 0 || __builtin_mul_overflow(count, a->shape[i], &count)) return -1;
    }
    if (__builtin_mul_overflow(count, itemsize, &bytes)) return -1;
    if (count == 0) {
        upper = 0;
    } else if (a->strides == NULL) {
        upper = bytes;
    } else {
        for (int i = 0; i < a->ndim; i++) {
            int64_t reach;
            if (__builtin_mul_overflow(a->shape[i] - 1, a->strides[i], &reach)) return -1;
            if (__builtin_add_overflow(reach < 0 ? lower : upper, reach,
                                       reach < 0 ? &lower : &upper)) {
                return -1;
            }
        }
    }
    if ((count == 0) != (a->data == NULL) || a->byte_offset != 0) return -1;
    if (a->device.type < 0 || a->device.type > 18 || a->device.id < 0) return -1;
    if ((uint64_t)(uintptr_t)a->data < 0 - (uint64_t)lower && lower != 0) return -1;
    if (__builtin_add_overflow((uint64_t)(uintptr_t)a->data, (uint64_t)upper, &end)) return -1;
    if (a->stream == 0 || a->stream_id != 0 || a->event != NULL || a->version < 3) return -1;
    return a->mask == NULL && a->descr == NULL ? 0 : -1;
}

void hand_retain(tensor *t) { __atomic_fetch_add(&t->count, 1, __ATOMIC_RELAXED); }

void hand_release(tensor *t) {
    if (__atomic_fetch_sub(&t->count, 1, __ATOMIC_ACQ_REL) == 1) t->data = NULL;
}

static void dl_delete(dl_managed *m) {
    hand_release(m->context);
    free(m);
}

dl_managed *dl_make(tensor *t) {
    dl_managed *m = malloc(sizeof(*m) + 2 * NDIM * sizeof(int64_t));
    int64_t *numbers = (int64_t *)(m + 1);
    if (m == NULL) return NULL;
    for (int i = 0; i < NDIM; i++) {
        numbers[i] = t->shape[i];
        numbers[NDIM + i] = t->strides[i] / 4;
    }
    m->major = 1;
    m->minor = 3;
    m->context = t;
    m->deleter = dl_delete;
    m->flags = 0;
    m->tensor.data = t->data;
    m->tensor.device_type = 2;
    m->tensor.device_id = 0;
    m->tensor.ndim = NDIM;
    m->tensor.code = 2;
    m->tensor.bits = 32;
    m->tensor.lanes = 1;
    m->tensor.shape = numbers;
    m->tensor.strides = numbers + NDIM;
    m->tensor.byte_offset = 0;
    hand_retain(t);
    return m;
}

int dl_consume(const dl_managed *m) {
    int64_t count = 1;
    if (m == NULL || m->major != 1 || m->tensor.ndim < 0 || m->tensor.data == NULL) return -1;
    if (m->tensor.code > 17 || m->tensor.lanes != 1 || m->tensor.device_type != 2) return -1;
    for (int i = 0; i < m->tensor.ndim; i++) {
        if (m->tensor.shape[i] < 0 || __builtin_mul_overflow(count, m->tensor.shape[i], &count))
            return -1;
    }
    return 0;
}
