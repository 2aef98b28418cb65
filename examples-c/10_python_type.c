/*
 * A Python type in C whose objects are GPU arrays. Extensions that use libcai import them through
 * its exchange table, without calling Python; other libraries through `__cuda_array_interface__` or
 * DLPack.
 *
 *     cc -shared -fPIC 10_python_type.c -o floats.so $(python3-config --includes) \
 *         -I/usr/local/cuda/include $(python3 -m libcai --cflags --libs) -lcuda
 *     python3
 *     >>> import floats
 *     >>> floats.Floats(3, 2.5).__cuda_array_interface__["shape"]
 *     (3,)
 *
 * For pkg-config, add the folder that `python3 -m libcai --pkgconfigdir` prints to PKG_CONFIG_PATH.
 *
 * Without a GPU, start Python with `cuda-sim run python3`. With pybind11 or nanobind,
 * `cai::publish` replaces the tables below.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cai/cai.h>
#include <cai/unstable/exchange.h>
#include <cuda.h>

#include <stdlib.h>

typedef struct {
    PyObject base;   /* PyObject_HEAD */
    cai_array array; /* all zero until it is created */
} Floats;

typedef struct {
    CUdeviceptr memory;
    CUstream stream;
} buffer;

/* After the last release: of the object, or of a consumer. Frees in stream order. */
static void destroy(void *context) {
    buffer *self = context;
    (void)cuMemFreeAsync(self->memory, self->stream);
    (void)cuStreamDestroy(self->stream);
    free(self);
}

/* Allocates the memory and starts to fill it. */
static CUresult fill(buffer *self, size_t count, float value) {
    union {
        float number;
        unsigned bits;
    } pattern;
    CUresult result = cuStreamCreate(&self->stream, CU_STREAM_NON_BLOCKING);
    pattern.number = value;
    if (result == CUDA_SUCCESS) {
        result = cuMemAllocAsync(&self->memory, count * sizeof(float), self->stream);
    }
    if (result == CUDA_SUCCESS) {
        result = cuMemsetD32Async(self->memory, pattern.bits, count, self->stream);
    }
    return result;
}

static cai_status describe_buffer(buffer *self, int64_t count, cai_array *out, cai_error *why) {
    const cai_stream pending = cai_inline_stream(self->stream);
    cai_array array = CAI_ARRAY_INIT;
    array.data = (void *)(uintptr_t)self->memory;
    array.shape = &count;
    array.ndim = 1;
    memcpy(array.typestr, "<f4", 4);
    array.device.type = CAI_DEVICE_CUDA;
    cai_status status = cai_array_produce(&array, &pending, 1, pending, 0, why);
    if (status != CAI_OK) {
        return status;
    }
    return cai_array_create(&array, self, destroy, out, why);
}

static PyObject *floats_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    long long count;
    float value;
    buffer *data;
    cai_error why;
    (void)keywords;
    if (!PyArg_ParseTuple(arguments, "Lf", &count, &value)) {
        return NULL;
    }
    if (count < 1 || count > 1 << 30) {
        return PyErr_Format(PyExc_ValueError, "expected a count of 1 to 2^30");
    }
    Floats *self = (Floats *)type->tp_alloc(type, 0);
    data = calloc(1, sizeof *data);
    if (self == NULL || data == NULL) {
        Py_XDECREF((PyObject *)self);
        free(data);
        return PyErr_NoMemory();
    }
    self->array.struct_size = sizeof(cai_array);
    CUresult driver = fill(data, (size_t)count, value);
    if (driver != CUDA_SUCCESS) {
        destroy(data);
        Py_DECREF((PyObject *)self);
        return PyErr_Format(PyExc_RuntimeError, "the CUDA driver returned %d", (int)driver);
    }
    if (describe_buffer(data, count, &self->array, &why) != CAI_OK) {
        destroy(data);
        Py_DECREF((PyObject *)self);
        return cai_python_raise(&why);
    }
    return (PyObject *)self;
}

static void floats_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    cai_array_release(&((Floats *)self)->array); /* consumers may still hold the memory */
    type->tp_free(self);
    Py_DECREF(type);
}

/* Returns the attribute of the object that the library makes from the array. */
static PyObject *forward(PyObject *self, void *name) {
    PyObject *object = NULL, *result;
    if (cai_array_to_python(&((Floats *)self)->array, NULL, &object, NULL) != CAI_OK) {
        return NULL; /* the exception is set */
    }
    result = PyObject_GetAttrString(object, name);
    Py_DECREF(object);
    return result;
}

static PyGetSetDef attributes[] = {
    {"__cuda_array_interface__", forward, NULL, NULL, "__cuda_array_interface__"},
    {"__dlpack__", forward, NULL, NULL, "__dlpack__"},
    {"__dlpack_device__", forward, NULL, NULL, "__dlpack_device__"},
    {NULL, NULL, NULL, NULL, NULL},
};

/* Called with the interpreter's lock held. The owner belongs to the memory, not to the object. */
static cai_status from_object(PyObject *self, cai_array *out, cai_error *why) {
    return cai_array_share(&((Floats *)self)->array, out, why);
}

static const cai_unstable_exchange_api table = {sizeof(cai_unstable_exchange_api), CAI_DATA_ABI,
                                                from_object, NULL};

static PyType_Slot slots[] = {
    {Py_tp_new, (void *)(uintptr_t)floats_new},
    {Py_tp_dealloc, (void *)(uintptr_t)floats_dealloc},
    {Py_tp_getset, attributes},
    {0, NULL},
};

static PyType_Spec spec = {"floats.Floats", sizeof(Floats), 0, Py_TPFLAGS_DEFAULT, slots};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "floats", NULL, -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_floats(void);
PyMODINIT_FUNC PyInit_floats(void) {
    PyObject *made = PyModule_Create(&module), *type = PyType_FromSpec(&spec);
    if (made == NULL || type == NULL || cai_unstable_python_publish(type, &table, NULL) != CAI_OK ||
        PyModule_AddObject(made, "Floats", type) != 0) {
        Py_XDECREF(type);
        Py_XDECREF(made);
        return NULL;
    }
    return made;
}
