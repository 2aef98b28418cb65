/*
 * What the tests of Arrow share: foreign arrays and schemas that count how often they are released.
 * Their memory is freed with them, so that a later access or a second release is detected.
 */
#ifndef ARROW_TEST_H
#define ARROW_TEST_H

#include "tests.h"
#include <cai/unstable/arrow.h>

enum { MOST_LEVELS = 80 };

static int released_arrays, released_schemas;

typedef struct {
    struct ArrowArray levels[MOST_LEVELS], *children[MOST_LEVELS];
    const void *buffers[MOST_LEVELS][2];
    void *event;
} array_memory;

typedef struct {
    struct ArrowSchema levels[MOST_LEVELS], *children[MOST_LEVELS];
    char format[MOST_LEVELS][32];
} schema_memory;

static inline void release_foreign_array(struct ArrowArray *self) {
    ++released_arrays;
    free(self->private_data);
    self->release = NULL;
}

static inline void release_foreign_schema(struct ArrowSchema *self) {
    ++released_schemas;
    free(self->private_data);
    self->release = NULL;
}

/* Only the outermost structure owns memory. */
static inline void release_inner_array(struct ArrowArray *self) { self->release = NULL; }
static inline void release_inner_schema(struct ArrowSchema *self) { self->release = NULL; }

/* A schema of these formats, one in another. */
static inline struct ArrowSchema schema_of(int levels, const char *const *formats) {
    schema_memory *memory = calloc(1, sizeof *memory);
    ASSERT(memory != NULL);
    for (int i = 0; i < levels; ++i) {
        struct ArrowSchema *level = &memory->levels[i];
        strcpy(memory->format[i], formats[i]);
        level->format = memory->format[i];
        level->name = "";
        level->n_children = i + 1 < levels;
        memory->children[i] = &memory->levels[i + 1 < levels ? i + 1 : 0];
        level->children = level->n_children ? &memory->children[i] : NULL;
        level->release = i == 0 ? release_foreign_schema : release_inner_schema;
        level->private_data = i == 0 ? memory : NULL;
    }
    struct ArrowSchema outermost = memory->levels[0];
    memory->levels[0].release = NULL;
    return outermost;
}

static inline struct ArrowSchema schema_of_values(const char *format) {
    return schema_of(1, &format);
}

/* An array of these lengths in host memory, without nulls. */
static inline struct ArrowDeviceArray foreign(int levels, const int64_t *lengths,
                                              const void *data) {
    array_memory *memory = calloc(1, sizeof *memory);
    struct ArrowDeviceArray outermost = {0};
    ASSERT(memory != NULL);
    for (int i = 0; i < levels; ++i) {
        const int inner = i + 1 < levels;
        struct ArrowArray *level = &memory->levels[i];
        level->length = lengths[i];
        level->n_buffers = inner ? 1 : 2;
        level->n_children = inner;
        memory->buffers[i][1] = inner ? NULL : data;
        level->buffers = memory->buffers[i];
        memory->children[i] = &memory->levels[inner ? i + 1 : 0];
        level->children = inner ? &memory->children[i] : NULL;
        level->release = i == 0 ? release_foreign_array : release_inner_array;
        level->private_data = i == 0 ? memory : NULL;
    }
    outermost.array = memory->levels[0];
    memory->levels[0].release = NULL;
    outermost.device_type = ARROW_DEVICE_CPU;
    outermost.device_id = -1;
    return outermost;
}

static inline struct ArrowDeviceArray foreign_values(int64_t length, const void *data) {
    return foreign(1, &length, data);
}

static inline struct ArrowArray *level_of(struct ArrowDeviceArray *array, int level) {
    struct ArrowArray *found = &array->array;
    while (level-- > 0)
        found = found->children[0];
    return found;
}

/* Releases what a consumer was given. */
static inline void release_both(struct ArrowDeviceArray *array, struct ArrowSchema *schema) {
    array->array.release(&array->array);
    schema->release(schema);
    ASSERT(array->array.release == NULL && schema->release == NULL);
}

/* One row of a table of what is refused: the field that the error names, the status, and what is
   wrong, which is done where it is the row's turn. */
#define WRONG(field, code, change) \
    do {                           \
        if (row == at++) {         \
            test_row = (field);    \
            status = (code);       \
            change;                \
        }                          \
    } while (0)

#endif
