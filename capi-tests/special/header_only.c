/* A consumer that links nothing: it is built without the library.
 * run: by tests/programs/special.rs */
#include "cai_test.h"

typedef struct {
    cai_owner owner;
    int count;
} object;

static void retain(cai_owner *owner) { ((object *)owner)->count++; }
static void release(cai_owner *owner) { ((object *)owner)->count--; }
static const cai_owner_ops ops = {sizeof(cai_owner_ops), 0, retain, release};

int main(void) {
    object o = {{&ops}, 1};
    cai_array array = CAI_ARRAY_INIT, kept;
    array.owner = &o.owner;
    array.data = test_data;
    array.shape = test_shape;
    array.ndim = 2;
    array.stream = CAI_STREAM_NONE;
    ASSERT(cai_inline_retain(&array) == CAI_OK && o.count == 2);
    kept = array;
    cai_inline_release(&array);
    ASSERT(o.count == 1 && array.owner == NULL && array.shape == NULL);
    cai_inline_release(&array);
    ASSERT(o.count == 1);
    cai_inline_release(&kept);
    ASSERT(o.count == 0);
    return 0;
}
