/* An extension whose code lies in a static library of the project's own, which links libcai. */
#include <cai/cai.h>

int extension_check(const cai_array *array);
cai_owner *extension_owner(int *count);
extern const void *const wrapped[2];

const void *const wrapped[2] = {(const void *)&extension_check, (const void *)&extension_owner};
