/* What a stranger's first program does with the installed package.
 * run: by tests/python/test_package.py */
#include <cai/cai.h>

#include <stdio.h>
#include <string.h>

static void destroyed(void *context) { *(int *)context += 1; }

int main(void) {
    static float data[6];
    int64_t shape[2] = {2, 3};
    int count = 0;
    cai_error error;
    cai_array array = CAI_ARRAY_INIT, shared = CAI_ARRAY_INIT;
    if (cai_abi_version() >> 16 != CAI_ABI_MAJOR ||
        cai_owner_create(&count, destroyed, &array.owner, &error) != CAI_OK) {
        return 1;
    }
    array.data = data;
    array.shape = shape;
    array.ndim = 2;
    strcpy(array.typestr, "<f4");
    array.stream = CAI_STREAM_NONE;
    if (cai_array_validate(&array, CAI_CHECK_LAYOUT, &error) != CAI_OK ||
        cai_array_share(&array, &shared, &error) != CAI_OK) {
        puts(error.message);
        return 1;
    }
    cai_array_release(&array);
    cai_array_release(&shared);
    if (count != 1) return 1;
    printf("ok %s\n", cai_version());
    return 0;
}
