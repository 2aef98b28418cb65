/*
 * cai/unstable/exchange.h: a table of functions on a Python type, through which every copy of this
 * library imports its objects without calling Python.
 *
 * Unstable: a minor release may change or remove what this header declares; the change log says so.
 * It has not run on a GPU yet, and nobody outside this repository uses it: both are needed before its
 * names become part of the stable interface, without `unstable`.
 *
 *     #include <cai/cai.h>
 *     #include <cai/unstable/exchange.h>
 *
 *     static cai_status describe(struct _object *object, cai_array *out, cai_error *error) {
 *         (void)object, (void)out; // the array of the object
 *         return cai_error_set(error, CAI_ERR_UNSUPPORTED, "object", "no array yet");
 *     }
 *     static const cai_unstable_exchange_api table = {sizeof(cai_unstable_exchange_api), CAI_DATA_ABI,
 *                                                     describe, NULL};
 *
 *     int main(void) {
 *         return cai_unstable_python_publish(NULL, &table, NULL) == CAI_ERR_NULL_ARGUMENT ? 0 : 1;
 *     }
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 * Generated from the sources of libcai: do not edit.
 */
#ifndef CAI_UNSTABLE_EXCHANGE_H
#define CAI_UNSTABLE_EXCHANGE_H

#include "../status.h"
#if CAI_ABI_H_VERSION < 0x10000
#error "an older copy of cai/abi.h was included before cai/unstable/exchange.h: include the newest one first"
#endif

struct _object;

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct cai_unstable_exchange_api cai_unstable_exchange_api;

/// Table of functions that a Python type publishes with `cai_unstable_python_publish` or
/// `cai_unstable_python_table`, so that compiled code exchanges its objects without Python calls. It
/// is constant and lives as long as the process.
///
/// The functions are called with the interpreter's lock held. If they fail they may set a Python
/// exception, which is then passed on.
struct cai_unstable_exchange_api {
    /// `sizeof(cai_unstable_exchange_api)` of the publisher's header; at least 24.
    uint32_t struct_size;
    /// `CAI_DATA_ABI` of the publisher's header. A table with another number is not used.
    uint32_t data_abi;
    /// Describes an object of the type, or of a derived type, in `out`, which is initialized
    /// (`CAI_ARRAY_INIT`) and gets a reference of its own. It orders nothing: `out` names the
    /// stream.
    cai_status (*from_object)(struct _object *object, cai_array *out, cai_error *error);
    /// NULL, or makes a new object of the type that holds a reference of its own to the array.
    cai_status (*to_object)(const cai_array *array, struct _object **out, cai_error *error);
};

/// Publishes an exchange table on a Python type, as its attribute `__cai_exchange_api__`. From then
/// on, `cai_array_from_python` of any copy of this library imports objects of the type, and of
/// derived types, through the table.
///
/// `type`: a `PyTypeObject *` that allows new attributes: a heap type, as pybind11, nanobind and
/// `PyType_FromSpec` make them. For others, such as Cython's: `cai_unstable_python_table`.
/// `table`: constant as long as the process lives.
///
/// On failure a Python exception is set if there is an interpreter.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_TYPE`, `CAI_ERR_EXCHANGE_TABLE`,
/// `CAI_ERR_NO_PYTHON`, `CAI_ERR_PYTHON_VERSION`, `CAI_ERR_PYTHON_LOCK`, `CAI_ERR_PYTHON_EXCEPTION`
/// or `CAI_ERR_NO_MEMORY`.
/// Thread safety: any thread that holds the interpreter's lock.
CAI_API
cai_status cai_unstable_python_publish(struct _object *type,
                                       const cai_unstable_exchange_api *table,
                                       cai_error *error);

/// Makes the value of the attribute `__cai_exchange_api__`, for a type that allows no new
/// attributes, a static type: the type has the value in its body (a `cdef class` of Cython), or in
/// `tp_dict` before its first use. It then works as after `cai_unstable_python_publish`. The value is
/// a capsule named `cai_exchange_api_1`, whose number is `CAI_DATA_ABI`.
///
/// `table`: constant as long as the process lives.
/// `out`: a new reference, on success only.
///
/// On failure a Python exception is set if there is an interpreter.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_EXCHANGE_TABLE`, `CAI_ERR_NO_PYTHON`,
/// `CAI_ERR_PYTHON_VERSION`, `CAI_ERR_PYTHON_LOCK`, `CAI_ERR_PYTHON_EXCEPTION` or
/// `CAI_ERR_NO_MEMORY`.
/// Thread safety: any thread that holds the interpreter's lock.
CAI_API
cai_status cai_unstable_python_table(const cai_unstable_exchange_api *table,
                                     struct _object **out,
                                     cai_error *error);

#if defined(__cplusplus)
}
#endif

#endif /* CAI_UNSTABLE_EXCHANGE_H */
