/* Exports as DLPack tensors, round trips, and the deletion of tensors on every path.
 * run: plain asan valgrind ages */
#include "dlpack_test.h"

/* --- out */

TEST(out_plainly) {
    static const int64_t strides[2] = {-64, 8};
    int destroyed = 0;
    cai_array array = valid_array();
    versioned *tensor = NULL;
    unversioned *older = NULL;
    array.owner = counting_owner(&destroyed);
    array.device.type = CAI_DEVICE_CUDA;
    array.device.id = 2;
    array.stream = CAI_STREAM_LEGACY;
    ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(&array, 0, &tensor, NULL));
    ASSERT(tensor->major == 1 && tensor->minor == 3 && tensor->flags == 0 &&
           tensor->deleter != NULL);
    ASSERT(tensor->dl_tensor.data == test_data && tensor->dl_tensor.byte_offset == 0);
    ASSERT(tensor->dl_tensor.device_type == CAI_DEVICE_CUDA && tensor->dl_tensor.device_id == 2);
    ASSERT(tensor->dl_tensor.ndim == 2 && tensor->dl_tensor.shape != test_shape);
    ASSERT(tensor->dl_tensor.shape[0] == 3 && tensor->dl_tensor.shape[1] == 4);
    ASSERT(tensor->dl_tensor.strides[0] == 4 && tensor->dl_tensor.strides[1] == 1);
    /* Each holds a reference of its own; the array may go first. */
    array.strides = strides;
    array.data = test_data + 1000;
    ASSERT_STATUS(CAI_OK, cai_array_to_dlpack_unversioned(&array, 0, &older, NULL));
    ASSERT(older->dl_tensor.strides[0] == -16 && older->dl_tensor.strides[1] == 2);
    ASSERT(older->dl_tensor.data == test_data + 1000);
    cai_array_release(&array);
    tensor->deleter(tensor);
    ASSERT(destroyed == 0);
    /* What the receiver writes into its tensor does not matter to the deleter. */
    older->dl_tensor.ndim = 77;
    older->manager_ctx = older;
    older->deleter(older);
    ASSERT(destroyed == 1);
}

TEST(out_readonly) {
    int destroyed = 0;
    cai_array array = valid_array();
    versioned *tensor = NULL;
    unversioned *older = NULL;
    cai_error error;
    array.owner = counting_owner(&destroyed);
    array.flags = CAI_ARRAY_READONLY;
    ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(&array, 0, &tensor, NULL));
    ASSERT(tensor->flags == READ_ONLY);
    tensor->deleter(tensor);
    ASSERT_STATUS(CAI_ERR_CONVERT_READONLY,
                  cai_array_to_dlpack_unversioned(&array, 0, &older, &error));
    ASSERT_TEXT("flags", error.field);
    ASSERT_CONTAINS(error.message, "CAI_DLPACK_HIDE_READONLY");
    ASSERT(older == NULL && destroyed == 0);
    /* Where the caller vouches for it, both kinds of tensors are writable. */
    ASSERT_STATUS(
        CAI_OK, cai_array_to_dlpack_unversioned(&array, CAI_DLPACK_HIDE_READONLY, &older, &error));
    ASSERT(older->dl_tensor.data == array.data && (array.flags & CAI_ARRAY_READONLY));
    older->deleter(older);
    ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(&array, CAI_DLPACK_HIDE_READONLY, &tensor, &error));
    ASSERT(tensor->flags == 0);
    tensor->deleter(tensor);
    ASSERT(destroyed == 0);
    cai_array_release(&array);
    ASSERT(destroyed == 1);
}

/* A deleter of NULL does nothing, as free. */
TEST(out_deleter_of_null) {
    int destroyed = 0;
    cai_array array = valid_array();
    versioned *tensor = NULL;
    array.owner = counting_owner(&destroyed);
    ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(&array, 0, &tensor, NULL));
    tensor->deleter(NULL);
    tensor->deleter(tensor);
    cai_array_release(&array);
    ASSERT(destroyed == 1);
}

