"""The driver table's HIP functions against HIP's own headers: parameters, codes, flags. The headers are those of ROCm, or
of Debian, which `tools/debian/alone.sh build/hip/SUITE SUITE libamdhip64-dev` unpacks. What the library does with the
functions is tested by capi-tests/sync/hip.c."""

import pathlib
import re
import subprocess

import pytest

from test_stream_export import python
from commands import ROOT, compile, simulated

TABLE = ROOT / "src/driver/table.rs"
STAND_IN = ROOT / "capi-tests/sync/hip_functions.h"
FOLDERS = ["/usr/include", "/opt/rocm/include", *map(str, sorted(ROOT.glob("build/hip/*/root/usr/include")))]
INCLUDES = [folder for folder in FOLDERS if (pathlib.Path(folder) / "hip/hip_runtime_api.h").exists()]

TYPES = {
    "i32": "int", "u32": "unsigned int", "u64": "unsigned long long", "usize": "size_t", "c_char": "char", "c_void": "void",
    "CUstream": "hipStream_t", "CUevent": "hipEvent_t", "CUgraph": "hipGraph_t", "CUgraphNode": "hipGraphNode_t",
    "CUuserObject": "hipUserObject_t", "CUhostFn": "hipHostFn_t", "CUdeviceptr": "hipDeviceptr_t",
}  # fmt: skip

# Enums of HIP, which are plain integers in the table.
ENUMS = {
    "hipDrvGetErrorName": {0: "hipError_t"},
    "hipDrvGetErrorString": {0: "hipError_t"},
    "hipStreamIsCapturing": {1: "hipStreamCaptureStatus *"},
    "hipStreamGetCaptureInfo_v2": {1: "hipStreamCaptureStatus *"},
    "hipThreadExchangeStreamCaptureMode": {0: "hipStreamCaptureMode *"},
    "hipDrvPointerGetAttributes": {1: "hipPointer_attribute *"},
}

# Numbers that the library has from CUDA and passes to HIP or gets from it.
NUMBERS = {
    "hipSuccess": 0, "hipErrorInvalidValue": 1, "hipErrorNotInitialized": 3, "hipErrorDeinitialized": 4,
    "hipErrorInsufficientDriver": 35, "hipErrorNoDevice": 100, "hipErrorInvalidDevice": 101, "hipErrorInvalidContext": 201,
    "hipErrorECCNotCorrectable": 214, "hipErrorInvalidHandle": 400, "hipErrorNotFound": 500, "hipErrorNotReady": 600,
    "hipErrorIllegalAddress": 700, "hipErrorLaunchTimeOut": 702, "hipErrorContextIsDestroyed": 709, "hipErrorAssert": 710,
    "hipErrorLaunchFailure": 719, "hipErrorNotSupported": 801, "hipErrorStreamCaptureUnsupported": 900,
    "hipErrorStreamCaptureInvalidated": 901, "hipErrorStreamCaptureMerge": 902, "hipErrorStreamCaptureImplicit": 906,
    "hipErrorCapturedEvent": 907, "hipErrorStreamCaptureWrongThread": 908,
    "hipStreamCaptureStatusNone": 0, "hipStreamCaptureStatusActive": 1, "hipStreamCaptureStatusInvalidated": 2,
    "hipStreamCaptureModeRelaxed": 2, "hipEventDisableTiming": 2, "(size_t)hipStreamPerThread": 2,
    "HIP_POINTER_ATTRIBUTE_CONTEXT": 1, "HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL": 9,
}  # fmt: skip

# Since later versions: checked where they are.
LATER = {"hipStreamLegacy": 1, "hipEventWaitExternal": 1, "hipUserObjectNoDestructorSync": 1, "hipGraphUserObjectMove": 1}
NEW_FUNCTIONS = {"hipStreamGetDevice", "hipDrvGetErrorName", "hipDrvGetErrorString", "hipUserObjectCreate",
                 "hipUserObjectRelease", "hipGraphRetainUserObject"}  # fmt: skip


def functions():
    """The rows that have a function of HIP: {name: [types]}."""
    rows = re.findall(r'= "\w*",\s*"(hip\w+)"\((.*?)\);', TABLE.read_text(), re.DOTALL)
    return {name: [text.split(":")[1].strip() for text in arguments.split(",") if text.strip()] for name, arguments in rows}


def in_c(rust):
    if rust.startswith("*"):
        mutable, inside = rust[1:].split(" ", 1)
        return f"{in_c(inside)} {'const ' if mutable == 'const' else ''}*"
    return TYPES[rust]


