/* An extension that bundles the static library: it exports its one function and nothing else. */
#include <cai/cai.h>

__attribute__((visibility("default"))) int extension_check(const cai_array *array);

int extension_check(const cai_array *array) {
    return cai_array_validate(array, CAI_CHECK_LAYOUT, NULL);
}
