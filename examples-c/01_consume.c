/*
 * A minimal consumer: validates an array, keeps it, reads it through its strides, and releases it.
 * Also shows the error that an invalid array causes.
 *
 *     cc 01_consume.c $(pkg-config --cflags --libs cai) && ./a.out
 *
 * The data is in host memory, so this program runs without a GPU. For device memory, replace the
 * loop by a kernel between `cai_array_consume_begin` and `cai_array_consume_end`: see 06_streams.c.
 */
#include <cai/cai.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The library's own reference to the array that it received. */
static cai_array kept = CAI_ARRAY_INIT;

static cai_status take(const cai_array *array, cai_error *why) {
    cai_status status = cai_array_validate(array, CAI_CHECK_LAYOUT | CAI_CHECK_ALIGNMENT, why);
    if (status != CAI_OK) {
        return status;
    }
    /* Do not copy with `kept = *array`: the producer may use a shorter version of the structure. */
    return cai_array_share(array, &kept, why);
}

/* A valid array may still be one that this consumer cannot read. */
static bool can_sum(const cai_array *array) {
    return strcmp(array->typestr, "<f4") == 0 && array->ndim == 2 && array->mask == NULL &&
           array->device.type == CAI_DEVICE_CPU && array->stream == CAI_STREAM_NONE;
}

static double sum(void) {
    int64_t strides[2], i, j;
    double total = 0;
    /* Computes the strides if the array has none, because it is in C order. */
    if (!can_sum(&kept) || cai_array_strides(&kept, strides, 2, NULL) != CAI_OK) {
        return NAN;
    }
    for (i = 0; i < kept.shape[0]; i++) {
        for (j = 0; j < kept.shape[1]; j++) {
            total +=
                (double)*(const float *)((const char *)kept.data + i * strides[0] + j * strides[1]);
        }
    }
    return total;
}

static void destroyed(void *context) { printf("%s released\n", (const char *)context); }

int main(void) {
    static float data[6] = {1, 2, 3, 4, 5, 6};
    static const int64_t shape[2] = {2, 3};
    static char name[] = "the data";
    cai_array array = CAI_ARRAY_INIT;
    cai_error why;
    if (cai_owner_create(name, destroyed, &array.owner, &why) != CAI_OK) {
        return 1;
    }
    array.data = data;
    array.shape = shape;
    array.ndim = 2;
    strcpy(array.typestr, "<f4");
    array.device.type = CAI_DEVICE_CPU;

    /* The stream is not set yet: the array is rejected with a message. */
    if (take(&array, &why) != CAI_OK) {
        printf("%s\n  %s\n", cai_status_name(why.code), why.message);
    }
    array.stream = CAI_STREAM_NONE;
    if (take(&array, &why) != CAI_OK) {
        puts(why.message);
        return 1;
    }
    cai_array_release(&array);
    printf("sum %g\n", sum());
    cai_array_release(&kept);
    return 0;
}
