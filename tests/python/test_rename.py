"""tools/rename_0_1_to_1_0.sed moves a program of libcai 0.1 to the names of ABI 1.0: what is only a name compiles afterwards,
and what needs an edit by hand does not, so that none is overlooked."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools/rename_0_1_to_1_0.sed"

PROGRAM = """
#include <cai/cai.h>
#include <string.h>

static cai_status consume(const cai_array *array, cai_stream stream, cai_error *why) {
    const uint32_t access = array->flags & CAI_FLAG_READONLY ? CAI_ACCESS_READ : CAI_ACCESS_WRITE;
    cai_status status = cai_consume_begin(array, stream, access, why);
    return status != CAI_OK ? status : cai_consume_end(array, stream, access, why);
}

static cai_status produce(cai_array *array, cai_stream stream, void *context, void (*destroy)(void *)) {
    int64_t strides[2];
    array->version = CAI_PROTOCOL_VERSION;
    if (cai_owner_new(context, destroy, &array->owner, NULL) != CAI_OK) return CAI_ERR_NO_MEMORY;
    cai_dense_strides('C', 2, array->shape, 4, strides, NULL);
    cai_produce(array, &stream, 1, stream, 0, NULL);
    return cai_array_keep(array, context, destroy, NULL);
}

static cai_status dlpack(struct DLManagedTensorVersioned *tensor, struct DLManagedTensor *older, cai_array *array) {
    cai_from_dlpack(tensor, CAI_STREAM_NONE, array, NULL);
    cai_from_dlpack_unversioned(older, CAI_STREAM_NONE, array, NULL);
    cai_to_dlpack(array, 0, &tensor, NULL);
    return cai_to_dlpack_unversioned(array, 0, &older, NULL);
}

static cai_status python(struct _object *object, cai_array *array) {
    cai_import_options options = CAI_IMPORT_OPTIONS_INIT;
    options.flags = CAI_IMPORT_STRICT | CAI_IMPORT_WRITABLE | CAI_IMPORT_C_CONTIGUOUS | CAI_IMPORT_F_CONTIGUOUS |
                    CAI_IMPORT_NATIVE | CAI_IMPORT_NDIM | CAI_IMPORT_HOST | CAI_IMPORT_DEVICE | CAI_IMPORT_QUIET |
                    CAI_IMPORT_LENIENT;
    options.protocols[0] = CAI_VIA_EXCHANGE;
    options.protocols[1] = CAI_VIA_DLPACK_EXCHANGE;
    options.protocols[2] = CAI_VIA_CUDA_ARRAY_INTERFACE;
    options.protocols[3] = CAI_VIA_DLPACK;
    options.protocols[4] = CAI_VIA_SYCL_USM;
    options.protocols[5] = CAI_VIA_BUFFER;
    options.protocols[6] = CAI_VIA_ARRAY_STRUCT;
    options.protocols[7] = CAI_VIA_ARRAY_INTERFACE;
    options.opaque1 = CAI_DTYPE_FLOAT8_E5M2;
    options.opaque2 = CAI_DTYPE_BFLOAT16;
    return cai_from_python(object, &options, array, NULL);
}

static cai_status driver(const cai_array *array, cai_pointer_info *memory, cai_driver_info *info) {
    uint32_t policy;
    cai_get_sync(&policy, NULL);
    cai_set_sync(policy | CAI_SYNC_IGNORE, NULL);
    cai_pointer_attributes(array->data, memory, NULL);
    cai_driver_find(info, NULL);
    return cai_synchronize(array, CAI_ACCESS_READ, NULL);
}

const void *all[] = {(void *)consume, (void *)produce, (void *)dlpack, (void *)python, (void *)driver};
"""

# What changed more than its name.
BY_HAND = [
    "cai_array_new(&a, &out, &e);",
    "PyObject *object = cai_to_python(&a, NULL, &e);",
    "cai_array_count(&a, &number, &e);",
    "cai_array_nbytes(&a, &number, &e);",
    "cai_array_span(&a, &number, &number, &e);",
    "cai_array_is_c_contiguous(&a, &truth, &e);",
    "cai_array_is_f_contiguous(&a, &truth, &e);",
    "cai_device_pointer(a.data, &a.data, &e);",
    "number = cai_abi_major();",
    "number = cai_abi_minor();",
    "cai_dtype_format(&dtype, a.typestr, &e);",
    "truth = driver.simulated;",
    "number = CAI_IMPORT_NO_MASK;",
    "number = CAI_ERR_CHECKS;",
]


def renamed(tmp_path, text):
    source = tmp_path / "program.c"
    source.write_text(text)
    subprocess.run(["sed", "-E", "-i", "-f", SCRIPT, source], check=True)
    return source


def compiles(source):
    command = ["gcc", "-std=c99", "-Wall", "-Werror", "-Wno-unused-variable", "-fsyntax-only", "-I", ROOT / "include", source]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_names_alone(tmp_path):
    source = renamed(tmp_path, PROGRAM)
    done = compiles(source)
    assert done.returncode == 0, done.stderr
    once = source.read_text()
    assert renamed(tmp_path, once).read_text() == once
    # Every rule of the script had something to do.
    for rule in re.findall(r"^s/(.*?)/", SCRIPT.read_text(), re.M):
        assert re.search(rule, PROGRAM) or "array_new" in rule or "python" in rule, rule
        assert not re.search(rule, once), rule


@pytest.mark.parametrize("line", BY_HAND)
def test_edits_by_hand_are_found(tmp_path, line):
    program = f"""
#include <cai/cai.h>
typedef struct _object PyObject;
void use(void);
void use(void) {{
    cai_array a = CAI_ARRAY_INIT, out = CAI_ARRAY_INIT;
    cai_dtype dtype = {{0}};
    cai_driver_info driver = {{0}};
    cai_error e;
    int64_t number = 0;
    bool truth = false;
    {line}
    (void)a, (void)out, (void)dtype, (void)driver, (void)e, (void)number, (void)truth;
}}
"""
    source = renamed(tmp_path, program)
    assert compiles(renamed(tmp_path, program.replace(line, ""))).returncode == 0
    source = renamed(tmp_path, program)
    assert compiles(source).returncode != 0
    name = re.search(r"[Cc][Aa][Ii]_\w+|simulated", line).group()
    head = SCRIPT.read_text().split("# Functions.")[0]
    # Its header says what to do; a group of names is listed by its ends.
    assert name in head or name.removeprefix("cai_array_") in head, name