static void steps(int32_t ndim, const int64_t *shape, const int64_t *strides,
                  const int64_t *expected) {
    int destroyed = 0;
    int32_t i;
    cai_array array = valid_array();
    versioned *tensor = NULL;
    cai_error error;
    array.owner = counting_owner(&destroyed);
    array.ndim = ndim;
    array.shape = shape;
    array.strides = strides;
    array.data = (char *)test_data + 4096;
    for (i = 0; i < ndim; i++) {
        if (shape[i] == 0) array.data = NULL;
    }
    if (cai_array_to_dlpack(&array, 0, &tensor, &error) != CAI_OK) FAIL("%s", error.message);
    ASSERT(tensor->dl_tensor.data == array.data && tensor->dl_tensor.ndim == ndim);
    ASSERT((tensor->dl_tensor.strides == NULL) == (ndim == 0));
    ASSERT((tensor->dl_tensor.shape == NULL) == (ndim == 0));
    for (i = 0; i < ndim; i++) {
        ASSERT(tensor->dl_tensor.strides[i] == expected[i]);
        ASSERT(tensor->dl_tensor.shape[i] == shape[i]);
    }
    tensor->deleter(tensor);
    cai_array_release(&array);
    ASSERT(destroyed == 1);
}

/* The rows: extents, strides in bytes, and the tensor's strides in elements. */
#define STEPS(ndim, shape, strides, expected) \
    (test_row = #shape ", " #strides, steps(ndim, shape, strides, expected), test_row = NULL)

TEST(out_steps) {
    static const int64_t two[2] = {3, 4}, one_row[2] = {1, 4}, none[2] = {0, 4},
                         huge[3] = {0, INT64_MAX, 9};
    static const int64_t transposed[2] = {4, 12}, broadcast[2] = {0, 4}, odd_row[2] = {7, 4},
                         kept[2] = {-400, 4};
    static const int64_t odd[2] = {3, 5}, odd_large[3] = {1, -1, INT64_MIN};
    static const int64_t of_two[2] = {4, 1}, of_transposed[2] = {1, 3}, of_broadcast[2] = {0, 1};
    static const int64_t of_odd_row[2] = {1, 1}, of_kept[2] = {-100, 1}, ones[3] = {1, 1, 1};
    static const int64_t of_huge[3] = {1, 1, INT64_MIN / 4};
    int64_t most[64];
    STEPS(2, two, NULL, of_two);
    STEPS(2, two, transposed, of_transposed);
    STEPS(2, two, broadcast, of_broadcast);
    STEPS(0, NULL, NULL, NULL);
    STEPS(0, two, transposed, NULL);
    /* A step that nothing takes: kept where it can be said, else one element. */
    STEPS(2, one_row, odd_row, of_odd_row);
    STEPS(2, one_row, kept, of_kept);
    STEPS(2, none, odd, ones);
    STEPS(2, none, NULL, of_two);
    STEPS(3, huge, NULL, ones);
    STEPS(3, huge, odd_large, of_huge);
    for (int i = 0; i < 64; i++)
        most[i] = 1;
    STEPS(64, most, NULL, most);
}

/* An array is refused, its owner keeps its count, and the tensor's place stays as it was. */
static void refuse_out(cai_status status, const char *field, cai_array array) {
    versioned *out = (versioned *)&array;
    unversioned *older = (unversioned *)&array;
    cai_error error;
    ASSERT_STATUS(status, cai_array_to_dlpack(&array, 0, &out, &error));
    ASSERT_TEXT(field, error.field);
    ASSERT_STATUS(status, cai_array_to_dlpack_unversioned(&array, 0, &older, &error));
    ASSERT_TEXT(field, error.field);
    ASSERT(out == (versioned *)&array && older == (unversioned *)&array);
}

/* Each row changes something in an array that has a tensor. */
#define REFUSED_OUT(change, status, field)                                               \
    (test_row = #change, array = good, (void)(change), refuse_out(status, field, array), \
     test_row = NULL)

static void becomes_a_tensor(const cai_array *array) {
    versioned *out = NULL;
    ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(array, 0, &out, NULL));
    out->deleter(out);
}

