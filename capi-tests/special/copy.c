/*
 * One of two plug-ins that each carry a copy of the library of their own: makes arrays, and takes
 * in, keeps and releases the other's.
 */
#include "cai_test.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT void plugin_make(cai_array *out, int *destroyed);
EXPORT void plugin_keep(const cai_array *array);
EXPORT void plugin_let_go(void);
EXPORT const void *plugin_code(void);

static cai_array kept;

void plugin_make(cai_array *out, int *destroyed) {
    int64_t shape[2] = {2, 2};
    cai_array array = valid_array();
    array.shape = shape;
    ASSERT_STATUS(CAI_OK, cai_array_create(&array, destroyed, count_destroy, out, NULL));
}

void plugin_keep(const cai_array *array) {
    ASSERT_STATUS(CAI_OK, cai_array_validate(array, CAI_CHECK_LAYOUT, NULL));
    kept.struct_size = sizeof(kept);
    ASSERT_STATUS(CAI_OK, cai_array_share(array, &kept, NULL));
}

void plugin_let_go(void) {
    ASSERT(kept.shape[0] == 2 && kept.shape[1] == 2);
    cai_array_release(&kept);
}

/* Where this plug-in's copy of the library lies. */
const void *plugin_code(void) { return cai_version(); }
