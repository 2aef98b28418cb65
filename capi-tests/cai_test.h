/*
 * What the C tests share: an ASSERT that survives NDEBUG, owners that count their destruction, and
 * an array that is valid and can be broken field by field. Each test is a program that exits with
 * 0. Cases of the same shape are rows of a table: macros whose first argument is what differs from
 * the other rows, and the name of the row.
 */
#ifndef CAI_TEST_H
#define CAI_TEST_H

#include <cai/cai.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The row of a table that is being tested, which a failure names. */
static const char *test_row;

#define FAIL(...)                                                    \
    do {                                                             \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);              \
        if (test_row != NULL) fprintf(stderr, "row %s: ", test_row); \
        fprintf(stderr, __VA_ARGS__);                                \
        fputc('\n', stderr);                                         \
        exit(1);                                                     \
    } while (0)

#define ASSERT(condition)                                   \
    do {                                                    \
        if (!(condition)) FAIL("not true: %s", #condition); \
    } while (0)

#define ASSERT_STATUS(expected, call)                                                             \
    do {                                                                                          \
        cai_status got_ = (call);                                                                 \
        if (got_ != (expected)) {                                                                 \
            FAIL("%s: %s, expected %s", #call, cai_status_name(got_), cai_status_name(expected)); \
        }                                                                                         \
    } while (0)

#define ASSERT_TEXT(expected, text)                                                               \
    do {                                                                                          \
        if (strcmp((expected), (text)) != 0) FAIL("\"%s\", expected \"%s\"", (text), (expected)); \
    } while (0)

#define ASSERT_CONTAINS(text, part)                                                      \
    do {                                                                                 \
        if (strstr((text), (part)) == NULL) FAIL("\"%s\" lacks \"%s\"", (text), (part)); \
    } while (0)

/* The callback of an owner whose context is a counter. */
static inline void count_destroy(void *context) { ++*(int *)context; }

static inline cai_owner *counting_owner(int *destroyed) {
    cai_owner *owner = NULL;
    ASSERT_STATUS(CAI_OK, cai_owner_create(destroyed, count_destroy, &owner, NULL));
    ASSERT(owner != NULL);
    return owner;
}

/* Host memory that stands for a device's: nothing here reads it. */
/* Aligned for every type: elsewhere than on x86-64, compilers align it for its own only. */
#ifdef __GNUC__
__attribute__((aligned(32)))
#endif
static float test_data[4096];
static const int64_t test_shape[2] = {3, 4};

/* A borrowed array of 3 x 4 floats that passes every check. */
static inline cai_array valid_array(void) {
    cai_array array = CAI_ARRAY_INIT;
    array.data = test_data;
    array.shape = test_shape;
    array.ndim = 2;
    memcpy(array.typestr, "<f4", 4);
    array.stream = CAI_STREAM_NONE;
    array.device.type = CAI_DEVICE_CPU;
    return array;
}

static inline void set_typestr(cai_array *array, const char *typestr) {
    ASSERT(strlen(typestr) < sizeof(array->typestr));
    memset(array->typestr, 0, sizeof(array->typestr));
    memcpy(array->typestr, typestr, strlen(typestr));
}

#endif
