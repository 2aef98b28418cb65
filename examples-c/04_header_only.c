/*
 * A consumer that does not link the library: it reads, retains and releases an array with inline
 * functions of one header. Nothing is validated, so the arrays must come from trusted code. With a
 * copy of cai/abi.h in ./cai:
 *
 *     cc -I. 04_header_only.c && ./a.out
 */
#include <cai/abi.h>

#include <stdio.h>
#include <string.h>

/* In place of a producer in another library, with an owner of its own (see 03_own_owner.c). */
static int references = 1;
static void retain(cai_owner *owner) {
    (void)owner;
    references++;
}
static void release(cai_owner *owner) {
    (void)owner;
    references--;
}
static const cai_owner_ops ops = {sizeof(cai_owner_ops), 0, retain, release};
static cai_owner owner = {&ops};
static float data[3] = {1, 2, 3};
static const int64_t shape[1] = {3};

int main(void) {
    cai_array array = CAI_ARRAY_INIT, kept;
    array.owner = &owner;
    array.data = data;
    array.shape = shape;
    array.ndim = 1;
    strcpy(array.typestr, "<f4");
    array.stream = CAI_STREAM_NONE;
    array.device.type = CAI_DEVICE_CPU;

    if (array.struct_size < sizeof(kept) || cai_inline_retain(&array) != CAI_OK) {
        return 1;
    }
    kept = array; /* safe, because the structure is not shorter than ours */
    cai_inline_release(&array);
    printf("%lld elements of %s, %d reference\n", (long long)kept.shape[0], kept.typestr,
           references);
    cai_inline_release(&kept);
    printf("%d references\n", references);
    return references == 0 ? 0 : 1;
}
