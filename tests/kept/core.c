/*
 * What a program of an older release does with the core: every function, and the members of every
 * structure that it reads or fills. It is compiled once for each release, by
 * tools/keep_programs.sh; tests/python/test_ages.py runs the results with today's library and with
 * a later one. It asserts what docs/src/versions.md promises for ever, and no text of a message.
 */
#include "cai_test.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT void kept_core(void);
EXPORT struct _object *kept_python(struct _object *object, struct _object *dictionary);
EXPORT struct _object *kept_raise(void);

/* An output whose size never changes, in front of bytes that must stay. */
#define GUARDED(type, name) \
    struct {                \
        type out;           \
        uint64_t after[8];  \
    } name = {{0}, {5, 5, 5, 5, 5, 5, 5, 5}}
#define ASSERT_INTACT(name)                \
    do {                                   \
        int i_;                            \
        for (i_ = 0; i_ < 8; ++i_)         \
            ASSERT((name).after[i_] == 5); \
    } while (0)

static const int64_t strides[2] = {32, 8};

/* Every other column of a 3 x 4 array. */
static cai_array described(void) {
    cai_array array = valid_array();
    array.strides = strides;
    return array;
}

static void check(const cai_array *array) {
    ASSERT(array->struct_size == sizeof *array && array->flags == 0 && array->owner != NULL);
    ASSERT(array->data == test_data && array->ndim == 2 && array->version == 3);
    ASSERT(array->shape[0] == 3 && array->shape[1] == 4);
    ASSERT(array->strides[0] == 32 && array->strides[1] == 8);
    ASSERT_TEXT("<f4", array->typestr);
    ASSERT(array->descr == NULL && array->mask == NULL && array->stream == CAI_STREAM_NONE);
    ASSERT(array->stream_id == 0 && array->event == NULL && array->device.type == CAI_DEVICE_CPU);
    ASSERT(array->device.id == 0 && array->context == NULL && array->byte_offset == 0);
    ASSERT_STATUS(CAI_OK, cai_array_validate(array, CAI_CHECK_LAYOUT | CAI_CHECK_ALIGNMENT, NULL));
}

static void texts(void) {
    GUARDED(cai_error, why);
    ASSERT(cai_abi_version() >> 16 == 1 && cai_version()[0] != 0);
    ASSERT_TEXT("CAI_ERR_NDIM", cai_status_name(CAI_ERR_NDIM));
    ASSERT(cai_status_message(CAI_ERR_NDIM)[0] != 0);
    ASSERT_STATUS(CAI_ERR_NDIM, cai_error_set(&why.out, CAI_ERR_NDIM, "ndim", "too many"));
    ASSERT(why.out.code == CAI_ERR_NDIM && why.out.driver_code == 0);
    ASSERT_TEXT("ndim", why.out.field);
    ASSERT_CONTAINS(why.out.message, "too many");
    ASSERT_INTACT(why);
}

static void arrays(void) {
    cai_array source = described(), array, copy = CAI_ARRAY_INIT;
    GUARDED(cai_layout, layout);
    GUARDED(cai_error, why);
    int64_t written[3] = {0, 0, 5};
    int destroyed = 0, attached = 0;
    bool overlap = false;
    ASSERT_STATUS(CAI_OK, cai_array_init(&array, sizeof array));
    ASSERT_STATUS(CAI_OK, cai_array_create(&source, &destroyed, count_destroy, &array, NULL));
    check(&array);
    ASSERT_STATUS(CAI_OK, cai_array_share(&array, &copy, NULL));
    check(&copy);
    ASSERT_STATUS(CAI_OK, cai_array_attach(&copy, &attached, count_destroy, NULL));
    check(&copy);
    ASSERT_STATUS(CAI_OK, cai_array_retain(&copy, NULL));
    cai_owner_release(copy.owner);
    ASSERT_STATUS(CAI_OK, cai_array_layout(&copy, &layout.out, NULL));
    ASSERT(layout.out.count == 12 && layout.out.nbytes == 48 && layout.out.itemsize == 4);
    ASSERT(layout.out.lower == 0 && layout.out.upper == 92 && layout.out.flags == 0);
    ASSERT_INTACT(layout);
    ASSERT_STATUS(CAI_OK, cai_array_strides(&copy, written, 2, NULL));
    ASSERT(written[0] == 32 && written[1] == 8 && written[2] == 5);
    ASSERT_STATUS(CAI_OK, cai_layout_strides('F', copy.shape, 2, 4, written, NULL));
    ASSERT(written[0] == 4 && written[1] == 12 && written[2] == 5);
    ASSERT_STATUS(CAI_OK, cai_array_may_overlap(&array, &copy, &overlap, NULL));
    ASSERT(overlap);
    cai_array_release(&copy);
    ASSERT(attached == 1 && destroyed == 0 && copy.owner == NULL);
    cai_inline_release(&array);
    ASSERT(destroyed == 1);
    source.ndim = 65;
    ASSERT_STATUS(CAI_ERR_NDIM, cai_array_validate(&source, CAI_CHECK_LAYOUT, &why.out));
    ASSERT(why.out.code == CAI_ERR_NDIM && why.out.message[0] != 0);
    ASSERT_TEXT("ndim", why.out.field);
    ASSERT_INTACT(why);
}

