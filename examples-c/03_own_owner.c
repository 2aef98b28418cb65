/*
 * A producer that has a reference count already: it embeds a `cai_owner` in its own object, and
 * exports the object without allocating memory.
 *
 *     cc 03_own_owner.c $(pkg-config --cflags --libs cai) && ./a.out
 */
#include <cai/cai.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    cai_owner owner; /* the first member, so that a pointer to it points to the buffer */
    long count;
    int64_t shape[1];
    float *data;
} buffer;

static void buffer_retain(cai_owner *owner) {
    __atomic_fetch_add(&((buffer *)owner)->count, 1, __ATOMIC_RELAXED);
}

static void buffer_release(cai_owner *owner) {
    buffer *self = (buffer *)owner;
    if (__atomic_fetch_sub(&self->count, 1, __ATOMIC_ACQ_REL) == 1) {
        puts("buffer freed");
        free(self->data);
        free(self);
    }
}

static const cai_owner_ops buffer_ops = {sizeof(cai_owner_ops), 0, buffer_retain, buffer_release};

static buffer *buffer_new(int64_t length) {
    buffer *self = malloc(sizeof(*self));
    if (self == NULL) {
        return NULL;
    }
    self->owner.ops = &buffer_ops;
    self->count = 1;
    self->shape[0] = length;
    self->data = calloc((size_t)length, sizeof(float));
    if (self->data == NULL) {
        free(self);
        return NULL;
    }
    return self;
}

/* Returns a borrowed array: a consumer that keeps it adds a reference. Its shape and data belong to
 * the object. */
static cai_array buffer_describe(buffer *self) {
    cai_array array = CAI_ARRAY_INIT;
    array.owner = &self->owner;
    array.data = self->data;
    array.shape = self->shape;
    array.ndim = 1;
    strcpy(array.typestr, "<f4");
    array.stream = CAI_STREAM_NONE;
    array.device.type = CAI_DEVICE_CPU;
    return array;
}

int main(void) {
    buffer *mine = buffer_new(100);
    cai_array described, kept = CAI_ARRAY_INIT;
    cai_error why;
    if (mine == NULL) {
        return 1;
    }
    described = buffer_describe(mine);
    if (cai_array_validate(&described, CAI_CHECK_LAYOUT, &why) != CAI_OK ||
        cai_array_share(&described, &kept, &why) != CAI_OK) {
        puts(why.message);
        return 1;
    }
    cai_owner_release(&mine->owner); /* the producer's reference; the consumer has one */
    printf("%lld elements still there\n", (long long)kept.shape[0]);
    cai_array_release(&kept);
    return 0;
}
