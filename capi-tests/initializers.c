/* What the macros and functions for initial values set, and the versions that the library and its
 * header have. Sizes, offsets and constants are those of abi/layout.txt.
 * run: plain asan valgrind */
#include "cai_test.h"

int main(void) {
    const cai_array empty = CAI_ARRAY_INIT;
    const cai_import_options in = CAI_IMPORT_OPTIONS_INIT;
    const cai_export_options out = CAI_EXPORT_OPTIONS_INIT;
    ASSERT(empty.struct_size == sizeof(cai_array) && empty.version == 3 && empty.stream == 0);
    ASSERT(empty.owner == NULL && empty.data == NULL && empty.device.type == CAI_DEVICE_UNKNOWN);
    ASSERT(in.struct_size == sizeof(in) && in.flags == 0 && in.protocols[0] == 0 &&
           in.typestr[0] == 0 && in.dlpack_stream == CAI_STREAM_UNKNOWN);
    ASSERT(out.struct_size == sizeof(out) && out.flags == 0);
    {
        cai_array array;
        cai_import_options import;
        cai_export_options export;
        memset(&array, 0x5a, sizeof array);
        memset(&import, 0x5a, sizeof import);
        memset(&export, 0x5a, sizeof export);
        ASSERT_STATUS(CAI_OK, cai_array_init(&array, sizeof array));
        ASSERT_STATUS(CAI_OK, cai_import_options_init(&import, sizeof import));
        ASSERT_STATUS(CAI_OK, cai_export_options_init(&export, sizeof export));
        /* None of the structures has padding. */
        ASSERT(memcmp(&array, &empty, sizeof array) == 0);
        ASSERT(memcmp(&import, &in, sizeof import) == 0);
        ASSERT(memcmp(&export, &out, sizeof export) == 0);
    }
    ASSERT(cai_abi_version() == ((uint32_t)CAI_ABI_MAJOR << 16 | (uint32_t)CAI_ABI_MINOR));
    ASSERT(strchr(cai_version(), '.') != NULL);
    return 0;
}
