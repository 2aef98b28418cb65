/* The functions for Python objects in a process without Python.
 * run: plain asan valgrind */
#include "cai_test.h"
#include <cai/unstable/exchange.h>
#include <cai/unstable/view.h>

int main(void) {
    cai_error why;
    cai_array array = CAI_ARRAY_INIT;
    cai_import_options in = CAI_IMPORT_OPTIONS_INIT;
    cai_unstable_exchange_api table = {sizeof(cai_unstable_exchange_api), CAI_ABI_MAJOR, NULL,
                                       NULL};
    int nothing = 0;
    /* No object is looked at before an interpreter was found. */
    struct _object *object = (struct _object *)(void *)&nothing, *made = NULL;
    cai_stream stream = 5;
    ASSERT_STATUS(CAI_ERR_NULL_ARGUMENT, cai_array_from_python(NULL, NULL, &array, &why));
    ASSERT(strcmp(why.field, "object") == 0);
    ASSERT_STATUS(CAI_ERR_NULL_ARGUMENT, cai_array_from_python(object, NULL, NULL, &why));
    ASSERT(strcmp(why.field, "out") == 0);
    ASSERT_STATUS(CAI_ERR_NO_PYTHON, cai_array_from_python(object, NULL, &array, &why));
    ASSERT_STATUS(CAI_ERR_NO_PYTHON, cai_array_from_python(object, &in, &array, NULL));
    ASSERT(array.owner == NULL && array.data == NULL);
    ASSERT_STATUS(CAI_ERR_NO_PYTHON, cai_array_from_python_dict(object, object, &in, &array, &why));
    ASSERT_STATUS(CAI_ERR_NO_PYTHON, cai_array_from_python_dict(object, NULL, NULL, &array, NULL));
    in.struct_size = 3;
    ASSERT_STATUS(CAI_ERR_STRUCT_SIZE, cai_array_from_python_dict(object, NULL, &in, &array, &why));
    ASSERT_STATUS(CAI_ERR_STRUCT_SIZE, cai_array_from_python(object, &in, &array, &why));
    ASSERT_STATUS(CAI_ERR_NULL_ARGUMENT, cai_unstable_python_publish(NULL, &table, &why));
    ASSERT_STATUS(CAI_ERR_NULL_ARGUMENT, cai_unstable_python_publish(object, NULL, &why));
    ASSERT_STATUS(CAI_ERR_NO_PYTHON, cai_unstable_python_publish(object, &table, &why));
    ASSERT_STATUS(CAI_ERR_NULL_ARGUMENT, cai_unstable_python_table(NULL, &made, &why));
    ASSERT_STATUS(CAI_ERR_NULL_ARGUMENT, cai_unstable_python_table(&table, NULL, &why));
    ASSERT_STATUS(CAI_ERR_NO_PYTHON, cai_unstable_python_table(&table, &made, &why));
    ASSERT_STATUS(CAI_ERR_NULL_ARGUMENT, cai_array_to_python(NULL, NULL, &made, &why));
    ASSERT_STATUS(CAI_ERR_NULL_ARGUMENT, cai_array_to_python(&array, NULL, NULL, &why));
    ASSERT_STATUS(CAI_ERR_NO_PYTHON, cai_array_to_python(&array, NULL, &made, &why));
    ASSERT_STATUS(CAI_ERR_NO_PYTHON, cai_array_to_python(&array, NULL, &made, NULL));
    ASSERT_STATUS(CAI_ERR_NO_PYTHON, cai_unstable_python_view(&made, &why));
    ASSERT_STATUS(CAI_ERR_NO_PYTHON,
                  cai_unstable_python_empty_like(object, NULL, 0, NULL, NULL, &made, &array, &why));
    ASSERT_STATUS(CAI_ERR_NO_PYTHON,
                  cai_unstable_stream_from_python(object, 1, 0, &stream, NULL, &why));
    ASSERT(made == NULL && stream == 5);
    ASSERT(cai_python_raise(NULL) == NULL);
    ASSERT(cai_python_raise(&why) == NULL);
    return 0;
}
