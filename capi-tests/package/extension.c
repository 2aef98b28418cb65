/* An extension that links or bundles the library: it exports its two functions and nothing else. */
#include <cai/cai.h>

__attribute__((visibility("default"))) int extension_check(const cai_array *array);
__attribute__((visibility("default"))) cai_owner *extension_owner(int *count);

int extension_check(const cai_array *array) {
    return cai_array_validate(array, CAI_CHECK_LAYOUT, NULL);
}

static void destroy(void *context) { *(int *)context += 1; }

/* An owner whose last release calls code of this extension. */
cai_owner *extension_owner(int *count) {
    cai_owner *owner = NULL;
    cai_owner_create(count, destroy, &owner, NULL);
    return owner;
}