/* An owner of the program's own. */
static int retained;
static void retain(cai_owner *owner) { retained += owner != NULL; }
static void release(cai_owner *owner) { retained -= owner != NULL; }

static void owners(void) {
    static const cai_owner_ops ops = {sizeof ops, 0, retain, release};
    cai_owner own = {&ops}, *owner = NULL;
    cai_array array = described(), copy = CAI_ARRAY_INIT;
    int destroyed = 0;
    array.owner = &own;
    retained = 1;
    ASSERT_STATUS(CAI_OK, cai_array_share(&array, &copy, NULL));
    check(&copy);
    ASSERT(retained == 2);
    ASSERT_STATUS(CAI_OK, cai_array_release_after(&copy, CAI_STREAM_NONE, NULL));
    cai_array_release(&array);
    ASSERT(retained == 0);
    ASSERT_STATUS(CAI_OK, cai_owner_create(&destroyed, count_destroy, &owner, NULL));
    ASSERT(owner->ops->struct_size >= sizeof ops);
    ASSERT_STATUS(CAI_OK, cai_owner_retain(owner, NULL));
    cai_owner_release(owner);
    owner->ops->retain(owner);
    owner->ops->release(owner);
    ASSERT(destroyed == 0);
    ASSERT_STATUS(CAI_OK, cai_owner_release_after(owner, CAI_STREAM_NONE, NULL));
    ASSERT(destroyed == 1);
}

static void dtypes(void) {
    GUARDED(cai_dtype, dtype);
    cai_dtype same;
    cai_array array = described();
    char text[CAI_TYPESTR_SIZE];
    size_t length = 0;
    ASSERT_STATUS(CAI_OK, cai_dtype_parse(">M8[25s]", &dtype.out, NULL));
    ASSERT(dtype.out.kind == 'M' && dtype.out.byte_order == '>' && dtype.out.itemsize == 8);
    ASSERT(dtype.out.unit == CAI_UNIT_SECOND && dtype.out.unit_count == 25);
    ASSERT(dtype.out.code == CAI_DTYPE_NONE && dtype.out.bits == 64);
    ASSERT_INTACT(dtype);
    ASSERT(!cai_dtype_is_native(&dtype.out));
    ASSERT_STATUS(CAI_OK, cai_dtype_format(&dtype.out, text, sizeof text, &length, NULL));
    ASSERT_TEXT(">M8[25s]", text);
    ASSERT(length == 8);
    ASSERT_STATUS(CAI_OK, cai_array_dtype(&array, &same, NULL));
    ASSERT(same.kind == 'f' && same.itemsize == 4 && !cai_dtype_equal(&same, &dtype.out));
}

static void fields(void) {
    const cai_descr *descr = NULL;
    const cai_field *field = NULL;
    cai_owner *owner = NULL;
    cai_dtype dtype;
    char text[64];
    size_t length = 0;
    int64_t size = 0, offset = 0;
    bool equal = false;
    ASSERT_STATUS(CAI_OK, cai_descr_parse("[('x', '<f4'), (('title', 'y'), '<i2', (2, 3))]", &descr,
                                          &owner, NULL));
    ASSERT(descr->struct_size >= sizeof *descr && descr->field_size >= sizeof *field);
    ASSERT(descr->count == 2);
    ASSERT_STATUS(CAI_OK, cai_descr_itemsize(descr, &size, NULL));
    ASSERT(size == 16);
    ASSERT_STATUS(CAI_OK, cai_descr_find(descr, "y", &field, &offset, NULL));
    ASSERT(offset == 4 && field == cai_inline_field(descr, 1));
    ASSERT_TEXT("y", field->name);
    ASSERT_TEXT("title", field->title);
    ASSERT_TEXT("<i2", field->typestr);
    ASSERT(field->ndim == 2 && field->shape[0] == 2 && field->shape[1] == 3);
    ASSERT(field->nested == NULL && field->dtype_code == CAI_DTYPE_NONE && field->reserved == 0);
    ASSERT_STATUS(CAI_OK, cai_field_dtype(field, &dtype, NULL));
    ASSERT(dtype.kind == 'i' && dtype.itemsize == 2);
    ASSERT_STATUS(CAI_OK, cai_field_nbytes(field, &size, NULL));
    ASSERT(size == 12);
    ASSERT_STATUS(CAI_OK, cai_descr_equal(descr, descr, &equal, NULL));
    ASSERT(equal);
    ASSERT_STATUS(CAI_OK, cai_descr_format(descr, text, sizeof text, &length, NULL));
    ASSERT(length == strlen(text) && length > 20);
    cai_owner_release(owner);
}

