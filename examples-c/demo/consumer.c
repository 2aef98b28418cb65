/*
 * The consumer of `make demo`: a plug-in that validates arrays, keeps them, and reads them after
 * the producer has closed. It is compiled separately and does not know the producer. demo.py loads
 * both.
 */
#include "plugin.h"
#include "statistics.h"
#include "table.h"

#include <stdio.h>
#include <string.h>

enum { MOST_ARRAYS = 16, MOST_FIELDS = 12, NAME = 32 };

static struct {
    char name[NAME];
    cai_array array;
} kept[MOST_ARRAYS];
static struct {
    char name[NAME];
    cai_error why;
} refused[MOST_ARRAYS];
static int kept_count, refused_count;

static cai_status check_and_keep(const char *name, const cai_array *array, cai_error *why) {
    cai_array mine = CAI_ARRAY_INIT;
    cai_status status = cai_array_validate(array, CAI_CHECK_LAYOUT, why);
    if (status == CAI_OK) {
        /* Do not copy with `mine = *array`: the producer may use another version. */
        status = cai_array_share(array, &mine, why);
    }
    if (status == CAI_OK) {
        snprintf(kept[kept_count].name, NAME, "%s", name);
        kept[kept_count++].array = mine;
    }
    return status;
}

cai_status consumer_take(const char *name, const cai_array *array) {
    cai_error why;
    if (kept_count == MOST_ARRAYS || refused_count == MOST_ARRAYS) {
        return CAI_ERR_ARGUMENT;
    }
    cai_status status = check_and_keep(name, array, &why);
    if (status != CAI_OK) {
        snprintf(refused[refused_count].name, NAME, "%s", name);
        refused[refused_count++].why = why;
    }
    return status;
}

/* "(7, 24)" */
static void tuple(char *out, const int64_t *values, int32_t count) {
    int used = snprintf(out, TABLE_CELL, "(");
    int32_t d;
    for (d = 0; d < count && used < TABLE_CELL - 32; d++) {
        used += snprintf(out + used, 24, "%s%lld", d > 0 ? ", " : "", (long long)values[d]);
    }
    snprintf(out + used, 8, "%s", d < count ? ", ...)" : count == 1 ? ",)" : ")");
}

static void stream_name(char *out, cai_stream stream) {
    switch (stream) {
    case CAI_STREAM_NONE: strcpy(out, "none"); break;
    case CAI_STREAM_UNKNOWN: strcpy(out, "unknown"); break;
    case CAI_STREAM_LEGACY: strcpy(out, "legacy"); break;
    case CAI_STREAM_PER_THREAD: strcpy(out, "per-thread"); break;
    default: snprintf(out, TABLE_CELL, "0x%llx", (unsigned long long)stream); break;
    }
}

static void describe(const char *name, const cai_array *array) {
    char (*cells)[TABLE_CELL];
    cai_layout layout;
    if (cai_array_layout(array, &layout, NULL) != CAI_OK) {
        return; /* it fails only for arrays that cai_array_validate refuses */
    }
    cells = table_row("✓");
    bool c = (layout.flags & CAI_LAYOUT_C_CONTIGUOUS) != 0;
    bool f = (layout.flags & CAI_LAYOUT_F_CONTIGUOUS) != 0;
    snprintf(cells[0], TABLE_CELL, "%s", name);
    snprintf(cells[1], TABLE_CELL, "%s", array->typestr);
    tuple(cells[2], array->shape, array->ndim);
    if (array->strides == NULL) {
        strcpy(cells[3], "-");
    } else {
        tuple(cells[3], array->strides, array->ndim);
    }
    strcpy(cells[4], c && f ? "C, F" : c ? "C" : f ? "F" : "-");
    strcpy(cells[5], array->flags & CAI_ARRAY_READONLY ? "r" : "rw");
    snprintf(cells[6], TABLE_CELL, "[%lld, %lld)", (long long)layout.lower,
             (long long)layout.upper);
    stream_name(cells[7], array->stream);
}

/* Prints whole numbers exactly, and others with six digits. */
static void number_text(char *out, double value) {
    bool whole = value > -1e15 && value < 1e15 && value == (double)(int64_t)value;
    snprintf(out, TABLE_CELL, whole ? "%.0f" : "%.6g", value);
}

