/*
 * A caller whose cai_array is as long as the library's, or longer: it is built against the header
 * as it is, and against one with members behind the last.
 */
#include "cai_test.h"

int main(void) {
    int destroyed = 0;
    struct {
        cai_array array;
        uint64_t canary;
    } in, out;
    cai_array mask = valid_array();
    cai_error error;
    cai_layout layout;
    const cai_array init = CAI_ARRAY_INIT;
    printf("sizeof(cai_array) is %u\n", (unsigned)sizeof(cai_array));
    ASSERT(sizeof(cai_array) == CALLER_SIZE);

    in.canary = out.canary = 0x1122334455667788u;
    in.array = valid_array();
    in.array.owner = counting_owner(&destroyed);
    ASSERT_STATUS(CAI_OK, cai_array_validate(&in.array, CAI_CHECK_LAYOUT, &error));
    ASSERT_STATUS(CAI_OK, cai_array_layout(&in.array, &layout, NULL));
    ASSERT(layout.nbytes == 48);
    in.array.ndim = 99;
    ASSERT_STATUS(CAI_ERR_NDIM, cai_array_validate(&in.array, CAI_CHECK_LAYOUT, &error));
    in.array.ndim = 2;

    out.array = init;
    ASSERT_STATUS(CAI_OK, cai_array_share(&in.array, &out.array, NULL));
    ASSERT(out.canary == 0x1122334455667788u && out.array.struct_size == sizeof(cai_array));
    ASSERT(out.array.data == test_data && out.array.stream == CAI_STREAM_NONE);
    ASSERT_STATUS(CAI_OK, cai_array_retain(&out.array, NULL));
    cai_owner_release(out.array.owner);
    cai_array_release(&out.array);
    ASSERT(out.canary == 0x1122334455667788u && out.array.owner == NULL && out.array.stream == 0);

    set_typestr(&mask, "|b1");
    in.array.mask = &mask;
    out.array = init;
#ifdef CALLER_HAS_MORE
    out.array.future[0] = out.array.future[1] = 0x5555;
#endif
    ASSERT_STATUS(CAI_OK, cai_array_create(&in.array, NULL, NULL, &out.array, NULL));
    cai_array_release(&in.array);
    ASSERT(in.canary == 0x1122334455667788u && out.canary == 0x1122334455667788u);
    ASSERT(out.array.struct_size == sizeof(cai_array) && out.array.shape[1] == 4 &&
           out.array.mask != &mask);
    ASSERT_STATUS(CAI_OK, cai_array_validate(&out.array, CAI_CHECK_LAYOUT, NULL));
    ASSERT(destroyed == 0);
#ifdef CALLER_HAS_MORE
    /* What the library does not know it does not invent. */
    ASSERT(out.array.future[0] == 0 && out.array.future[1] == 0);
#endif
    cai_array_release(&out.array);
    ASSERT(destroyed == 1 && out.canary == 0x1122334455667788u);
    cai_array_release(&out.array);
    return 0;
}