TEST(out_refused) {
    static const int64_t odd[2] = {16, 6}, odd_first[2] = {-7, 4};
    static const char *no_counterpart[] = {"|S4",  "<U4", "<M8[s]", "<m8",  "|O",   "|V4",
                                           "<V2",  "|V1", "<f1",    "<f12", "<f16", "<c24",
                                           "<c32", "|t8", "|t2",    "<t16"};
    static const char *foreign[] = {">f4", ">i2", ">u8", ">c8", ">c4"};
    static const cai_owner_ops broken_ops = {sizeof(cai_owner_ops), 0, NULL, NULL};
    cai_owner broken = {&broken_ops};
    int destroyed = 0;
    cai_array good = valid_array(), array, mask = valid_array();
    cai_field row, two_rows[2];
    const cai_descr plain_type = {sizeof(cai_descr), sizeof(cai_field), 1, &row},
                    structure = {sizeof(cai_descr), sizeof(cai_field), 2, two_rows};
    versioned *out = NULL;
    cai_error error;
    set_typestr(&mask, "|b1");
    memset(&row, 0, sizeof(row));
    memset(two_rows, 0, sizeof(two_rows));
    row.name = "";
    memcpy(row.typestr, "<f4", 4);
    two_rows[0].name = "x";
    two_rows[1].name = "y";
    memcpy(two_rows[0].typestr, "<i2", 4);
    memcpy(two_rows[1].typestr, "<i2", 4);

    good.owner = counting_owner(&destroyed);
    ASSERT_STATUS(CAI_ERR_NEWER_CALLER, cai_array_to_dlpack(&good, 1, &out, &error));
    ASSERT_TEXT("flags", error.field);
    ASSERT_STATUS(CAI_ERR_NEWER_CALLER, cai_array_to_dlpack_unversioned(
                                            &good, 0x80000000u, (unversioned **)&out, &error));
    ASSERT(out == NULL);
    /* The flags come before the rules of the array. */
    array = good;
    array.ndim = 65;
    ASSERT_STATUS(CAI_ERR_NEWER_CALLER, cai_array_to_dlpack(&array, 2, &out, &error));
    ASSERT_TEXT("flags", error.field);
    ASSERT_STATUS(CAI_ERR_NEWER_CALLER,
                  cai_array_to_dlpack_unversioned(&array, 2, (unversioned **)&out, &error));
    ASSERT_TEXT("flags", error.field);

    REFUSED_OUT(array.owner = NULL, CAI_ERR_BORROWED, "owner");
    REFUSED_OUT(array.owner = &broken, CAI_ERR_OWNER_OPS, "owner.ops.retain");
    REFUSED_OUT(array.mask = &mask, CAI_ERR_CONVERT_MASK, "mask");
    for (size_t i = 0; i < sizeof(no_counterpart) / sizeof(no_counterpart[0]); i++) {
        REFUSED_OUT(set_typestr(&array, no_counterpart[i]), CAI_ERR_CONVERT_TYPE, "typestr");
    }
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        REFUSED_OUT(set_typestr(&array, foreign[i]), CAI_ERR_CONVERT_BYTE_ORDER, "typestr");
    }
    REFUSED_OUT((set_typestr(&array, ">V2"), array.dtype_code = CAI_DTYPE_BFLOAT16),
                CAI_ERR_CONVERT_BYTE_ORDER, "typestr");
    REFUSED_OUT(array.strides = odd, CAI_ERR_CONVERT_STRIDES, "strides[1]");
    REFUSED_OUT(array.strides = odd_first, CAI_ERR_CONVERT_STRIDES, "strides[0]");
    REFUSED_OUT((set_typestr(&array, "|V4"), array.descr = &structure), CAI_ERR_CONVERT_TYPE,
                "typestr");
    /* Whatever is no sound array has the words of validation. */
    REFUSED_OUT(array.ndim = 65, CAI_ERR_NDIM, "ndim");
    REFUSED_OUT(array.stream = 0, CAI_ERR_STREAM_ZERO, "stream");
    REFUSED_OUT(array.data = NULL, CAI_ERR_DATA_NULL, "data");
    REFUSED_OUT(array.struct_size = 3, CAI_ERR_STRUCT_SIZE, "struct_size");

    /* Of one byte, or not relevant: that is no foreign order. */
    array = good;
    set_typestr(&array, ">u1");
    becomes_a_tensor(&array);
    set_typestr(&array, "|V2");
    array.dtype_code = CAI_DTYPE_BFLOAT16;
    becomes_a_tensor(&array);
    /* The one row of a plain type changes nothing. */
    array = good;
    array.descr = &plain_type;
    becomes_a_tensor(&array);

    ASSERT(destroyed == 0);
    cai_array_release(&good);
    ASSERT(destroyed == 1);
}

