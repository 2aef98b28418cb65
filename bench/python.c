/*
 * Exchange with Python objects: a module whose function runs one way of it many times over.
 * python_bench.py says which ways, with which objects, and prints what they cost. Peers that are
 * Python functions are called from here as well, so that no interpreter loop is counted on any
 * side.
 */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "dlpack.h"
#include "timing.h"

#include <cai/cai.h>
#include <cai/unstable/exchange.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

static PyObject *n_interface;

/* One way: what it works on, and what `prepare` made of that. */
typedef struct way {
    PyObject *object, *with;
    PyObject *arguments[8], *names;
    size_t count;
    cai_array array;
    cai_import_options options;
    const void *table;
} way;

/* --- a dictionary, read by hand: by an extension that is compiled for this version of CPython */

enum { MOST_NDIM = 64 };
typedef struct description {
    void *data;
    int64_t shape[MOST_NDIM], strides[MOST_NDIM];
    int ndim, readonly, has_strides;
    char typestr[16];
    uint64_t stream;
} description;

enum { SHAPE, TYPESTR, DATA, VERSION, STRIDES, STREAM, KEYS };
static PyObject *n_keys[KEYS];

enum { WRONG = -1, NOT_HELD = -2 };

/* Reads integers of a tuple or a list. Code of a type, which converts those of other types, may
 * change the dictionary and the list: it runs only if the values of the dictionary are held. */
static int read_row(PyObject *row, int64_t *to, int extents, int held) {
    Py_ssize_t count, i;
    if (!PyTuple_CheckExact(row) && !PyList_CheckExact(row)) return WRONG;
    count = PySequence_Fast_GET_SIZE(row);
    if (count > MOST_NDIM) return WRONG;
    for (i = 0; i < count; i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(row, i);
        if (PyLong_CheckExact(item)) {
            to[i] = PyLong_AsSsize_t(item);
        } else if (held) {
            Py_INCREF(item);
            to[i] = PyNumber_AsSsize_t(item, PyExc_OverflowError);
            Py_DECREF(item);
            if (PySequence_Fast_GET_SIZE(row) != count) return WRONG;
        } else {
            return NOT_HELD;
        }
        if (to[i] < 0 && (extents || (to[i] == -1 && PyErr_Occurred()))) return WRONG;
    }
    return (int)count;
}

static int read_values(PyObject **v, description *u, int held) {
    int count;
    Py_ssize_t length, version;
    if (v[TYPESTR] == NULL || !PyUnicode_CheckExact(v[TYPESTR])) return -1;
    const char *text = PyUnicode_AsUTF8AndSize(v[TYPESTR], &length);
    if (text == NULL || length < 3 || length > 15 ||
        (text[0] != '<' && text[0] != '>' && text[0] != '|'))
        return -1;
    memcpy(u->typestr, text, (size_t)length + 1);
    if (v[SHAPE] == NULL) return -1;
    u->ndim = read_row(v[SHAPE], u->shape, 1, held);
    if (u->ndim < 0) return u->ndim;
    u->has_strides = v[STRIDES] != NULL && v[STRIDES] != Py_None;
    if (u->has_strides) {
        count = read_row(v[STRIDES], u->strides, 0, held);
        if (count != u->ndim) return count == NOT_HELD ? NOT_HELD : WRONG;
    }
    if (v[DATA] == NULL || !PyTuple_CheckExact(v[DATA]) || PyTuple_GET_SIZE(v[DATA]) != 2)
        return -1;
    u->data = PyLong_AsVoidPtr(PyTuple_GET_ITEM(v[DATA], 0));
    if (u->data == NULL && PyErr_Occurred()) return -1;
    u->readonly = PyTuple_GET_ITEM(v[DATA], 1) == Py_True;
    if (!u->readonly && PyTuple_GET_ITEM(v[DATA], 1) != Py_False) return -1;
    if (v[VERSION] == NULL || !PyLong_CheckExact(v[VERSION])) return -1;
    version = PyLong_AsSsize_t(v[VERSION]);
    if (version < 0 || version > 3) return -1;
    u->stream = 0;
    if (v[STREAM] == NULL || v[STREAM] == Py_None) return 0;
    u->stream = PyLong_AsSize_t(v[STREAM]);
    return u->stream == 0 || PyErr_Occurred() ? -1 : 0;
}

