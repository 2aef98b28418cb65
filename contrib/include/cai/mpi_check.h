/*
 * cai/mpi_check.h (unstable: may change in any minor release): what a sender states in front of the
 * elements, and its comparison by the receiver (`CAI_MPI_CHECK`). A part of cai/mpi.h: include that
 * header instead. It declares nothing public but one status.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef CAI_MPI_CHECK_H
#define CAI_MPI_CHECK_H

#include "mpi_types.h"

#include <stdio.h>

/** A message differs from the array that receives it, with `CAI_MPI_CHECK`. `error->field` names
 *  the member that differs (of fields whose list takes more than 255 characters, `descr` alone),
 *  and `error->message` the rank, and the values found and expected. */
#define CAI_ERR_MPI_MISMATCH (CAI_STATUS_THIRD_PARTY + 0x4d51)

/* `gap` is not sent. It makes the message one with gaps: of one without, Open MPI 5.0 writes all
 * bytes, also those that the receiver has no room for. */
typedef struct {
    char magic[8];
    int64_t gap;
    char typestr[CAI_TYPESTR_SIZE];
    int32_t dtype_code, ndim;
    uint64_t fields; /* a hash of all fields, or 0 */
    int64_t shape[CAI_MAX_NDIM];
    char descr[256]; /* the fields as text, or nothing if that is longer */
} cai_private_mpi_header;

/* Makes the datatype of the statement and of `nbytes` bytes behind it. */
static inline int cai_private_mpi_stated_type(int64_t nbytes, MPI_Datatype *out) {
    const int64_t gap = sizeof(int64_t), magic = 8;
    const int64_t rest = CAI_PRIVATE_CAST(int64_t, sizeof(cai_private_mpi_header)) - magic - gap;
    const int blocks[2] = {CAI_PRIVATE_CAST(int, magic), 1};
    const MPI_Aint at[2] = {0, magic + gap};
    MPI_Datatype parts[2];
    int made = 0, code;
    parts[0] = parts[1] = MPI_BYTE;
    code = cai_private_mpi_vector(rest + nbytes, 1, 1, 1, &parts[1], &made);
    if (code == MPI_SUCCESS) code = MPI_Type_create_struct(2, blocks, at, parts, out);
    if (made) (void)MPI_Type_free(&parts[1]);
    return code;
}