def test_the_stand_in_has_the_functions_of_the_table():
    assert functions() and set(re.findall(r"X\((\w+)\)", STAND_IN.read_text())) == set(functions())


@pytest.mark.skipif(not INCLUDES, reason="no headers of HIP: see the head of this file")
@pytest.mark.parametrize("include", INCLUDES)
def test_parameters_and_numbers_are_those_of_the_header(include, tmp_path):
    header = (pathlib.Path(include) / "hip/hip_runtime_api.h").read_text()
    lines = ["#include <hip/hip_runtime_api.h>", '_Static_assert(sizeof(hipError_t) == 4, "");']
    for name, types in functions().items():
        if name in NEW_FUNCTIONS and not re.search(rf"\b{name}\(", header):
            continue
        parameters = [ENUMS.get(name, {}).get(index, in_c(rust)) for index, rust in enumerate(types)]
        # An address of constant pointers is written in two ways, which are the same to a caller.
        written = f"hipError_t ({', '.join(parameters) or 'void'})"
        lines.append(f'_Static_assert(__builtin_types_compatible_p(__typeof__({name}), {written}), "{name}");')
    for name in ("hipStreamCaptureStatus", "hipStreamCaptureMode", "hipPointer_attribute"):
        lines.append(f'_Static_assert(sizeof({name}) == 4, "");')
    later = {name: number for name, number in LATER.items() if re.search(rf"\b{name}\b[ =(]", header)}
    for name, number in {**NUMBERS, **later}.items():
        lines.append(f"int check_{len(lines)}[(size_t)({name}) == {number} ? 1 : -1];")
    source = tmp_path / "check.c"
    source.write_text("\n".join(lines) + "\n")
    command = ["gcc", "-std=gnu11", "-D__HIP_PLATFORM_AMD__", "-fsyntax-only", "-isystem", include, source]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_tensors_of_rocm_devices_are_ordered(built):  # noqa: F811
    """DLPack calls the default stream 0 on ROCm devices, and the array calls it 1."""
    python(built, """
        hip = c.CDLL(os.environ["CAI_HIP_DRIVER"])
        hip.shim_count.argtypes, hip.shim_count.restype = [c.c_char_p], c.c_long
        hip.shim_arm(1)
        data, out, pending, consumer = buffer(), buffer(), stream(), stream()

        def waits(body):
            hip.shim_reset()
            result = body()
            return result, hip.shim_count(b"hipStreamWaitEvent")

        array = make((SIZE,), "|u1", data)
        array.array.device.type, array.array.stream = 10, pending
        obj = give(array)
        assert not hasattr(obj, "__cuda_array_interface__")

        fill(data, 1, pending)
        taken, count = waits(lambda: take(obj, protocols=[P.DLPACK], stream=consumer))
        assert count == 1 and taken.array.device.type == 10 and taken.stream == consumer
        copy(out, taken.data, consumer)
        assert bytes_of(out, consumer) == {1}
        # The release comes after the consumer's work, on HIP.
        _, count = waits(taken.release)
        assert hip.shim_count(b"hipEventRecord") == 1 and count == 0

        for value, asked in enumerate([dict(), dict(stream=0), dict(stream=None)], 2):
            fill(data, value, pending)
            capsule, count = waits(lambda: obj.__dlpack__(**asked))
            copy(out, data, 1)
            assert count == 1 and bytes_of(out, 1) == {value}
        assert waits(lambda: obj.__dlpack__(stream=-1))[1] == 0
        for asked in dict(), dict(stream=1):
            taken, count = waits(lambda: take(obj, protocols=[P.DLPACK], **asked))
            assert count == 1 and taken.stream == 1
            taken.release()
        """, CAI_HIP_DRIVER=str(built.hip))


