/* Uses the library and another one in Rust, linked into one program.
 * run: by tests/python/test_package.py */
#include <cai/cai.h>

#include <stdio.h>

int another(int count);

static void destroy(void *context) { *(int *)context = another(12); }

int main(void) {
    const cai_array array = CAI_ARRAY_INIT;
    cai_owner *owner = NULL;
    cai_error error;
    int length = 0;
    if (cai_array_validate(&array, CAI_CHECK_LAYOUT, &error) == CAI_OK) return 1;
    if (cai_owner_create(&length, destroy, &owner, NULL) != CAI_OK) return 1;
    cai_owner_release(owner);
    printf("%s %d %d\n", error.field, length, another(-1));
    return 0;
}