static void result_row(const char *name, const char *typestr, const strided *elements) {
    char (*cells)[TABLE_CELL] = table_row(" ");
    summary s;
    summarize(elements, &s);
    snprintf(cells[0], TABLE_CELL, "%s", name);
    snprintf(cells[1], TABLE_CELL, "%s", typestr);
    snprintf(cells[2], TABLE_CELL, "%lld of %lld", (long long)s.valid, (long long)s.total);
    if (s.numbers > 0) {
        number_text(cells[3], s.least);
        number_text(cells[4], s.sum / (double)s.numbers);
        number_text(cells[5], s.most);
    }
    if (s.numbers > 0 && s.numbers < s.valid) {
        snprintf(cells[6], TABLE_CELL, "%lld NaN left out", (long long)(s.valid - s.numbers));
    }
}

static void remark_row(const char *name, const char *typestr, const char *remark) {
    char (*cells)[TABLE_CELL] = table_row(" ");
    snprintf(cells[0], TABLE_CELL, "%s", name);
    snprintf(cells[1], TABLE_CELL, "%s", typestr);
    snprintf(cells[6], TABLE_CELL, "%s", remark);
}

static void field_rows(const char *prefix, const cai_descr *descr, const strided *parent,
                       int *left);

static void field_row(const char *label, const cai_field *field, int64_t offset,
                      const strided *parent, int *left) {
    strided elements = *parent;
    cai_status status = cai_field_dtype(field, &elements.type, NULL);
    if (status != CAI_OK) {
        remark_row(label, field->typestr, cai_status_name(status));
    } else if (!strided_enter(&elements, offset, field->ndim, field->shape,
                              elements.type.itemsize)) {
        remark_row(label, field->typestr, "too many dimensions");
    } else if (field->nested != NULL) {
        field_rows(label, field->nested, &elements, left);
    } else {
        result_row(label, field->typestr, &elements);
    }
}

/* Prints a line for each field, up to `left` lines. Nested fields have their full name. */
static void field_rows(const char *prefix, const cai_descr *descr, const strided *parent,
                       int *left) {
    int64_t offset = 0, size = 0;
    for (uint64_t i = 0; i < descr->count; i++, offset += size) {
        const cai_field *field = cai_inline_field(descr, i);
        char label[TABLE_CELL];
        if (cai_field_nbytes(field, &size, NULL) != CAI_OK) {
            remark_row(prefix, field->typestr, "bit fields that fill no bytes");
            return;
        }
        if (field->name[0] == '\0') {
            continue; /* padding */
        }
        snprintf(label, sizeof(label), "%.60s.%.60s", prefix, field->name);
        if (field->nested == NULL && --*left < 0) {
            return;
        }
        if (field->nested == NULL && *left == 0 && i + 1 < descr->count) {
            remark_row("  ...", "", "and so on");
            return;
        }
        field_row(label, field, offset, parent, left);
    }
}

static void compute(const char *name, const cai_array *array) {
    strided elements;
    int left = MOST_FIELDS;
    const char *reason = strided_open(array, &elements);
    if (reason != NULL) {
        remark_row(name, array->typestr, reason);
        return;
    }
    result_row(name, array->typestr, &elements);
    if (array->descr != NULL) {
        field_rows("  ", array->descr, &elements, &left);
    }
}

void consumer_print(void) {
    static const char *const description[TABLE_COLUMNS + 1] = {
        "array", "type", "shape", "strides", "order", "mode", "bytes", "stream", NULL};
    static const char *const results[] = {"array", "type", "valid",  "least",
                                          "mean",  "most", "remark", NULL};
    printf("The arrays that the consumer accepted:\n\n");
    table_begin(description, "<<<<<<><");
    for (int i = 0; i < kept_count; i++) {
        describe(kept[i].name, &kept[i].array);
    }
    table_print();
    printf("\nWhat it computed after the producer had closed:\n\n");
    table_begin(results, "<<>>>><");
    for (int i = 0; i < kept_count; i++) {
        compute(kept[i].name, &kept[i].array);
    }
    table_print();
    printf("\nThe arrays that it refused:\n\n");
    for (int i = 0; i < refused_count; i++) {
        printf(" ✗  %-22s %s, at %s\n", refused[i].name, cai_status_name(refused[i].why.code),
               refused[i].why.field);
        print_wrapped(refused[i].why.message, 27);
    }
    fflush(stdout);
}

void consumer_close(void) {
    while (kept_count > 0) {
        cai_array_release(&kept[--kept_count].array);
    }
    refused_count = 0;
}
