/* Owners: the library's own, a producer's own in front of its object, and broken tables.
 * run: plain asan valgrind ages */
#include "tests.h"

/* A producer's object with a count of its own. */
typedef struct {
    cai_owner owner;
    int count;
    int retains, releases;
} object;

static void object_retain(cai_owner *owner) {
    ((object *)owner)->count++;
    ((object *)owner)->retains++;
}

static void object_release(cai_owner *owner) {
    ((object *)owner)->count--;
    ((object *)owner)->releases++;
}

static const cai_owner_ops object_ops = {sizeof(cai_owner_ops), 0, object_retain, object_release};

TEST(library_owner) {
    int destroyed = 0, i;
    cai_owner *owner = counting_owner(&destroyed), *forever = NULL;
    ASSERT(owner->ops != NULL && owner->ops->struct_size >= 24);
    for (i = 0; i < 10; i++)
        ASSERT_STATUS(CAI_OK, cai_owner_retain(owner, NULL));
    for (i = 0; i < 10; i++) {
        cai_owner_release(owner);
        ASSERT(destroyed == 0);
    }
    /* Through the table, as a stranger would. */
    owner->ops->retain(owner);
    owner->ops->release(owner);
    ASSERT(destroyed == 0);
    cai_owner_release(owner);
    ASSERT(destroyed == 1);
    /* Data that lives as long as the program needs no callback. */
    ASSERT_STATUS(CAI_OK, cai_owner_create(NULL, NULL, &forever, NULL));
    ASSERT_STATUS(CAI_OK, cai_owner_retain(forever, NULL));
    cai_owner_release(forever);
    cai_owner_release(forever);
}

TEST(own_object) {
    object o = {{&object_ops}, 1, 0, 0};
    cai_array array = valid_array(), shared = CAI_ARRAY_INIT;
    array.owner = &o.owner;
    ASSERT_STATUS(CAI_OK, cai_owner_retain(&o.owner, NULL));
    cai_owner_release(&o.owner);
    ASSERT(o.count == 1 && o.retains == 1 && o.releases == 1);
    ASSERT_STATUS(CAI_OK, cai_array_retain(&array, NULL));
    ASSERT(o.count == 2);
    ASSERT_STATUS(CAI_OK, cai_array_share(&array, &shared, NULL));
    ASSERT(o.count == 3 && shared.owner == &o.owner);
    ASSERT(cai_inline_retain(&shared) == CAI_OK && o.count == 4);
    cai_owner_release(&o.owner);
    cai_inline_release(&shared);
    ASSERT(o.count == 2 && shared.owner == NULL && shared.data == NULL);
    cai_array_release(&array);
    ASSERT(o.count == 1 && array.owner == NULL);
}

static void broken(cai_owner *owner, const char *field) {
    cai_array array = valid_array(), out = CAI_ARRAY_INIT;
    cai_error error;
    array.owner = owner;
    ASSERT_STATUS(CAI_ERR_OWNER_OPS, cai_owner_retain(owner, &error));
    ASSERT_TEXT(field, error.field);
    ASSERT_STATUS(CAI_ERR_OWNER_OPS, cai_array_retain(&array, &error));
    ASSERT_STATUS(CAI_ERR_OWNER_OPS, cai_array_share(&array, &out, &error));
    ASSERT_STATUS(CAI_ERR_OWNER_OPS, cai_array_create(&array, NULL, NULL, &out, &error));
    ASSERT(out.owner == NULL && out.data == NULL);
    ASSERT(cai_inline_retain(&array) == CAI_ERR_OWNER_OPS);
    cai_owner_release(owner); /* leaks, and does not crash */
    cai_array_release(&array);
    ASSERT(array.owner == NULL);
    array.owner = owner;
    cai_inline_release(&array);
    ASSERT(array.owner == NULL);
}

TEST(broken_tables) {
    cai_owner_ops ops = object_ops;
    object o = {{NULL}, 1, 0, 0};
    broken(&o.owner, "owner.ops");
    o.owner.ops = &ops;
    ops.struct_size = 16;
    broken(&o.owner, "owner.ops.struct_size");
    ops = object_ops;
    ops.retain = NULL;
    broken(&o.owner, "owner.ops.retain");
    ops = object_ops;
    ops.release = NULL;
    broken(&o.owner, "owner.ops.release");
    ASSERT(o.retains == 0 && o.releases == 0);
    /* A longer table from the future is used as far as it is known. */
    {
        struct {
            cai_owner_ops known;
            void *more[4];
        } longer;
        memset(&longer, 0x55, sizeof(longer));
        longer.known = object_ops;
        longer.known.struct_size = sizeof(longer);
        o.owner.ops = &longer.known;
        ASSERT_STATUS(CAI_OK, cai_owner_retain(&o.owner, NULL));
        cai_owner_release(&o.owner);
        ASSERT(o.retains == 1 && o.releases == 1);
    }
}

/* A callback that makes and destroys owners itself. */
static void nested_destroy(void *context) {
    int destroyed = 0;
    cai_owner_release(counting_owner(&destroyed));
    ASSERT(destroyed == 1);
    ++*(int *)context;
}

TEST(reentrant) {
    int destroyed = 0;
    cai_owner *owner = NULL;
    ASSERT_STATUS(CAI_OK, cai_owner_create(&destroyed, nested_destroy, &owner, NULL));
    cai_owner_release(owner);
    ASSERT(destroyed == 1);
}