static void streams(void) {
    cai_array array = described();
    uint32_t policy = 1;
    ASSERT_STATUS(CAI_OK, cai_sync_policy_get(&policy, NULL));
    ASSERT_STATUS(CAI_OK, cai_sync_policy_set(policy, NULL));
    ASSERT_STATUS(CAI_OK, cai_array_consume_begin(&array, 1, CAI_ACCESS_READ, NULL));
    ASSERT_STATUS(CAI_OK, cai_array_consume_end(&array, 1, CAI_ACCESS_READ, NULL));
    ASSERT_STATUS(CAI_OK, cai_array_synchronize(&array, CAI_ACCESS_READ, NULL));
    array.stream = 7;
    ASSERT_STATUS(CAI_OK, cai_array_produce(&array, NULL, 0, CAI_STREAM_LEGACY, 0, NULL));
    ASSERT(array.stream == CAI_STREAM_NONE);
}

/* With or without a driver. */
static void driver(void) {
    GUARDED(cai_driver_info, info);
    GUARDED(cai_pointer_info, pointer);
    if (cai_driver_info_get(&info.out, NULL) == CAI_OK) {
        ASSERT(info.out.version >= 1000 && info.out.devices >= 0);
        ASSERT(info.out.path[CAI_DRIVER_PATH_SIZE - 1] == 0);
    }
    if (cai_pointer_info_get(test_data, &pointer.out, NULL) == CAI_OK) {
        ASSERT(pointer.out.device.type == CAI_DEVICE_CPU && pointer.out.size == 0);
        ASSERT(!pointer.out.managed && pointer.out.pool == NULL);
    }
    ASSERT_INTACT(info);
    ASSERT_INTACT(pointer);
}

static void dlpack(void) {
    cai_array source = described(), array = CAI_ARRAY_INIT, back = CAI_ARRAY_INIT;
    struct DLManagedTensorVersioned *tensor = NULL;
    struct DLManagedTensor *older = NULL;
    int destroyed = 0;
    ASSERT_STATUS(CAI_OK, cai_array_create(&source, &destroyed, count_destroy, &array, NULL));
    ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(&array, 0, &tensor, NULL));
    ASSERT_STATUS(CAI_OK, cai_array_from_dlpack(tensor, CAI_STREAM_NONE, 0, &back, NULL));
    check(&back);
    cai_array_release(&back);
    ASSERT_STATUS(CAI_OK, cai_array_to_dlpack_unversioned(&array, 0, &older, NULL));
    ASSERT_STATUS(CAI_OK,
                  cai_array_from_dlpack_unversioned(older, CAI_STREAM_NONE, 0, &back, NULL));
    check(&back);
    cai_array_release(&back);
    ASSERT(destroyed == 0);
    cai_array_release(&array);
    ASSERT(destroyed == 1);
}

void kept_core(void) {
    texts();
    arrays();
    owners();
    dtypes();
    fields();
    streams();
    driver();
    dlpack();
}

/* Takes an object twice, once by its dictionary, and returns another. The array has 2 x 3 floats.
 */
struct _object *kept_python(struct _object *object, struct _object *dictionary) {
    cai_import_options in = CAI_IMPORT_OPTIONS_INIT;
    cai_export_options out;
    cai_array array = CAI_ARRAY_INIT, same = CAI_ARRAY_INIT;
    struct _object *made = NULL;
    ASSERT_STATUS(CAI_OK, cai_import_options_init(&in, sizeof in));
    in.flags = CAI_IMPORT_REQUIRE_NDIM | CAI_IMPORT_REQUIRE_WRITABLE | CAI_IMPORT_NO_EXCEPTION;
    in.protocols[0] = CAI_PROTOCOL_CUDA_ARRAY_INTERFACE;
    in.ndim = 3;
    ASSERT_STATUS(CAI_ERR_CONVERT_NDIM, cai_array_from_python(object, &in, &array, NULL));
    in.ndim = 2;
    memcpy(in.typestr, "<f4", 4);
    ASSERT_STATUS(CAI_OK, cai_array_from_python(object, &in, &array, NULL));
    ASSERT_STATUS(CAI_OK, cai_array_from_python_dict(dictionary, object, &in, &same, NULL));
    ASSERT(array.data == same.data && same.shape[0] == 2 && array.shape[1] == 3);
    ASSERT(array.stream == CAI_STREAM_NONE && array.version == 3 && array.owner != NULL);
    ASSERT_STATUS(CAI_OK, cai_export_options_init(&out, sizeof out));
    out.flags = CAI_EXPORT_STRIDES;
    ASSERT_STATUS(CAI_OK, cai_array_to_python(&array, &out, &made, NULL));
    cai_array_release(&array);
    cai_array_release(&same);
    return made;
}

struct _object *kept_raise(void) {
    cai_error why;
    (void)cai_error_set(&why, CAI_ERR_NDIM, "ndim", "raised");
    return cai_python_raise(&why);
}