TEST(out_devices) {
    static const int32_t of_no_device[] = {CAI_DEVICE_CPU, CAI_DEVICE_CUDA_HOST,
                                           CAI_DEVICE_CUDA_MANAGED, 11};
    static const int32_t handles[] = {CAI_DEVICE_OPENCL, 7, 8, 15};
    static const int64_t none[2] = {0, 4};
    int destroyed = 0;
    cai_array array = valid_array();
    versioned *tensor = NULL;
    array.owner = counting_owner(&destroyed);
    for (size_t i = 0; i < 4; i++) {
        array.device.type = of_no_device[i];
        array.device.id = 5;
        ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(&array, 0, &tensor, NULL));
        ASSERT(tensor->dl_tensor.device_type == of_no_device[i] &&
               tensor->dl_tensor.device_id == 0);
        tensor->deleter(tensor);
    }
    for (size_t i = 0; i < 4; i++) {
        array.device.type = handles[i];
        array.byte_offset = 512;
        ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(&array, 0, &tensor, NULL));
        ASSERT(tensor->dl_tensor.device_type == handles[i] && tensor->dl_tensor.device_id == 5);
        ASSERT(tensor->dl_tensor.data == test_data && tensor->dl_tensor.byte_offset == 512);
        tensor->deleter(tensor);
    }
    /* A device whose number is not known: DLPack has no word for that. */
    array.device.id = -1;
    refuse_out(CAI_ERR_CONVERT_DEVICE, "device.id", array);
    array.device.id = 5;
    /* Nothing there, and nowhere: no driver is asked. */
    array.shape = none;
    array.data = NULL;
    refuse_out(CAI_ERR_BYTE_OFFSET, "byte_offset", array);
    array.byte_offset = 0;
    ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(&array, 0, &tensor, NULL));
    ASSERT(tensor->dl_tensor.data == NULL && tensor->dl_tensor.byte_offset == 0);
    tensor->deleter(tensor);
    array.device.type = CAI_DEVICE_UNKNOWN;
    ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(&array, 0, &tensor, NULL));
    ASSERT(tensor->dl_tensor.data == NULL && tensor->dl_tensor.device_type == CAI_DEVICE_CUDA);
    ASSERT(tensor->dl_tensor.device_id == 0 && tensor->dl_tensor.shape[0] == 0);
    tensor->deleter(tensor);
    cai_array_release(&array);
    ASSERT(destroyed == 1);
}

/* --- there and back */

/* A tensor of ours is a tensor like any other: taken in again, it holds the first array's owner. */
TEST(round_trip) {
    static const int64_t strides[2] = {-64, 8};
    int destroyed = 0, i;
    cai_array array = valid_array(), last = CAI_ARRAY_INIT;
    array.owner = counting_owner(&destroyed);
    array.strides = strides;
    array.data = test_data + 1000;
    array.flags = CAI_ARRAY_READONLY;
    array.device.type = CAI_DEVICE_CUDA;
    array.device.id = 1;
    ASSERT_STATUS(CAI_OK, cai_array_share(&array, &last, NULL));
    for (i = 0; i < 10; i++) {
        versioned *tensor = NULL;
        cai_array next = CAI_ARRAY_INIT;
        ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(&last, 0, &tensor, NULL));
        cai_array_release(&last);
        ASSERT_STATUS(CAI_OK, cai_array_from_dlpack(tensor, CAI_STREAM_NONE, 0, &next, NULL));
        last = next;
        ASSERT(last.data == array.data && last.flags == array.flags && last.ndim == 2);
        ASSERT(last.strides[0] == -64 && last.strides[1] == 8 && last.shape[0] == 3 &&
               last.shape[1] == 4);
        ASSERT(last.device.type == CAI_DEVICE_CUDA && last.device.id == 1);
        ASSERT_TEXT("<f4", last.typestr);
    }
    cai_array_release(&array);
    ASSERT(destroyed == 0);
    cai_array_release(&last);
    ASSERT(destroyed == 1);
}

/* The deleter may look at the library: nothing is held while it runs. */
static void delete_and_use(versioned *self) {
    cai_array array = CAI_ARRAY_INIT;
    versioned *inner = self->manager_ctx;
    ASSERT_STATUS(CAI_OK, cai_array_from_dlpack(inner, CAI_STREAM_NONE, 0, &array, NULL));
    cai_array_release(&array);
    delete_versioned(self);
}

TEST(nested) {
    versioned *outer = plain();
    outer->manager_ctx = plain();
    outer->deleter = delete_and_use;
    cai_array array = taken(outer);
    cai_array_release(&array);
    ASSERT(deleted == 2);
}
