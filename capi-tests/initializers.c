/* What the macros for initial values set, and the versions that the library and its header have.
 * Sizes, offsets and constants are those of abi/layout.txt.
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
    ASSERT(cai_abi_version() == ((uint32_t)CAI_ABI_MAJOR << 16 | (uint32_t)CAI_ABI_MINOR));
    ASSERT(strchr(cai_version(), '.') != NULL);
    return 0;
}
