/*
 * A producer whose shape and strides live on the stack: cai_array_create copies the description
 * and takes over the data, which is freed when the last consumer releases the array.
 *
 *     cc 02_produce.c $(pkg-config --cflags --libs cai) && ./a.out
 */
#include <cai/cai.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Hands out every second row of a new matrix of ones, last row first. */
static cai_status export_rows(cai_array *out, cai_error *why) {
    enum { ROWS = 6, COLUMNS = 4 };
    double *matrix = malloc(sizeof(double) * ROWS * COLUMNS);
    int64_t shape[2] = {ROWS / 2, COLUMNS};
    int64_t strides[2] = {-2 * COLUMNS * (int64_t)sizeof(double), (int64_t)sizeof(double)};
    cai_array array = CAI_ARRAY_INIT;
    cai_status status;
    int i;
    if (matrix == NULL) {
        return CAI_ERR_NO_MEMORY;
    }
    for (i = 0; i < ROWS * COLUMNS; i++) {
        matrix[i] = 1;
    }
    /* The element with index zero, which is not the one with the lowest address. */
    array.data = matrix + (ptrdiff_t)(ROWS - 1) * COLUMNS;
    array.shape = shape;
    array.strides = strides;
    array.ndim = 2;
    strcpy(array.typestr, "<f8");
    array.stream = CAI_STREAM_NONE; /* no work is pending on it */
    array.device.type = CAI_DEVICE_CPU;
    status = cai_array_create(&array, matrix, free, out, why);
    if (status != CAI_OK) {
        free(matrix); /* it was not taken over */
    }
    return status;
}

int main(void) {
    cai_array array = CAI_ARRAY_INIT;
    cai_layout layout;
    cai_status status = export_rows(&array, NULL);
    if (status == CAI_OK) {
        status = cai_array_layout(&array, &layout, NULL);
    }
    if (status != CAI_OK) {
        puts(cai_status_message(
            status)); /* in general; a cai_error would say what was wrong this time */
        return 1;
    }
    printf("%lld x %lld of %s, bytes %lld to %lld around its data\n", (long long)array.shape[0],
           (long long)array.shape[1], array.typestr, (long long)layout.lower,
           (long long)layout.upper);
    cai_array_release(&array);
    return 0;
}