#ifndef Py_BEGIN_CRITICAL_SECTION
#define Py_BEGIN_CRITICAL_SECTION(object) {
#define Py_END_CRITICAL_SECTION() }
#endif

static int read_dict(PyObject *d, description *u) {
    PyObject *v[KEYS] = {NULL}, *key, *value;
    Py_ssize_t at = 0;
    int failed;
    if (!PyDict_CheckExact(d)) return -1;
    Py_BEGIN_CRITICAL_SECTION(d);
    while (PyDict_Next(d, &at, &key, &value)) {
        int k = 0;
        while (k < KEYS && n_keys[k] != key)
            k++;
        if (k < KEYS) v[k] = value;
    }
    failed = read_values(v, u, 0);
    if (failed == NOT_HELD) {
        for (int k = 0; k < KEYS; k++)
            Py_XINCREF(v[k]);
        failed = read_values(v, u, 1);
        for (int k = 0; k < KEYS; k++)
            Py_XDECREF(v[k]);
    }
    Py_END_CRITICAL_SECTION();
    return failed;
}

/* Checks exact types, counts, ranges; holds the object while it uses what it read. */
static int by_hand(way *w) {
    description u;
    PyObject *d = PyObject_GetAttr(w->object, n_interface);
    if (d == NULL) return -1;
    int failed = read_dict(d, &u);
    Py_DECREF(d);
    if (failed) return -1;
    Py_INCREF(w->object);
    KEEP(&u);
    Py_DECREF(w->object);
    return 0;
}

static int dict_by_hand(way *w) {
    description u;
    if (read_dict(w->object, &u) != 0) return -1;
    Py_INCREF(w->object);
    KEEP(&u);
    Py_DECREF(w->object);
    return 0;
}

/* --- libcai */

static int with_library(way *w) {
    cai_array a = CAI_ARRAY_INIT;
    if (cai_array_from_python(w->object, NULL, &a, NULL) != CAI_OK) return -1;
    KEEP(&a);
    cai_array_release(&a);
    return 0;
}

static int with_dict(way *w) {
    cai_array a = CAI_ARRAY_INIT;
    if (cai_array_from_python_dict(w->object, NULL, NULL, &a, NULL) != CAI_OK) return -1;
    KEEP(&a);
    cai_array_release(&a);
    return 0;
}

/* `with`: CAI_IMPORT_ bits, and up to four CAI_PROTOCOL_ numbers from bit 32 on, lowest first; or a
 * tuple of these and what a C++ function requires: the number of dimensions, the type. */
static int prepare_options(way *w) {
    const cai_import_options init = CAI_IMPORT_OPTIONS_INIT;
    unsigned long long packed;
    const char *typestr = "";
    w->options = init;
    if (PyTuple_Check(w->with)) {
        if (!PyArg_ParseTuple(w->with, "Kis", &packed, &w->options.ndim, &typestr)) return -1;
        strncpy(w->options.typestr, typestr, sizeof w->options.typestr - 1);
        if (strcmp(typestr, "<V2") == 0)
            w->options.dtype_code = w->options.opaque_16bit = CAI_DTYPE_BFLOAT16;
    } else {
        packed = PyLong_AsUnsignedLongLong(w->with);
    }
    w->options.flags = (uint32_t)packed;
    for (int i = 0; i < 4; i++)
        w->options.protocols[i] = (uint8_t)(packed >> (32 + 8 * i));
    return PyErr_Occurred() ? -1 : 0;
}

static int with_library_and_options(way *w) {
    cai_array a = CAI_ARRAY_INIT;
    if (cai_array_from_python(w->object, &w->options, &a, NULL) != CAI_OK) return -1;
    KEEP(&a);
    cai_array_release(&a);
    return 0;
}

/* --- a mover: address, bytes, contiguity ------------------------------------------------------ */

/* Memory that an object lends, until the last reference is released, by any thread. */
typedef struct kept {
    atomic_int count;
    int c_contiguous, f_contiguous;
    int64_t items, bytes, lower, upper;
    Py_buffer view;
} kept;

