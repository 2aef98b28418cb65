/* Imports by the hundred thousand, for test_leaks.py, which loads this with ctypes.PyDLL. */

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cai/cai.h"
#include <cai/unstable/exchange.h>
#include <cai/unstable/slice.h>

typedef struct _object PyObject;

/* CPython is in the process already; nothing is linked. */
extern void PyErr_Clear(void);
extern PyObject *PyErr_Occurred(void);
extern void PyErr_SetString(PyObject *, const char *);
extern PyObject *PyExc_OSError;
extern PyObject *PyExc_BufferError;
extern void *PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void *);
extern void Py_DecRef(PyObject *);
extern PyObject *PyObject_GetAttrString(PyObject *, const char *);

/* Each object so many times. Answers the last status, or -1: not always the same, or an exception
   that should not be there, or none where there should be one. */
long leaks_import(PyObject *object, long times, unsigned flags, int via) {
    cai_import_options options = CAI_IMPORT_OPTIONS_INIT;
    options.flags = flags;
    options.protocols[0] = (unsigned char)via;
    cai_error error;
    long last = -2;
    for (long index = 0; index < times; index++) {
        cai_array array = CAI_ARRAY_INIT;
        cai_status status =
            cai_array_from_python(object, &options, &array, index % 2 ? NULL : &error);
        int raised = PyErr_Occurred() != NULL;
        if (raised != (status != CAI_OK &&
                       (!(flags & CAI_IMPORT_NO_EXCEPTION) || status == CAI_ERR_PYTHON_EXCEPTION)))
            return -1;
        PyErr_Clear();
        if (last != -2 && status != last) return -1;
        last = status;
        if (status != CAI_OK) continue;
        if (index % 3 == 0) {
            cai_array other = CAI_ARRAY_INIT;
            if (cai_array_share(&array, &other, NULL) != CAI_OK) return -1;
            cai_array_release(&other);
        }
        if (index % 3 == 1) {
            cai_array part = CAI_ARRAY_INIT;
            if (cai_unstable_array_slice(&array, array.ndim, 0, 0, 1, &part, NULL) !=
                    CAI_ERR_ARGUMENT ||
                cai_unstable_array_slice(&array, 0, 1, array.shape[0], 2, &part, NULL) != CAI_OK)
                return -1;
            cai_array_release(&part);
        }
        cai_array_release(&array);
    }
    return last;
}

/* `Py_buffer`, or more. */
typedef struct {
    void *buf;
    PyObject *obj;
    void *others[16];
} view;
extern int PyObject_GetBuffer(PyObject *, view *, int);
extern void PyBuffer_Release(view *);

/* Two consumers at once, so many times. Answers whether the memory is lent, or -1. */
long leaks_lend(PyObject *object, long times, int flags) {
    long last = -1;
    for (long index = 0; index < times; index++) {
        view first, second;
        long lent = PyObject_GetBuffer(object, &first, flags) == 0;
        if (lent != (PyErr_Occurred() == NULL) || (index && lent != last)) return -1;
        last = lent;
        PyErr_Clear();
        if (!lent) continue;
        if (PyObject_GetBuffer(object, &second, flags) != 0) return -1;
        PyBuffer_Release(&first);
        PyBuffer_Release(&second);
    }
    return last;
}

/* Out, all attributes, and in again. */
long leaks_export(PyObject *object, long times) {
    static const char *const NAMES[] = {"__cuda_array_interface__",
                                        "__array_interface__",
                                        "__sycl_usm_array_interface__",
                                        "__cai_exchange_api__",
                                        "__dlpack_c_exchange_api__",
                                        "nothing",
                                        "__class__"};
    cai_array array = CAI_ARRAY_INIT;
    if (cai_array_from_python(object, NULL, &array, NULL) != CAI_OK) return -1;
    for (long index = 0; index < times; index++) {
        PyObject *out = NULL;
        if (cai_array_to_python(&array, NULL, &out, NULL) != CAI_OK) return -1;
        for (size_t name = 0; name < sizeof NAMES / sizeof *NAMES; name++) {
            PyObject *found = PyObject_GetAttrString(out, NAMES[name]);
            if (found) Py_DecRef(found);
            PyErr_Clear();
        }
        cai_array again = CAI_ARRAY_INIT;
        if (cai_array_from_python(out, NULL, &again, NULL) != CAI_OK) return -1;
        Py_DecRef(out);
        cai_array_release(&again);
    }
    cai_array_release(&array);
    return 0;
}

/* Threads that Python does not know release what others import. */
#define SLOTS 256
static cai_array queue[SLOTS];
static atomic_int full[SLOTS];
static atomic_int stopped;

static void *let_go(void *from) {
    for (;;) {
        int idle = 1;
        for (size_t place = (size_t)from; place < SLOTS; place += 2) {
            if (atomic_load_explicit(&full[place], memory_order_acquire) == 2) {
                cai_array_release(&queue[place]);
                atomic_store_explicit(&full[place], 0, memory_order_release);
                idle = 0;
            }
        }
        if (idle && atomic_load(&stopped)) return NULL;
        if (idle) sched_yield();
    }
}

