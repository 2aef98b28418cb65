/*
 * What the two plug-ins of the demo agree on besides cai.h: a few functions by name. They are
 * compiled apart, and neither knows the other.
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
 * The producer. Takes the source over, then exports it in several forms; each export has a name and
 * comes with a reference of its own. producer_expected is what a check of that form must answer:
 * the last ones are wrong on purpose. producer_close gives up what the producer itself holds.
 */
EXPORT cai_status producer_open(const demo_source *source, cai_error *why);
EXPORT int producer_count(void);
EXPORT const char *producer_name(int index);
EXPORT cai_status producer_expected(int index);
EXPORT cai_status producer_export(int index, cai_array *out, cai_error *why);
EXPORT void producer_close(void);
EXPORT void producer_owners(int *made, int *destroyed);

/*
 * The consumer. Checks an array and keeps it, or remembers why it refused it; `name` must live on.
 * Then prints all that it has, and releases it.
 */
EXPORT cai_status consumer_take(const char *name, const cai_array *array);
EXPORT void consumer_print(void);
EXPORT void consumer_close(void);

#endif