static void kept_release(kept *k) {
    PyGILState_STATE state;
    if (atomic_fetch_sub_explicit(&k->count, 1, memory_order_acq_rel) != 1) return;
    state = PyGILState_Ensure();
    PyBuffer_Release(&k->view);
    PyGILState_Release(state);
    PyMem_RawFree(k);
}

/* Elements of this machine's own types, whose extents and strides stay within 2^63 bytes. */
static int kept_check(kept *k) {
    const Py_buffer *view = &k->view;
    const char *format = view->format == NULL ? "B" : view->format;
    int64_t size, step, reach;
    if (format[0] == 0 || format[1] != 0 || view->suboffsets != NULL) return -1;
    switch (format[0]) {
    case '?':
    case 'b':
    case 'B':
    case 'c': size = 1; break;
    case 'e':
    case 'h':
    case 'H': size = 2; break;
    case 'i':
    case 'I':
    case 'f': size = 4; break;
    case 'l':
    case 'L':
    case 'q':
    case 'Q':
    case 'd': size = 8; break;
    default: return -1;
    }
    if (view->itemsize != size || view->ndim < 0 || view->ndim > MOST_NDIM) return -1;
    if (view->ndim > 0 && (view->shape == NULL || view->strides == NULL)) return -1;
    k->items = 1, k->upper = size, k->c_contiguous = k->f_contiguous = 1;
    for (int i = 0; i < view->ndim; i++) {
        if (view->shape[i] < 0) return -1;
        if (view->shape[i] == 0) k->items = 0;
    }
    for (int i = 0; i < view->ndim && k->items > 0; i++) {
        int64_t *const to = view->strides[i] < 0 ? &k->lower : &k->upper;
        if (view->shape[i] > 1 && view->strides[i] != k->items * size) k->f_contiguous = 0;
        if (__builtin_mul_overflow(k->items, view->shape[i], &k->items) ||
            __builtin_mul_overflow(view->shape[i] - 1, view->strides[i], &reach) ||
            __builtin_add_overflow(*to, reach, to))
            return -1;
    }
    if (__builtin_mul_overflow(k->items, size, &k->bytes)) return -1;
    step = size;
    for (int i = view->ndim; i-- > 0 && k->items > 0;) {
        if (view->shape[i] > 1 && view->strides[i] != step) k->c_contiguous = 0;
        step *= view->shape[i];
    }
    return k->items > 0 && view->buf == NULL ? -1 : 0;
}

/* Code for memory of the host alone: the property of CUDA's protocol first, which such an object
 * lacks; then its view, which is checked, measured and kept. */
static int buffer_by_hand(way *w) {
    static int (*look_up)(PyObject *, PyObject *, PyObject **);
    PyObject *found = NULL;
    kept *k;
    if (look_up == NULL) {
        void *optional = dlsym(RTLD_DEFAULT, "PyObject_GetOptionalAttr");
        *(void **)&look_up = optional ? optional : dlsym(RTLD_DEFAULT, "_PyObject_LookupAttr");
    }
    if (!PyGILState_Check() || look_up(w->object, n_interface, &found) != 0) return -1;
    k = PyMem_RawCalloc(1, sizeof *k);
    if (k == NULL) return -1;
    if (PyObject_GetBuffer(w->object, &k->view, PyBUF_FULL_RO) != 0) {
        PyMem_RawFree(k);
        return -1;
    }
    atomic_init(&k->count, 1);
    if (kept_check(k) != 0) {
        kept_release(k);
        return -1;
    }
    KEEP(k);
    kept_release(k);
    return 0;
}

/* The same with one import of any object: a wait of the host, the bytes, the contiguity. */
static int mover(way *w) {
    cai_array a = CAI_ARRAY_INIT;
    cai_layout layout;
    if (cai_array_from_python(w->object, &w->options, &a, NULL) != CAI_OK) return -1;
    if (cai_array_synchronize(&a, CAI_ACCESS_READ, NULL) != CAI_OK ||
        cai_array_layout(&a, &layout, NULL) != CAI_OK) {
        cai_array_release(&a);
        return -1;
    }
    KEEP(a.data);
    KEEP(&layout);
    cai_array_release(&a);
    return 0;
}

/* A C function of another module, `int f(PyObject *object)`. `with`: its address. */
static int prepare_native(way *w) {
    w->table = PyLong_AsVoidPtr(w->with);
    return w->table == NULL ? -1 : 0;
}

