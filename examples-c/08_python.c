/*
 * A Python extension in C. `sum` accepts GPU arrays of CuPy, PyTorch, Numba, JAX and others; these
 * libraries accept the arrays that `full` returns.
 *
 *     cc -shared -fPIC 08_python.c -o plain.so $(python3-config --includes) \
 *         -I/usr/local/cuda/include $(python3 -m libcai --cflags --libs) -lcuda
 *     python3
 *     >>> import plain
 *     >>> plain.sum(plain.full((2, 3), 1.5))
 *     9.0
 *
 * Without a GPU, start Python with `cuda-sim run python3`. With pybind11 or nanobind, such an
 * extension is shorter: see examples-py.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cai/cai.h>
#include <cuda.h>
#include <stdlib.h>

/* The stream that this extension works on. It is never destroyed, so it outlives every array. */
static CUstream stream;

static PyObject *driver_failed(CUresult result) {
    return PyErr_Format(PyExc_RuntimeError, "the CUDA driver returned %d", (int)result);
}

static void free_buffer(void *buffer) { (void)cuMemFree((CUdeviceptr)(uintptr_t)buffer); }

/* Returns a new array that is filled on `stream`. Does not wait until it is filled. */
static PyObject *full(PyObject *self, PyObject *arguments) {
    int64_t shape[2];
    long long rows, columns;
    float value;
    union {
        float number;
        unsigned bits;
    } pattern;
    CUdeviceptr buffer;
    cai_array array = CAI_ARRAY_INIT, made = CAI_ARRAY_INIT;
    cai_error why;
    cai_stream pending = cai_inline_stream(stream);
    PyObject *result = NULL;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "(LL)f", &rows, &columns, &value)) {
        return NULL;
    }
    if (rows < 1 || columns < 1 || rows > 1 << 20 || columns > 1 << 20) {
        return PyErr_Format(PyExc_ValueError, "expected a shape of 1 to 2^20 in each dimension");
    }
    shape[0] = rows;
    shape[1] = columns;
    CUresult driver = cuMemAlloc(&buffer, (size_t)(rows * columns) * sizeof(float));
    if (driver != CUDA_SUCCESS) {
        return driver_failed(driver);
    }
    pattern.number = value;
    driver = cuMemsetD32Async(buffer, pattern.bits, (size_t)(rows * columns), stream);
    if (driver != CUDA_SUCCESS) {
        free_buffer((void *)(uintptr_t)buffer);
        return driver_failed(driver);
    }
    array.data = (void *)(uintptr_t)buffer;
    array.shape = shape;
    array.ndim = 2;
    memcpy(array.typestr, "<f4", 4);
    array.device.type = CAI_DEVICE_CUDA;
    /* States the stream that consumers must wait for, and copies the description. */
    if (cai_array_produce(&array, &pending, 1, pending, 0, &why) != CAI_OK ||
        cai_array_create(&array, array.data, free_buffer, &made, &why) != CAI_OK) {
        free_buffer(array.data);
        return cai_python_raise(&why);
    }
    (void)cai_array_to_python(&made, NULL, &result, NULL); /* on failure the exception is set */
    cai_array_release(&made); /* the object has a reference of its own */
    return result;
}

/* Returns the sum of an array of any library. */
static PyObject *sum(PyObject *self, PyObject *object) {
    cai_array array = CAI_ARRAY_INIT;
    cai_import_options options = CAI_IMPORT_OPTIONS_INIT;
    cai_error why;
    cai_layout layout;
    int64_t count, index;
    float *values = NULL;
    double total = 0;
    CUresult driver = CUDA_SUCCESS;
    cai_stream mine = cai_inline_stream(stream);
    (void)self;
    options.flags = CAI_IMPORT_REQUIRE_NATIVE | CAI_IMPORT_REQUIRE_C_CONTIGUOUS;
    memcpy(options.typestr, "<f4", 4);
    if (cai_array_from_python(object, &options, &array, NULL) != CAI_OK) {
        return NULL; /* the exception is set */
    }
    if (cai_array_layout(&array, &layout, &why) != CAI_OK ||
        cai_array_consume_begin(&array, mine, CAI_ACCESS_READ, &why) != CAI_OK) {
        cai_array_release(&array);
        return cai_python_raise(&why);
    }
    count = layout.count;
    values = malloc((size_t)count * sizeof(float) + 1);
    if (values == NULL) {
        cai_array_release(&array);
        return PyErr_NoMemory();
    }
    /* `stream` now waits for the producer. Other extensions would launch a kernel here. */
    if (count > 0) {
        driver = cuMemcpyDtoHAsync(values, (CUdeviceptr)(uintptr_t)array.data,
                                   (size_t)count * sizeof(float), stream);
    }
    if (cai_array_consume_end(&array, mine, CAI_ACCESS_READ, &why) != CAI_OK ||
        driver != CUDA_SUCCESS || (driver = cuStreamSynchronize(stream)) != CUDA_SUCCESS) {
        (void)cuStreamSynchronize(stream);
        free(values);
        cai_array_release(&array);
        return driver != CUDA_SUCCESS ? driver_failed(driver) : cai_python_raise(&why);
    }
    for (index = 0; index < count; index++) {
        total += values[index];
    }
    free(values);
    cai_array_release(&array);
    return PyFloat_FromDouble(total);
}

static PyMethodDef methods[] = {
    {"full", full, METH_VARARGS, "full((rows, columns), value): a new GPU array"},
    {"sum", sum, METH_O, "sum(array): the sum of a GPU array of float32"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "plain", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_plain(void);
PyMODINIT_FUNC PyInit_plain(void) {
    CUdevice device;
    CUcontext context;
    CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS) result = cuDeviceGet(&device, 0);
    if (result == CUDA_SUCCESS) result = cuDevicePrimaryCtxRetain(&context, device);
    if (result == CUDA_SUCCESS) result = cuCtxSetCurrent(context);
    if (result == CUDA_SUCCESS) result = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    return result == CUDA_SUCCESS ? PyModule_Create(&module) : driver_failed(result);
}