/* The 64-bit hash of Fowler, Noll and Vo. */
static inline uint64_t cai_private_mpi_hash(uint64_t hash, const void *data, size_t size) {
    const unsigned char *bytes = CAI_PRIVATE_CAST(const unsigned char *, data);
    size_t i;
    for (i = 0; i < size; ++i)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

/* Names, types and sub-arrays of all fields. The fields were validated. */
static inline uint64_t cai_private_mpi_fields(uint64_t hash, const cai_descr *descr) {
    const cai_field *field;
    cai_dtype dtype;
    uint64_t i;
    hash = cai_private_mpi_hash(hash, &descr->count, sizeof(descr->count));
    for (i = 0; (field = cai_inline_field(descr, i)) != NULL; ++i) {
        const size_t extents = CAI_PRIVATE_CAST(size_t, field->ndim) * sizeof(int64_t);
        hash = cai_private_mpi_hash(hash, field->name, strlen(field->name) + 1);
        hash = cai_private_mpi_hash(hash, &field->ndim, sizeof(field->ndim));
        hash = cai_private_mpi_hash(hash, field->shape, extents);
        if (field->nested != NULL) {
            hash = cai_private_mpi_fields(hash, field->nested);
        } else if (cai_field_dtype(field, &dtype, NULL) == CAI_OK) {
            hash = cai_private_mpi_hash(hash, &dtype.kind, sizeof(dtype.kind));
            hash = cai_private_mpi_hash(hash, &dtype.code, sizeof(dtype.code));
            hash = cai_private_mpi_hash(hash, &dtype.unit, sizeof(dtype.unit));
            hash = cai_private_mpi_hash(hash, &dtype.unit_count, sizeof(dtype.unit_count));
            hash = cai_private_mpi_hash(hash, &dtype.bits, sizeof(dtype.bits));
        }
    }
    return hash;
}

/* Writes what is stated about an array that was validated. */
static inline void cai_private_mpi_state(const cai_array *array, cai_private_mpi_header *out) {
    const cai_field *first = array->descr == NULL ? NULL : cai_inline_field(array->descr, 0);
    memset(out, 0, sizeof(*out));
    memcpy(out->magic, "caimpi2", sizeof(out->magic));
    memcpy(out->typestr, array->typestr, sizeof(out->typestr));
    out->dtype_code = array->dtype_code;
    out->ndim = array->ndim;
    /* A single row without a name describes a plain type. */
    if (first != NULL && (array->descr->count > 1 || first->name[0] != 0 || first->nested != NULL ||
                          first->ndim != 0)) {
        out->fields = cai_private_mpi_fields(0xcbf29ce484222325u, array->descr);
        (void)cai_descr_format(array->descr, out->descr, sizeof(out->descr), NULL, NULL);
    }
    if (array->ndim > 0)
        memcpy(out->shape, array->shape,
               CAI_PRIVATE_CAST(size_t, array->ndim) * sizeof(out->shape[0]));
}

/* Returns whether a message begins with such a statement. */
static inline int cai_private_mpi_is_stated(const void *message) {
    cai_private_mpi_header found;
    memcpy(&found, message, sizeof(found));
    return memcmp(found.magic, "caimpi2", sizeof(found.magic)) == 0 && found.ndim >= 0 &&
           found.ndim <= CAI_MAX_NDIM;
}

/* Bytes of a path, and of either side of a difference. */
#define CAI_PRIVATE_MPI_TEXT 160

/* Writes a shape as Python does: (3, 4). A long one is cut. */
static inline void cai_private_mpi_write_shape(int ndim, const int64_t *shape, char *out) {
    const int longest = 32; /* ", ", an extent, ",)" and the NUL */
    int at = 1, i;
    out[0] = '(';
    for (i = 0; i < ndim && CAI_PRIVATE_MPI_TEXT - at > 2 * longest; ++i)
        at += snprintf(out + at, CAI_PRIVATE_CAST(size_t, longest), "%s%lld", i > 0 ? ", " : "",
                       CAI_PRIVATE_CAST(long long, shape[i]));
    (void)snprintf(out + at, CAI_PRIVATE_CAST(size_t, longest), "%s",
                   i < ndim ? ", ...)" : (ndim == 1 ? ",)" : ")"));
}

/* Appends the path of the first difference of two valid lists of fields, and writes both sides.
 * Returns 0 if there is none, but for codes of types, which a list as text does not have. */
static inline int cai_private_mpi_differ(const cai_descr *found, const cai_descr *expected,
                                         char *path, char *left, char *right) {
    const size_t size = CAI_PRIVATE_MPI_TEXT, at = strlen(path);
    const char *member = NULL;
    cai_dtype theirs, ours;
    uint64_t i;
    for (i = 0; member == NULL && (i < found->count || i < expected->count); ++i) {
        const cai_field *a = cai_inline_field(found, i), *b = cai_inline_field(expected, i);
        (void)snprintf(path + at, size - at, "[%llu]", CAI_PRIVATE_CAST(unsigned long long, i));
        if (a == NULL || b == NULL || strcmp(a->name, b->name) != 0) {
            member = a == NULL || b == NULL ? "" : ".name";
            (void)snprintf(left, size, a == NULL ? "none" : "\"%s\"", a == NULL ? "" : a->name);
            (void)snprintf(right, size, b == NULL ? "none" : "\"%s\"", b == NULL ? "" : b->name);
        } else if (a->ndim != b->ndim || (a->ndim > 0 && memcmp(a->shape, b->shape,
                                                                CAI_PRIVATE_CAST(size_t, a->ndim) *
                                                                    sizeof(int64_t)) != 0)) {
            member = ".shape";
            cai_private_mpi_write_shape(a->ndim, a->shape, left);
            cai_private_mpi_write_shape(b->ndim, b->shape, right);
        } else if (a->nested != NULL && b->nested != NULL) {
            (void)snprintf(path + strlen(path), size - strlen(path), ".nested");
            if (cai_private_mpi_differ(a->nested, b->nested, path, left, right)) return 1;
        } else if (a->nested != NULL || b->nested != NULL ||
                   cai_dtype_parse(a->typestr, &theirs, NULL) != CAI_OK ||
                   cai_dtype_parse(b->typestr, &ours, NULL) != CAI_OK ||
                   !cai_dtype_equal(&theirs, &ours)) {
            member = ".typestr";
            (void)snprintf(left, size, a->nested != NULL ? "fields" : "\"%s\"", a->typestr);
            (void)snprintf(right, size, b->nested != NULL ? "fields" : "\"%s\"", b->typestr);
        }
    }
    if (member == NULL) path[at] = 0;
    else (void)snprintf(path + strlen(path), size - strlen(path), "%s", member);
    return member != NULL;
}

/* Compares what a message states with the array that receives it. `message` has room for the
 * statement. `received`: bytes that arrived. */
static inline cai_status cai_private_mpi_compare(const cai_array *array, const void *message,
                                                 int64_t received, int source, int tag,
                                                 cai_error *error) {
    cai_private_mpi_header found, expected;
    char text[CAI_ERROR_MESSAGE_SIZE], path[CAI_PRIVATE_MPI_TEXT] = "descr";
    char left[CAI_PRIVATE_MPI_TEXT], right[CAI_PRIVATE_MPI_TEXT];
    const char *field = NULL;
    const cai_descr *descr;
    cai_owner *owner;
    cai_dtype theirs, ours;
    const int is_stated =
        received >= CAI_PRIVATE_CAST(int64_t, sizeof(found) - sizeof(found.gap)) &&
        cai_private_mpi_is_stated(message);
    left[0] = right[0] = 0;
    if (!is_stated) {
        (void)snprintf(text, sizeof(text),
                       "found a message from rank %d with tag %d that states no type, expected "
                       "CAI_MPI_CHECK among the flags of both sides",
                       source, tag);
        return cai_error_set(error, CAI_ERR_MPI_MISMATCH, "flags", text);
    }
    memcpy(&found, message, sizeof(found));
    found.typestr[sizeof(found.typestr) - 1] = 0;
    cai_private_mpi_state(array, &expected);
    memset(&theirs, 0, sizeof(theirs));
    memset(&ours, 0, sizeof(ours));
    (void)cai_dtype_parse(found.typestr, &theirs, NULL);
    (void)cai_dtype_parse(expected.typestr, &ours, NULL);
    if (!cai_dtype_equal(&theirs, &ours)) {
        field = "typestr";
        (void)snprintf(left, sizeof(left), "\"%s\"", found.typestr);
        (void)snprintf(right, sizeof(right), "\"%s\"", expected.typestr);
    } else if (found.dtype_code != expected.dtype_code) {
        field = "dtype_code";
        (void)snprintf(left, sizeof(left), "%d", found.dtype_code);
        (void)snprintf(right, sizeof(right), "%d", expected.dtype_code);
    } else if (found.fields != expected.fields) {
        field = path;
        (void)snprintf(left, sizeof(left), "%s", found.fields == 0 ? "no fields" : "other fields");
        (void)snprintf(right, sizeof(right), "%s", expected.fields == 0 ? "none" : "the array's");
        found.descr[sizeof(found.descr) - 1] = 0;
        if (expected.fields != 0 && cai_descr_parse(found.descr, &descr, &owner, NULL) == CAI_OK) {
            (void)cai_private_mpi_differ(descr, array->descr, path, left, right);
            cai_owner_release(owner);
        }
    } else if (found.ndim != expected.ndim ||
               memcmp(found.shape, expected.shape, sizeof(found.shape)) != 0) {
        field = "shape";
        cai_private_mpi_write_shape(found.ndim, found.shape, left);
        cai_private_mpi_write_shape(expected.ndim, expected.shape, right);
    }
    if (field == NULL) return CAI_OK;
    (void)snprintf(text, sizeof(text), "found %s from rank %d with tag %d, expected %s", left,
                   source, tag, right);
    return cai_error_set(error, CAI_ERR_MPI_MISMATCH, field, text);
}

#endif /* CAI_MPI_CHECK_H */