static int native(way *w) { return ((int (*)(PyObject *))w->table)(w->object); }

static int attribute(way *w) {
    PyObject *value = PyObject_GetAttr(w->object, w->with);
    if (value == NULL) return -1;
    Py_DECREF(value);
    return 0;
}

/* --- a Python function */

/* `with`: positional arguments; keywords, or None; attributes to read of the answer, or None. */
static int prepare_call(way *w) {
    PyObject *positional = PyTuple_GetItem(w->with, 0), *keywords = PyTuple_GetItem(w->with, 1);
    PyObject *key, *value;
    Py_ssize_t i, position = 0;
    if (positional == NULL || keywords == NULL) return -1;
    for (i = 0; i < PyTuple_GET_SIZE(positional); i++)
        w->arguments[++w->count] = PyTuple_GET_ITEM(positional, i);
    if (keywords != Py_None) {
        PyObject *names = PySequence_Tuple(keywords);
        size_t place = w->count;
        if (names == NULL) return -1;
        while (PyDict_Next(keywords, &position, &key, &value))
            w->arguments[++place] = value;
        w->names = names;
    }
    return 0;
}

static int call(way *w) {
    PyObject *attributes = PyTuple_GET_ITEM(w->with, 2);
    PyObject *answer = PyObject_Vectorcall(w->object, w->arguments + 1,
                                           w->count | PY_VECTORCALL_ARGUMENTS_OFFSET, w->names);
    if (answer == NULL) return -1;
    if (attributes != Py_None) {
        Py_ssize_t i;
        for (i = 0; i < PyTuple_GET_SIZE(attributes); i++) {
            PyObject *value = PyObject_GetAttr(answer, PyTuple_GET_ITEM(attributes, i));
            if (value == NULL) {
                Py_DECREF(answer);
                return -1;
            }
            Py_DECREF(value);
        }
    }
    Py_DECREF(answer);
    return 0;
}

/* --- tables on types */

static const void *find_table(PyObject *object, const char *attribute, const char *name) {
    PyObject *capsule = PyObject_GetAttrString((PyObject *)Py_TYPE(object), attribute);
    if (capsule == NULL) return NULL;
    const void *table = PyCapsule_GetPointer(capsule, name);
    Py_DECREF(capsule);
    return table;
}

static int prepare_own_table(way *w) {
    w->table = find_table(w->object, "__cai_exchange_api__", "cai_exchange_api_1");
    return w->table == NULL ? -1 : 0;
}

static int own_table_by_hand(way *w) {
    const cai_unstable_exchange_api *table = w->table;
    cai_array a = CAI_ARRAY_INIT;
    if (table->from_object(w->object, &a, NULL) != CAI_OK) return -1;
    KEEP(&a);
    cai_inline_release(&a);
    return 0;
}

static int prepare_dlpack_table(way *w) {
    w->table = find_table(w->object, "__dlpack_c_exchange_api__", "dlpack_exchange_api");
    return w->table == NULL ? -1 : 0;
}

/* Version, flags, device, type, extents, and the bytes that the strides reach. */
static int tensor_check(const dl_managed *m) {
    const dl_tensor *t = &m->tensor;
    const int bytes = t->bits / 8;
    const int is_number = t->code <= 2 && (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8);
    const int is_other = (t->code == 4 && t->bits == 16) || (t->code == 6 && t->bits == 8) ||
                         (t->code == 5 && (t->bits == 64 || t->bits == 128));
    int64_t all = bytes, lower = 0, upper = bytes, step, reach;
    uint64_t end;
    if (m->major != 1 || m->flags > 7 || t->lanes != 1 || t->bits % 8 != 0) return -1;
    if ((!is_number && !is_other) || t->ndim < 0 || t->ndim > MOST_NDIM) return -1;
    if (t->device_type < 1 || t->device_type > CAI_DEVICE_TRN || t->device_id < 0) return -1;
    if ((t->ndim > 0 && t->shape == NULL) || t->byte_offset != 0) return -1;
    for (int i = 0; i < t->ndim; i++) {
        if (t->shape[i] < 0 || __builtin_mul_overflow(all, t->shape[i], &all)) return -1;
        if (t->strides == NULL || t->shape[i] == 0) continue;
        if (__builtin_mul_overflow(t->strides[i], (int64_t)bytes, &step) ||
            __builtin_mul_overflow(t->shape[i] - 1, step, &reach) ||
            __builtin_add_overflow(reach < 0 ? lower : upper, reach, reach < 0 ? &lower : &upper))
            return -1;
    }
    if (all == 0) return 0;
    if (t->strides == NULL) upper = all;
    return t->data == NULL || (uint64_t)(uintptr_t)t->data < 0 - (uint64_t)lower ||
                   __builtin_add_overflow((uint64_t)(uintptr_t)t->data, (uint64_t)upper, &end)
               ? -1
               : 0;
}

