/*
 * A producer: describes a slice with negative strides and exports it. `cai_array_create` copies the
 * description, which is on the stack, and takes over the data. The last release of the array frees
 * the data.
 *
 *     cc 02_produce.c $(pkg-config --cflags --libs cai) && ./a.out
 */
#include <cai/cai.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Exports every second row of a new matrix of ones, in reverse order. */
static cai_status export_rows(cai_array *out, cai_error *why) {
    enum { ROWS = 6, COLUMNS = 4 };
    double *matrix = malloc(sizeof(double) * ROWS * COLUMNS);
    int64_t shape[2] = {ROWS / 2, COLUMNS};
    int64_t strides[2] = {-2 * COLUMNS * (int64_t)sizeof(double), (int64_t)sizeof(double)};
    cai_array array = CAI_ARRAY_INIT;
    if (matrix == NULL) {
        return CAI_ERR_NO_MEMORY;
    }
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        matrix[i] = 1;
    }
    /* The address of element (0, 0). With a negative stride it is not the lowest address. */
    array.data = matrix + (ptrdiff_t)(ROWS - 1) * COLUMNS;
    array.shape = shape;
    array.strides = strides;
    array.ndim = 2;
    strcpy(array.typestr, "<f8");
    array.stream = CAI_STREAM_NONE; /* no work is pending on it */
    array.device.type = CAI_DEVICE_CPU;
    cai_status status = cai_array_create(&array, matrix, free, out, why);
    if (status != CAI_OK) {
        free(matrix); /* on failure, the data is still ours */
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
        /* A general text. Pass a cai_error instead of NULL for the field and the value found. */
        puts(cai_status_message(status));
        return 1;
    }
    printf("%lld x %lld of %s, bytes %lld to %lld around its data\n", (long long)array.shape[0],
           (long long)array.shape[1], array.typestr, (long long)layout.lower,
           (long long)layout.upper);
    cai_array_release(&array);
    return 0;
}
