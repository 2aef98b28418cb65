// Functions for torch_header.py: tensors, as Python objects, through arrays. Linked with
// libtorch_cpu's stable C interface and libcai only.
#include <cai/torch.h>

#include <chrono>

#if defined(PYTHON_BY_HAND) // the test compiles for a release whose headers lack them
extern "C" {
AOTITorchError torch_tensor_from_pyobject(void *object, AtenTensorHandle *out);
AOTITorchError torch_tensor_to_pyobject(AtenTensorHandle tensor, void *type, void **out);
}
#endif

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT cai_status from_torch(struct _object *object, cai_array *out, cai_error *error) {
    AtenTensorHandle tensor = nullptr;
    if (torch_tensor_from_pyobject(object, &tensor) != TORCH_SUCCESS) return -1;
    const cai_status status = cai_array_from_torch(tensor, out, error);
    (void)aoti_torch_delete_tensor_object(tensor);
    return status;
}

EXPORT cai_status to_torch(const cai_array *array, uint32_t access, void **object,
                           cai_error *error) {
    AtenTensorHandle tensor = nullptr;
    const cai_status status = cai_array_to_torch(array, access, &tensor, error);
    if (status != CAI_OK) return status;
    const AOTITorchError failed = torch_tensor_to_pyobject(tensor, nullptr, object);
    (void)aoti_torch_delete_tensor_object(tensor);
    return failed == TORCH_SUCCESS ? CAI_OK : -1;
}

EXPORT cai_status cai_array_to_torch_of(const cai_array *array, uint32_t access,
                                        AtenTensorHandle *out, cai_error *error) {
    return cai_array_to_torch(array, access, out, error);
}

EXPORT cai_status stream_of(int32_t device, cai_stream *out) {
    return cai_torch_stream(device, out, nullptr);
}

EXPORT cai_status undefined(cai_array *out, cai_error *error) {
    AtenTensorHandle tensor = nullptr;
    if (aoti_torch_new_uninitialized_tensor(&tensor) != TORCH_SUCCESS) return -1;
    const cai_status status = cai_array_from_torch(tensor, out, error);
    (void)aoti_torch_delete_tensor_object(tensor);
    return status == CAI_OK ? -1 : status;
}
EXPORT cai_status none(cai_array *out, cai_error *error) {
    return cai_array_from_torch(nullptr, out, error);
}

// Nanoseconds of one conversion and release, to compare with other ways.
EXPORT double measure(void *object, int32_t rounds) {
    AtenTensorHandle tensor = nullptr;
    if (torch_tensor_from_pyobject(object, &tensor) != TORCH_SUCCESS) return -1;
    const auto start = std::chrono::steady_clock::now();
    for (int32_t i = 0; i < rounds; ++i) {
        cai_array array = CAI_ARRAY_INIT;
        if (cai_array_from_torch(tensor, &array, nullptr) != CAI_OK) return -1;
        cai_array_release(&array);
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    (void)aoti_torch_delete_tensor_object(tensor);
    return took.count() / rounds;
}
