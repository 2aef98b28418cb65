/* NULL for every required pointer of every function is a status that names the parameter, never a
 * crash, with and without a cai_error to write to.
 * run: plain asan valgrind */
#include "cai_test.h"
#include <cai/unstable/arrow.h>
#include <cai/unstable/copy.h>
#include <cai/unstable/ipc.h>
#include <cai/unstable/json.h>
#include <cai/unstable/many.h>
#include <cai/unstable/release.h>
#include <cai/unstable/slice.h>
#include <cai/unstable/view.h>

#define REFUSES(name, call)                          \
    do {                                             \
        cai_error *e = &error;                       \
        test_row = #call;                            \
        memset(&error, 0x55, sizeof(error));         \
        ASSERT_STATUS(CAI_ERR_NULL_ARGUMENT, call);  \
        ASSERT(error.code == CAI_ERR_NULL_ARGUMENT); \
        ASSERT(error.driver_code == 0);              \
        ASSERT_TEXT(name, error.field);              \
        ASSERT_CONTAINS(error.message, "NULL");      \
        e = NULL;                                    \
        ASSERT_STATUS(CAI_ERR_NULL_ARGUMENT, call);  \
    } while (0)

int main(void) {
    cai_error error;
    cai_array array = valid_array(), out = CAI_ARRAY_INIT;
    cai_dtype dtype;
    cai_descr descr = {sizeof(cai_descr), sizeof(cai_field), 0, NULL};
    const cai_descr *out_descr = NULL;
    const cai_field *out_field = NULL;
    cai_owner *owner = NULL;
    cai_layout layout;
    char text[CAI_TYPESTR_SIZE];
    int64_t number = 0;
    void *address = NULL;
    bool truth = false;
    const cai_array *none = NULL;

    ASSERT_STATUS(CAI_OK, cai_dtype_parse("<f4", &dtype, NULL));
    REFUSES("typestr", cai_dtype_parse(NULL, &dtype, e));
    REFUSES("out", cai_dtype_parse("<f4", NULL, e));
    REFUSES("dtype", cai_dtype_format(NULL, text, sizeof(text), NULL, e));
    REFUSES("buffer", cai_dtype_format(&dtype, NULL, 1, NULL, e));
    ASSERT(!cai_dtype_equal(NULL, &dtype) && !cai_dtype_equal(&dtype, NULL) &&
           !cai_dtype_equal(NULL, NULL));
    ASSERT(!cai_dtype_is_native(NULL));
    {
        struct ArrowDeviceArray values = {0};
        struct ArrowSchema schema = {0};
        REFUSES("array", cai_unstable_array_from_arrow(NULL, &schema, &out, e));
        REFUSES("schema", cai_unstable_array_from_arrow(&values, NULL, &out, e));
        REFUSES("out", cai_unstable_array_from_arrow(&values, &schema, NULL, e));
        REFUSES("batch", cai_unstable_arrays_from_arrow(NULL, &schema, 0, NULL, e));
        REFUSES("schema", cai_unstable_arrays_from_arrow(&values, NULL, 0, NULL, e));
        REFUSES("out", cai_unstable_arrays_from_arrow(&values, &schema, 1, NULL, e));
        {
            const cai_array *const arrays[] = {NULL};
            const char *const names[] = {NULL};
            const char *const named[] = {"x"};
            struct _object *object;
            REFUSES("arrays", cai_unstable_arrays_to_arrow(NULL, named, 1, 0, &values, &schema, e));
            REFUSES("names", cai_unstable_arrays_to_arrow(arrays, NULL, 1, 0, &values, &schema, e));
            REFUSES("out_batch",
                    cai_unstable_arrays_to_arrow(arrays, named, 1, 0, NULL, &schema, e));
            REFUSES("names",
                    cai_unstable_arrays_to_arrow(arrays, names, 1, 0, &values, &schema, e));
            REFUSES("arrays",
                    cai_unstable_arrays_to_arrow(arrays, named, 1, 0, &values, &schema, e));
            REFUSES("arrays",
                    cai_unstable_arrow_stream_to_python(NULL, names, 1, 1, 0, &object, e));
            REFUSES("names",
                    cai_unstable_arrow_stream_to_python(arrays, NULL, 1, 1, 0, &object, e));
            REFUSES("out", cai_unstable_arrow_stream_to_python(arrays, names, 1, 1, 0, NULL, e));
            REFUSES("names",
                    cai_unstable_arrow_stream_to_python(arrays, names, 1, 1, 0, &object, e));
            REFUSES("arrays",
                    cai_unstable_arrow_stream_to_python(arrays, named, 1, 1, 0, &object, e));
        }
        REFUSES("array", cai_unstable_array_to_arrow(NULL, 0, &values, &schema, e));
        REFUSES("out_array", cai_unstable_array_to_arrow(&array, 0, NULL, &schema, e));
    }
    REFUSES("array", cai_unstable_array_to_json(NULL, text, sizeof(text), NULL, e));
    REFUSES("buffer", cai_unstable_array_to_json(&array, NULL, 1, NULL, e));
    REFUSES("array", cai_unstable_ipc_export(NULL, 0, text, sizeof(text), NULL, NULL, &owner, e));
    REFUSES("buffer", cai_unstable_ipc_export(&array, 0, NULL, 1, NULL, NULL, &owner, e));
    REFUSES("out_owner",
            cai_unstable_ipc_export(&array, 0, text, sizeof(text), NULL, NULL, NULL, e));
    REFUSES("array", cai_unstable_array_copy_to_host(NULL, 1, 0, NULL, 0, &array, e));
    REFUSES("out", cai_unstable_array_copy_to_host(&array, 1, 0, NULL, 0, NULL, e));
    REFUSES("buffer", cai_unstable_array_copy_to_host(&array, 1, 0, NULL, 1, &out, e));
    REFUSES("array", cai_unstable_array_copy_from_host(NULL, 1, 0, text, 1, e));
    REFUSES("buffer", cai_unstable_array_copy_from_host(&array, 1, 0, NULL, 1, e));
    REFUSES("array", cai_unstable_array_bytes(NULL, 1, NULL, 1, &address, &number, e));
    REFUSES("address", cai_unstable_array_bytes(&array, 1, NULL, 1, NULL, &number, e));
    REFUSES("nbytes", cai_unstable_array_bytes(&array, 1, NULL, 1, &address, NULL, e));
    REFUSES("bytes", cai_unstable_ipc_import(NULL, 1, -1, 0, &array, e));
    REFUSES("out", cai_unstable_ipc_import(text, 1, -1, 0, NULL, e));
    {
        uint64_t made = 7;
        REFUSES("out_channel", cai_unstable_channel_create(0, 0, NULL, e));
        REFUSES("out_fd", cai_unstable_channel_fd(0, NULL, e));
        REFUSES("array",
                cai_unstable_channel_export(0, 0, NULL, text, sizeof(text), NULL, &made, e));
        REFUSES("buffer", cai_unstable_channel_export(0, 0, &array, NULL, 1, NULL, &made, e));
        REFUSES("out_export",
                cai_unstable_channel_export(0, 0, &array, text, sizeof(text), NULL, NULL, e));
        REFUSES("bytes", cai_unstable_channel_import(0, NULL, 1, &array, e));
        REFUSES("out", cai_unstable_channel_import(0, text, 1, NULL, e));
        ASSERT_STATUS(CAI_ERR_ARGUMENT, cai_unstable_channel_poll(0, NULL, NULL));
        ASSERT_STATUS(CAI_ERR_ARGUMENT, cai_unstable_channel_withdraw(0, made, NULL));
        ASSERT_STATUS(CAI_ERR_ARGUMENT, cai_unstable_channel_release(0, NULL));
        ASSERT(made == 7);
    }
    REFUSES("array", cai_unstable_array_slice(NULL, 0, 0, 1, 1, &out, e));
    REFUSES("out", cai_unstable_array_slice(&array, 0, 0, 1, 1, NULL, e));
    REFUSES("arrays", cai_unstable_arrays_consume_begin(NULL, 1, 1, CAI_ACCESS_READ, e));
    REFUSES("arrays", cai_unstable_arrays_consume_end(NULL, 1, 1, CAI_ACCESS_READ, e));
    REFUSES("arrays", cai_unstable_arrays_synchronize(NULL, 1, CAI_ACCESS_READ, e));
    REFUSES("arrays[0]", cai_unstable_arrays_consume_begin(&none, 1, 1, CAI_ACCESS_READ, e));
    REFUSES("arrays[0]", cai_unstable_arrays_consume_end(&none, 1, 1, CAI_ACCESS_READ, e));
    REFUSES("arrays[0]", cai_unstable_arrays_synchronize(&none, 1, CAI_ACCESS_READ, e));
    REFUSES("array", cai_array_dtype(NULL, &dtype, e));
    REFUSES("out", cai_array_dtype(&array, NULL, e));

    REFUSES("descr", cai_descr_itemsize(NULL, &number, e));
    REFUSES("out", cai_descr_itemsize(&descr, NULL, e));
    REFUSES("a", cai_descr_equal(NULL, &descr, &truth, e));
    REFUSES("b", cai_descr_equal(&descr, NULL, &truth, e));
    REFUSES("out", cai_descr_equal(&descr, &descr, NULL, e));
    REFUSES("descr", cai_descr_find(NULL, "x", &out_field, &number, e));
    REFUSES("name", cai_descr_find(&descr, NULL, &out_field, &number, e));
    REFUSES("out_field", cai_descr_find(&descr, "x", NULL, &number, e));
    REFUSES("out_offset", cai_descr_find(&descr, "x", &out_field, NULL, e));
    REFUSES("field", cai_field_dtype(NULL, &dtype, e));
    REFUSES("field", cai_field_nbytes(NULL, &number, e));
    {
        cai_field row = {0};
        REFUSES("out", cai_field_dtype(&row, NULL, e));
        REFUSES("out", cai_field_nbytes(&row, NULL, e));
    }
    ASSERT(cai_inline_field(NULL, 0) == NULL && cai_inline_field(&descr, 0) == NULL);
    REFUSES("text", cai_descr_parse(NULL, &out_descr, &owner, e));
    REFUSES("out_descr", cai_descr_parse("[]", NULL, &owner, e));
    REFUSES("out_owner", cai_descr_parse("[]", &out_descr, NULL, e));
    REFUSES("descr", cai_descr_format(NULL, text, sizeof(text), NULL, e));
    REFUSES("buffer", cai_descr_format(&descr, NULL, 1, NULL, e));

    REFUSES("array", cai_array_layout(NULL, &layout, e));
    REFUSES("out", cai_array_layout(&array, NULL, e));
    REFUSES("array", cai_array_strides(NULL, &number, 2, e));
    REFUSES("out", cai_array_strides(&array, NULL, 2, e));
    REFUSES("out", cai_layout_strides('C', test_shape, 1, 4, NULL, e));
    REFUSES("a", cai_array_may_overlap(NULL, &array, &truth, e));
    REFUSES("b", cai_array_may_overlap(&array, NULL, &truth, e));
    REFUSES("out", cai_array_may_overlap(&array, &array, NULL, e));

    REFUSES("out", cai_owner_create(NULL, NULL, NULL, e));
    REFUSES("owner", cai_owner_retain(NULL, e));
    cai_owner_release(NULL);
    ASSERT_STATUS(CAI_ERR_NULL_ARGUMENT, cai_array_init(NULL, sizeof array));
    ASSERT_STATUS(CAI_ERR_NULL_ARGUMENT, cai_import_options_init(NULL, sizeof(cai_import_options)));
    ASSERT_STATUS(CAI_ERR_NULL_ARGUMENT, cai_export_options_init(NULL, sizeof(cai_export_options)));
    REFUSES("array", cai_array_retain(NULL, e));
    cai_array_release(NULL);
    cai_unstable_array_release_in_order(NULL);
    cai_inline_release(NULL);
    ASSERT(cai_inline_retain(NULL) == CAI_ERR_NULL_ARGUMENT);
    REFUSES("array", cai_array_share(NULL, &out, e));
    REFUSES("description", cai_array_create(NULL, NULL, NULL, &out, e));
    REFUSES("out", cai_array_create(&array, NULL, NULL, NULL, e));
    REFUSES("array", cai_array_validate(NULL, CAI_CHECK_LAYOUT, e));
    REFUSES("out", cai_driver_info_get(NULL, e));
    REFUSES("pointer", cai_pointer_info_get(NULL, NULL, e));
    REFUSES("out", cai_pointer_info_get(test_data, NULL, e));
    REFUSES("array", cai_array_consume_begin(NULL, 1, CAI_ACCESS_READ, e));
    REFUSES("array", cai_array_consume_end(NULL, 1, CAI_ACCESS_READ, e));
    REFUSES("array", cai_array_synchronize(NULL, CAI_ACCESS_READ, e));
    REFUSES("array", cai_array_produce(NULL, NULL, 0, 0, 0, e));
    REFUSES("streams", cai_array_produce(&array, NULL, 1, 1, 0, e));
    REFUSES("array", cai_unstable_array_identify(NULL, e));
    REFUSES("owner", cai_owner_release_after(NULL, CAI_STREAM_NONE, e));
    REFUSES("array", cai_array_release_after(NULL, CAI_STREAM_NONE, e));
    REFUSES("array", cai_array_attach(NULL, NULL, NULL, e));
    REFUSES("out", cai_sync_policy_get(NULL, e));
    {
        /* Whatever is NULL, the tensor is not looked at. */
        struct DLManagedTensorVersioned *tensor = NULL;
        struct DLManagedTensor *older = NULL;
        struct _object *object = NULL;
        struct _object *some = (struct _object *)(void *)text;
        cai_stream stream = 0;
        REFUSES("tensor", cai_array_from_dlpack(NULL, CAI_STREAM_NONE, 0, &out, e));
        REFUSES("out", cai_array_from_dlpack((struct DLManagedTensorVersioned *)text,
                                             CAI_STREAM_NONE, 0, NULL, e));
        REFUSES("tensor", cai_array_from_dlpack_unversioned(NULL, CAI_STREAM_NONE, 0, &out, e));
        REFUSES("out", cai_array_from_dlpack_unversioned((struct DLManagedTensor *)text,
                                                         CAI_STREAM_NONE, 0, NULL, e));
        REFUSES("array", cai_array_to_dlpack(NULL, 0, &tensor, e));
        REFUSES("out", cai_array_to_dlpack(&array, 0, NULL, e));
        REFUSES("array", cai_array_to_dlpack_unversioned(NULL, 0, &older, e));
        REFUSES("out", cai_array_to_dlpack_unversioned(&array, 0, NULL, e));
        REFUSES("array", cai_array_to_python(NULL, NULL, &object, e));
        REFUSES("out", cai_array_to_python(&array, NULL, NULL, e));
        REFUSES("object", cai_unstable_stream_from_python(NULL, 1, 0, &stream, NULL, e));
        REFUSES("out", cai_unstable_stream_from_python(some, 1, 0, NULL, NULL, e));
        REFUSES("out", cai_unstable_python_view(NULL, e));
        REFUSES("prototype",
                cai_unstable_python_empty_like(NULL, NULL, 0, NULL, NULL, &object, NULL, e));
        REFUSES("out", cai_unstable_python_empty_like(some, NULL, 0, NULL, NULL, NULL, &out, e));
        REFUSES("dictionary", cai_array_from_python_dict(NULL, NULL, NULL, &out, e));
        REFUSES("out", cai_array_from_python_dict((struct _object *)text, NULL, NULL, NULL, e));
        ASSERT(object == NULL);
        ASSERT(tensor == NULL && older == NULL);
    }
    {
        int destroyed = 0;
        array.owner = counting_owner(&destroyed);
        REFUSES("out", cai_array_share(&array, NULL, e));
        cai_owner_release(array.owner);
        ASSERT(destroyed == 1);
    }
    return 0;
}