/* A tensor of one's own, as a caller takes that keeps it: asked for, checked, deleted. */
static int dlpack_tensor_by_hand(way *w) {
    const dl_exchange *table = w->table;
    dl_managed *m = NULL;
    void *stream = NULL;
    if (table->from_object(w->object, &m) != 0) return -1;
    if (tensor_check(m) != 0 ||
        (m->tensor.device_type == CAI_DEVICE_CUDA &&
         table->current_stream(m->tensor.device_type, m->tensor.device_id, &stream) != 0)) {
        m->deleter(m);
        return -1;
    }
    KEEP(m);
    KEEP(stream);
    m->deleter(m);
    return 0;
}

/* A borrowed tensor, good for the time of one call. */
static int dlpack_view_by_hand(way *w) {
    const dl_exchange *table = w->table;
    dl_tensor tensor;
    void *stream = NULL;
    if (table->view(w->object, &tensor) != 0) return -1;
    if (tensor.device_type == CAI_DEVICE_CUDA &&
        table->current_stream(tensor.device_type, tensor.device_id, &stream) != 0) {
        return -1;
    }
    KEEP(&tensor);
    KEEP(stream);
    return 0;
}

/* A type of a producer that offers DLPack's table. */
typedef struct tensor_object {
    PyObject_HEAD int64_t shape[2], strides[2];
} tensor_object;

static int tensor_view(void *object, dl_tensor *out) {
    tensor_object *self = object;
    const dl_tensor tensor = {
        (void *)0x7f0000000000, CAI_DEVICE_CUDA, 0, 2, 2, 32, 1, self->shape, self->strides, 0};
    *out = tensor;
    return 0;
}

static void tensor_deleter(dl_managed *m) {
    Py_DECREF((PyObject *)m->context);
    PyMem_RawFree(m);
}

static int tensor_from_object(void *object, dl_managed **out) {
    dl_managed *m = PyMem_RawMalloc(sizeof(*m));
    if (m == NULL) return -1;
    m->major = 1;
    m->minor = 3;
    Py_INCREF((PyObject *)object);
    m->context = object;
    m->deleter = tensor_deleter;
    m->flags = 0;
    *out = m;
    return tensor_view(object, &m->tensor);
}

static int tensor_stream(int32_t device_type, int32_t device_id, void **out) {
    (void)device_type, (void)device_id;
    *out = (void *)0x1000;
    return 0;
}

static PyObject *tensor_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    tensor_object *self = (tensor_object *)type->tp_alloc(type, 0);
    (void)arguments, (void)keywords;
    if (self == NULL) return NULL;
    self->shape[0] = 3, self->shape[1] = 4;
    self->strides[0] = 4, self->strides[1] = 1;
    return (PyObject *)self;
}

static int wrong_view(void *object, dl_tensor *out) {
    tensor_view(object, out);
    ((tensor_object *)object)->shape[0] = -1;
    return 0;
}

static int wrong_from_object(void *object, dl_managed **out) {
    const int status = tensor_from_object(object, out);
    if (status == 0) (*out)->tensor.shape[0] = -1;
    return status;
}

static PyType_Slot tensor_slots[] = {{Py_tp_new, tensor_new}, {0, NULL}};
static PyType_Spec tensor_spec = {"python_ways.Tensor", sizeof(tensor_object), 0,
                                  Py_TPFLAGS_DEFAULT, tensor_slots};