static pthread_t releasers[2];

void leaks_begin(void) {
    atomic_store(&stopped, 0);
    for (size_t index = 0; index < 2; index++)
        pthread_create(&releasers[index], NULL, let_go, (void *)index);
}

void leaks_end(void) {
    void *state = PyEval_SaveThread();
    atomic_store(&stopped, 1);
    for (size_t index = 0; index < 2; index++)
        pthread_join(releasers[index], NULL);
    PyEval_RestoreThread(state);
}

/* From one of Python's threads, several of which do so at once. */
long leaks_share(PyObject *object, long times) {
    cai_import_options options = CAI_IMPORT_OPTIONS_INIT;
    options.flags = CAI_IMPORT_ALLOW_MASK;
    for (long index = 0; index < times; index++) {
        cai_array array = CAI_ARRAY_INIT;
        if (cai_array_from_python(object, &options, &array, NULL) != CAI_OK) return -1;
        if (index % 16 == 0) {
            void *state = PyEval_SaveThread();
            if (index % 32 == 0) {
                cai_array_release(&array);
                PyEval_RestoreThread(state);
                continue;
            }
            PyEval_RestoreThread(state);
        }
        size_t place = (size_t)index % SLOTS;
        int empty = 0;
        if (!atomic_compare_exchange_strong(&full[place], &empty, 1)) {
            cai_array_release(&array);
            continue;
        }
        queue[place] = array;
        atomic_store_explicit(&full[place], 2, memory_order_release);
    }
    return 0;
}

/* --- tables --- */

static cai_status fails(PyObject *object, cai_array *out, cai_error *error) {
    (void)object, (void)out;
    memset(error, 0, sizeof *error);
    error->code = CAI_ERR_VALUE;
    strcpy(error->message, "no");
    return CAI_ERR_VALUE;
}

static cai_status raises(PyObject *object, cai_array *out, cai_error *error) {
    (void)object, (void)out, (void)error;
    PyErr_SetString(PyExc_OSError, "no");
    return CAI_ERR_PYTHON_EXCEPTION;
}

/* BufferError: another protocol may do. */
static cai_status declines(PyObject *object, cai_array *out, cai_error *error) {
    (void)object, (void)out, (void)error;
    PyErr_SetString(PyExc_BufferError, "no");
    return CAI_ERR_PYTHON_EXCEPTION;
}

static cai_status is_silent(PyObject *object, cai_array *out, cai_error *error) {
    (void)object, (void)out, (void)error;
    return CAI_ERR_PYTHON_EXCEPTION;
}

static void destroy(void *context) { free(context); }

static cai_status describe(cai_array *out, int ndim) {
    static const int64_t SHAPE[2] = {2, 3};
    struct cai_owner *owner;
    void *data = malloc(24);
    if (cai_owner_create(data, destroy, &owner, NULL) != CAI_OK) return CAI_ERR_NO_MEMORY;
    out->owner = owner;
    out->data = data;
    out->shape = SHAPE;
    out->ndim = ndim;
    strcpy(out->typestr, "<f4");
    out->stream = CAI_STREAM_NONE;
    return CAI_OK;
}

static cai_status gives(PyObject *object, cai_array *out, cai_error *error) {
    (void)object, (void)error;
    return describe(out, 2);
}

static cai_status lies(PyObject *object, cai_array *out, cai_error *error) {
    (void)object, (void)error;
    return describe(out, 99);
}

static cai_status borrows(PyObject *object, cai_array *out, cai_error *error) {
    cai_status status = gives(object, out, error);
    cai_array_release(out);
    *out = (cai_array)CAI_ARRAY_INIT;
    strcpy(out->typestr, "<f4");
    out->data = out;
    out->stream = CAI_STREAM_NONE;
    return status;
}

static const cai_unstable_exchange_api TABLES[] = {
    {sizeof(cai_unstable_exchange_api), CAI_DATA_ABI, fails, NULL},
    {sizeof(cai_unstable_exchange_api), CAI_DATA_ABI, raises, NULL},
    {sizeof(cai_unstable_exchange_api), CAI_DATA_ABI, is_silent, NULL},
    {sizeof(cai_unstable_exchange_api), CAI_DATA_ABI, gives, NULL},
    {sizeof(cai_unstable_exchange_api), CAI_DATA_ABI, lies, NULL},
    {sizeof(cai_unstable_exchange_api), CAI_DATA_ABI, borrows, NULL},
    {sizeof(cai_unstable_exchange_api), CAI_DATA_ABI, declines, NULL},
};

long leaks_publish(PyObject *type, int table) {
    return cai_unstable_python_publish(type, &TABLES[table], NULL);
}
