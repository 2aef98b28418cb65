/*
 * The functions that the two plug-ins of `make demo` export, besides what cai.h declares. The
 * plug-ins are compiled separately, and neither knows the other.
 */
#ifndef DEMO_PLUGIN_H
#define DEMO_PLUGIN_H

#include <cai/cai.h>

#define EXPORT __attribute__((visibility("default")))

/* The loaded data, as its loader describes it. `drop(context)` releases it. */
typedef struct {
    void *data;
    int32_t ndim;
    int32_t readonly;
    const int64_t *shape;
    const int64_t *strides;
    const char *typestr;
    const char *descr; /* of a structured type, as NumPy prints it; else NULL */
    void *context;
    void (*drop)(void *context);
} demo_source;

/*
 * The producer. producer_open takes over the source, and producer_export exports it in a numbered
 * form, with a reference for the caller. producer_expected returns the status of that form: the
 * last forms are invalid on purpose. producer_close releases the producer's own reference.
 */
EXPORT cai_status producer_open(const demo_source *source, cai_error *why);
EXPORT int producer_count(void);
EXPORT const char *producer_name(int index);
EXPORT cai_status producer_expected(int index);
EXPORT cai_status producer_export(int index, cai_array *out, cai_error *why);
EXPORT void producer_close(void);
EXPORT void producer_owners(int *made, int *destroyed);

/*
 * The consumer. consumer_take validates an array and keeps it, or keeps the error. consumer_print
 * prints both, and consumer_close releases the arrays.
 */
EXPORT cai_status consumer_take(const char *name, const cai_array *array);
EXPORT void consumer_print(void);
EXPORT void consumer_close(void);

#endif