static int add_tensor_type(PyObject *module, const char *name, dl_exchange *table) {
    PyObject *type = PyType_FromSpec(&tensor_spec), *capsule;
    if (type == NULL) return -1;
    capsule = PyCapsule_New(table, "dlpack_exchange_api", NULL);
    if (capsule == NULL || PyObject_SetAttrString(type, "__dlpack_c_exchange_api__", capsule) < 0)
        return -1;
    Py_DECREF(capsule);
    return PyModule_AddObject(module, name, type);
}

/* --- out */

static int prepare_array(way *w) {
    const cai_array init = CAI_ARRAY_INIT;
    w->array = init;
    return prepare_options(w) == 0 &&
                   cai_array_from_python(w->object, &w->options, &w->array, NULL) == CAI_OK
               ? 0
               : -1;
}

static int out(way *w) {
    PyObject *object = NULL;
    if (cai_array_to_python(&w->array, NULL, &object, NULL) != CAI_OK) return -1;
    Py_DECREF(object);
    return 0;
}

static int out_and_read(way *w) {
    PyObject *object = NULL, *value;
    if (cai_array_to_python(&w->array, NULL, &object, NULL) != CAI_OK) return -1;
    value = PyObject_GetAttr(object, n_interface);
    Py_DECREF(object);
    if (value == NULL) return -1;
    Py_DECREF(value);
    return 0;
}

static int out_and_in(way *w) {
    cai_array a = CAI_ARRAY_INIT;
    PyObject *object = NULL;
    if (cai_array_to_python(&w->array, NULL, &object, NULL) != CAI_OK) return -1;
    cai_status status = cai_array_from_python(object, &w->options, &a, NULL);
    Py_DECREF(object);
    cai_array_release(&a);
    return status == CAI_OK ? 0 : -1;
}

/* The same dictionary in C, from values that are believed. */
static int dictionary_by_hand(way *w) {
    const cai_array *a = &w->array;
    PyObject *d = PyDict_New(), *shape = PyTuple_New(a->ndim), *data = PyTuple_New(2), *value;
    if (d == NULL || shape == NULL || data == NULL) return -1;
    for (int i = 0; i < a->ndim; i++)
        PyTuple_SET_ITEM(shape, i, PyLong_FromLongLong(a->shape[i]));
    PyDict_SetItem(d, n_keys[SHAPE], shape);
    Py_DECREF(shape);
    value = PyUnicode_FromString(a->typestr);
    PyDict_SetItem(d, n_keys[TYPESTR], value);
    Py_DECREF(value);
    PyTuple_SET_ITEM(data, 0, PyLong_FromVoidPtr(a->data));
    PyTuple_SET_ITEM(data, 1, PyBool_FromLong((a->flags & CAI_ARRAY_READONLY) != 0));
    PyDict_SetItem(d, n_keys[DATA], data);
    Py_DECREF(data);
    value = PyLong_FromLong(3);
    PyDict_SetItem(d, n_keys[VERSION], value);
    Py_DECREF(value);
    PyDict_SetItem(d, n_keys[STRIDES], Py_None);
    PyDict_SetItem(d, n_keys[STREAM], Py_None);
    Py_DECREF(d);
    return 0;
}

/* --- threads without the lock */

enum { BATCH = 256 };
typedef struct batch {
    cai_array arrays[BATCH];
    double spent;
} batch;

static void *release_batch(void *context) {
    batch *b = context;
    double start = now();
    for (int i = 0; i < BATCH; i++)
        cai_array_release(&b->arrays[i]);
    b->spent = now() - start;
    return NULL;
}

/* What a release costs the thread. */
static double release_elsewhere(way *w, long times) {
    static batch b;
    double total = 0;
    long done;
    int i, failed;
    for (done = 0; done < times; done += BATCH) {
        pthread_t thread;
        for (i = 0; i < BATCH; i++) {
            const cai_array init = CAI_ARRAY_INIT;
            b.arrays[i] = init;
            if (cai_array_from_python(w->object, NULL, &b.arrays[i], NULL) != CAI_OK) return -1;
        }
        Py_BEGIN_ALLOW_THREADS failed = pthread_create(&thread, NULL, release_batch, &b) != 0 ||
                                        pthread_join(thread, NULL) != 0;
        Py_END_ALLOW_THREADS if (failed) return -1;
        if (with_library(w) != 0) return -1; /* lets the objects go */
        total += b.spent;
    }
    return total / (double)done;
}

/* --- the module */

static const struct kind {
    const char *name;
    int (*prepare)(way *w);
    int (*once)(way *w);
} kinds[] = {
    {"by_hand", NULL, by_hand},
    {"dict_by_hand", NULL, dict_by_hand},
    {"libcai", NULL, with_library},
    {"dict", NULL, with_dict},
    {"libcai_options", prepare_options, with_library_and_options},
    {"buffer_by_hand", NULL, buffer_by_hand},
    {"mover", prepare_options, mover},
    {"native", prepare_native, native},
    {"attribute", NULL, attribute},
    {"call", prepare_call, call},
    {"own_table", prepare_own_table, own_table_by_hand},
    {"dlpack_tensor", prepare_dlpack_table, dlpack_tensor_by_hand},
    {"dlpack_view", prepare_dlpack_table, dlpack_view_by_hand},
    {"out", prepare_array, out},
    {"out_and_read", prepare_array, out_and_read},
    {"out_and_in", prepare_array, out_and_in},
    {"dictionary_by_hand", prepare_array, dictionary_by_hand},
    {"release_elsewhere", NULL, NULL},
};

/* ns(kind, times, object, with): what one of `times` takes. */
static PyObject *ns(PyObject *self, PyObject *arguments) {
    static way w;
    const way nothing = {0};
    const char *name;
    long times, i;
    double start, spent = -1;
    size_t k = 0;
    (void)self;
    w = nothing;
    if (!PyArg_ParseTuple(arguments, "slOO", &name, &times, &w.object, &w.with)) return NULL;
    while (k < sizeof(kinds) / sizeof(kinds[0]) && strcmp(kinds[k].name, name) != 0)
        k++;
    if (k == sizeof(kinds) / sizeof(kinds[0])) return PyErr_Format(PyExc_KeyError, "%s", name);
    if (kinds[k].prepare == NULL || kinds[k].prepare(&w) == 0) {
        if (kinds[k].once == NULL) {
            spent = release_elsewhere(&w, times);
        } else {
            int failed = 0;
            int (*once)(way *) = kinds[k].once;
            start = now();
            for (i = 0; i < times && failed == 0; i++)
                failed = once(&w);
            if (failed == 0) spent = (now() - start) / (double)times;
        }
    }
    Py_XDECREF(w.names);
    cai_array_release(&w.array);
    if (spent >= 0) return PyFloat_FromDouble(spent);
    if (!PyErr_Occurred()) PyErr_Format(PyExc_RuntimeError, "%s failed", name);
    return NULL;
}

/* to_python(object, flags): in and out again. */
static PyObject *to_python(PyObject *self, PyObject *arguments) {
    way w = {0};
    PyObject *object = NULL;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "OO", &w.object, &w.with)) return NULL;
    if (prepare_array(&w) == 0) (void)cai_array_to_python(&w.array, NULL, &object, NULL);
    cai_array_release(&w.array);
    return object;
}

static PyObject *on_one_core(PyObject *self, PyObject *nothing) {
    (void)self, (void)nothing;
    one_core();
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"ns", ns, METH_VARARGS, NULL},
    {"to_python", to_python, METH_VARARGS, NULL},
    {"on_one_core", on_one_core, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "python_ways", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_python_ways(void) {
    static dl_exchange table = {1,    3,           NULL,         NULL, tensor_from_object,
                                NULL, tensor_view, tensor_stream};
    static const char *const names[KEYS] = {"shape",   "typestr", "data",
                                            "version", "strides", "stream"};
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL) return NULL;
#ifdef Py_GIL_DISABLED
    PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
    n_interface = PyUnicode_InternFromString("__cuda_array_interface__");
    for (int k = 0; k < KEYS; k++)
        n_keys[k] = PyUnicode_InternFromString(names[k]);
    static dl_exchange wrong = {1,    3,          NULL,         NULL, wrong_from_object,
                                NULL, wrong_view, tensor_stream};
    if (add_tensor_type(module, "Tensor", &table) < 0) return NULL;
    if (add_tensor_type(module, "WrongTensor", &wrong) < 0) return NULL;
    return module;
}
