"""The change log and the script that lead from 0.9 to 0.10: what a program of 0.9 uses is renamed, and compiles again."""

import re

import pytest
from commands import ROOT, run

INCLUDE = ROOT / "include"
LOG = (ROOT / "CHANGELOG.md").read_text()
SED = ROOT / "tools/upgrade_0_10.sed"

# Each line that moved is another part of the interface. With the headers of 0.9, this compiles.
SAMPLE = """\
#include <cai/cai.h>
#include <cai/arrow.h>
#include "cai/copy.h"
#include <cai/ipc.h>
#include <cai/json.h>

static char message[CAI_IPC_SIZE + CAI_IPC_FIELDS];

static cai_status read(struct _object *object, cai_array *out, cai_error *error) {
    return cai_array_from_python(object, NULL, out, error);
}

static cai_status made(const cai_array *array, struct _object **out, cai_error *error) {
    return cai_array_to_python(array, NULL, out, error);
}

const cai_exchange_api table = {sizeof(cai_exchange_api), CAI_DATA_ABI, 0, 0};

cai_status publish(struct _object *type, cai_error *error) { return cai_python_publish(type, &table, error); }

cai_status use(cai_array *array, struct _object *object, cai_error *error) {
    cai_array copy = CAI_ARRAY_INIT;
    struct ArrowDeviceArray values;
    struct ArrowSchema schema;
    struct _object *view;
    cai_owner *owner;
    cai_stream stream;
    size_t length;
    int64_t strides[CAI_MAX_NDIM];
    cai_array_strides(array, CAI_MAX_NDIM, strides, error);
    if (array->ndim <= 8 && cai_array_strides(array, 8, strides, NULL) == CAI_OK) return CAI_OK;
    cai_array_strides(&copy, copy.ndim, strides, error);
    cai_layout_strides('C', array->ndim, array->shape, 4, strides, error);
    cai_array_identify(array, error);
    cai_stream_from_python(object, CAI_STREAM_LEGACY, 0, &stream, NULL, error);
    cai_array_consume_begin(array, stream, CAI_ACCESS_READ | CAI_CAPTURE_EXTERNAL, error);
    cai_array_copy_to_host(array, stream, 0, NULL, 0, &copy, error);
    cai_array_copy_from_host(array, stream, 0, message, 16, error);
    cai_array_to_arrow(array, 0, &values, &schema, error);
    cai_array_from_arrow(&values, &schema, &copy, error);
    cai_array_to_json(array, message, sizeof message, &length, error);
    cai_ipc_export(array, 0, message, sizeof message, &length, NULL, &owner, error);
    cai_ipc_import(message, length, -1, 0, &copy, error);
    cai_python_view(&view, error);
    cai_array_release_in_order(array);
    (void)read;
    return made(&copy, &view, error);
}
"""

# Cells of the first table: names of 0.9, and the header that has the new ones.
ROWS = re.findall(r"^\| (`(?:cai|CAI)_[^|]*) \|[^|]*\| `(cai/unstable/\w+\.h)` \|$", LOG, re.M)

# Rows of the second table of which the script renames the whole cell, and names in rows that it leaves.
CONSTANTS = re.findall(r"^\| `(CAI_\w+)` \| `(CAI_\w+)` \|$", LOG, re.M)
BY_HAND = re.findall(r"^\| `(\w+)[^|]*\|[^|]*\*By hand\*", LOG, re.M)


def renamed(text, folder):
    path = folder / "renamed.c"
    path.write_text(text)
    run("sed", "-i", "-E", "-f", SED, path)
    return path.read_text()


def compiles(text, folder):
    source = folder / "program.c"
    source.write_text(text)
    return run("gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", INCLUDE, source, check=False)


def test_a_program_of_0_9(tmp_path):
    assert compiles(SAMPLE, tmp_path).returncode != 0
    includes = "".join(f"#include <{header}>\n" for _, header in ROWS)
    done = compiles(includes + renamed(SAMPLE, tmp_path), tmp_path)
    assert done.returncode == 0, done.stderr
    names = {name for names, _ in ROWS for name in re.findall(r"`(\w+)`", names)}
    assert names <= set(re.findall(r"\w+", SAMPLE))


def test_what_stays_is_not_renamed(tmp_path):
    text = "#include <cai/cai.h>\ncai_array_release(&array); my_cai_ipc_export(); cai_ipc_exported = CAI_IPC_SIZES;\n"
    assert renamed(text, tmp_path) == text
    strides = "cai_array_strides(&array, strides, capacity, error); cai_layout_strides(order, shape, count, 4, out, NULL);\n"
    assert renamed(strides, tmp_path) == strides
    again = renamed(SAMPLE, tmp_path)
    assert renamed(again, tmp_path) == again


def test_constants_are_renamed(tmp_path):
    header = (INCLUDE / "cai/python.h").read_text()
    assert len(CONSTANTS) == 3
    for old, new in CONSTANTS:
        assert renamed(old, tmp_path) == new and f"#define {new} " in header, old


def test_what_is_to_do_by_hand_is_left(tmp_path):
    assert {"cai_import_options", "CAI_IMPORT_ALLOW_STREAM_ZERO", "cai_array_is_native"} <= set(BY_HAND)
    for name in BY_HAND:
        assert renamed(name, tmp_path) == name


@pytest.mark.parametrize("names, header", ROWS, ids=[header for _, header in ROWS])
def test_the_header_has_the_new_names(names, header, tmp_path):
    text = (INCLUDE / header).read_text()
    for name in re.findall(r"`(\w+)`", names):
        new = renamed(name, tmp_path)
        assert new != name and re.search(rf"\b{new}\b", text), name