def test_hip_knows_the_memory_of_a_dictionary(built):  # noqa: F811
    """A dictionary does not state the device. CUDA is missing here, as on a machine with ROCm."""
    python(built, """
        hip = c.CDLL(os.environ["CAI_HIP_DRIVER"])
        os.environ["CAI_CUDA_DRIVER"] = "/nonexistent/libcuda.so.1"
        use(1)
        data, pending, host = buffer(), stream(), c.c_void_p()
        ok(cuda.cuMemAllocHost_v2(c.byref(host), c.c_size_t(SIZE)))
        use(0)
        out, consumer = buffer(), stream()

        def exporter(address):
            return Exporter(dict(shape=(SIZE,), typestr="|u1", data=(address, False), version=3, stream=pending))

        fill(data, 1, pending)
        taken = take(exporter(data), device=True)
        found = taken.array.device.type, taken.array.device.id, taken.stream
        assert found == (10, 1, pending), found
        read(taken, out, consumer)
        assert bytes_of(out, consumer) == {1}
        taken = take(exporter(data), device=True, identify_stream=True)
        assert taken.array.context == 2 and taken.array.stream_id == 0
        taken = take(exporter(host.value), device=True)
        assert (taken.array.device.type, taken.array.device.id) == (11, 0)

        array = make((SIZE,), "|u1", data)
        array.array.device.type, array.array.stream = 0, pending
        obj = give(array)
        assert obj.__dlpack_device__() == (10, 1)
        fill(data, 2, pending)
        capsule = obj.__dlpack__(stream=consumer)
        copy(out, data, consumer)
        assert bytes_of(out, consumer) == {2}

        memory = c.create_string_buffer(SIZE)
        try:
            take(exporter(c.addressof(memory)), device=True)
        except Exception as failure:
            assert "driver" in str(failure)
        else:
            raise AssertionError
        """, CAI_HIP_DRIVER=str(built.hip))


HIP_HEADER = """
#include <stddef.h>
typedef int hipError_t;
typedef struct hip_stream *hipStream_t;
enum { hipSuccess = 0, hipMemcpyDeviceToHost = 2 };
hipError_t hipStreamCreate(hipStream_t *);
hipError_t hipStreamSynchronize(hipStream_t);
hipError_t hipMalloc(void **, size_t);
hipError_t hipFree(void *);
hipError_t hipMemsetAsync(void *, int, size_t, hipStream_t);
hipError_t hipMemcpyAsync(void *, const void *, size_t, int, hipStream_t);
"""

# What the program uses of HIP and the library does not, on the first device.
PROGRAMS_HIP = """
#include <cuda.h>
#include <hip/hip_runtime_api.h>
static int ready(void) {
    CUcontext context;
    return cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context);
}
hipError_t hipStreamCreate(hipStream_t *out) {
    return ready() ? 1 : (int)cuStreamCreate((CUstream *)out, CU_STREAM_NON_BLOCKING);
}
hipError_t hipMalloc(void **out, size_t size) { return ready() ? 1 : (int)cuMemAlloc((CUdeviceptr *)out, size); }
hipError_t hipFree(void *memory) { return (int)cuMemFree((CUdeviceptr)memory); }
hipError_t hipMemsetAsync(void *memory, int value, size_t size, hipStream_t stream) {
    return (int)cuMemsetD8Async((CUdeviceptr)memory, (unsigned char)value, size, (CUstream)stream);
}
hipError_t hipMemcpyAsync(void *to, const void *from, size_t size, int kind, hipStream_t stream) {
    return kind == hipMemcpyDeviceToHost ? (int)cuMemcpyDtoHAsync(to, (CUdeviceptr)from, size, (CUstream)stream) : 1;
}
"""


@pytest.mark.parametrize("left_out", ["", "begin", "end"])
def test_the_example(built, tmp_path, left_out):  # noqa: F811
    """It prints what the producer wrote; without begin or end there is a race."""
    text = (ROOT / "examples-c/hip_streams.c").read_text()
    if left_out:
        call = f"CHECK(cai_array_consume_{left_out}("
        assert text.count(call) == 1
        text = text.replace(call, f"(void)(1 || cai_array_consume_{left_out}(")
    if left_out == "end":  # what the consumer's read must precede
        done = "    if (hipStreamSynchronize(reader)"
        assert text.count(done) == 1
        text = text.replace(done, "    if (hipMemsetAsync(array.data, 8, sizeof bytes, producer) != hipSuccess) return 1;\n" + done)
    (tmp_path / "hip").mkdir()
    (tmp_path / "hip/hip_runtime_api.h").write_text(HIP_HEADER)
    (tmp_path / "program.c").write_text(text)
    (tmp_path / "hip.c").write_text(PROGRAMS_HIP)
    flags = ["-Wall", "-Wextra", "-Werror", "-I", tmp_path, tmp_path / "hip.c", built.hip]
    program = compile(tmp_path / "program.c", tmp_path / "program", *flags, cuda=True)
    done = simulated(program, check=False, env={"CAI_HIP_DRIVER": str(built.hip)})
    if left_out:
        assert done.returncode == 66, done.stdout + done.stderr
    else:
        assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr
