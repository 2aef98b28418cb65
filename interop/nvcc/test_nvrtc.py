"""The header of views under NVRTC, which has no standard library, for the oldest and the newest architecture that it
supports. Nothing is run: a kernel needs a GPU."""

import ctypes as c
import pathlib
import re
import sysconfig

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = pathlib.Path(sysconfig.get_path("purelib")) / "nvidia/cu13/lib/libnvrtc.so.13"
# Bytes of the members of a kernel_view<T, 2>.
STRIDES = {24, 32}


@pytest.fixture(scope="session")
def nvrtc():
    return c.CDLL(str(LIBRARY))


@pytest.fixture(scope="session")
def architectures(nvrtc):
    count = c.c_int()
    assert nvrtc.nvrtcGetNumSupportedArchs(c.byref(count)) == 0 and count.value > 5
    numbers = (c.c_int * count.value)()
    assert nvrtc.nvrtcGetSupportedArchs(numbers) == 0
    return min(numbers), max(numbers)


def compiled(nvrtc, text, *options):
    """The PTX, or None, and what the compiler printed."""
    program, size = c.c_void_p(), c.c_size_t()
    assert nvrtc.nvrtcCreateProgram(c.byref(program), text.encode(), b"kernel.cu", 0, None, None) == 0
    flags = [f"-I{ROOT / 'include'}".encode(), *(option.encode() for option in options)]
    status = nvrtc.nvrtcCompileProgram(program, len(flags), (c.c_char_p * len(flags))(*flags))

    def output(size_of, get):
        assert size_of(program, c.byref(size)) == 0
        buffer = c.create_string_buffer(size.value)
        assert get(program, buffer) == 0
        return buffer.value.decode()

    ptx = output(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX) if status == 0 else None
    log = output(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
    assert nvrtc.nvrtcDestroyProgram(c.byref(program)) == 0
    return ptx, log


def bytes_read(ptx, parameter):
    """Offsets of the 8-byte words of a parameter that a kernel loads."""
    found = set()
    for width, name, offset in re.findall(r"ld\.param(?:\.(v2))?\.\w+ [^\[]*\[(\w+)(?:\+(\d+))?\]", ptx):
        if name == parameter:
            found |= {int(offset or 0) + 8 * index for index in range(2 if width else 1)}
    return found


@pytest.mark.parametrize("standard", ["c++11", "c++17", "c++20"])
def test_kernels(nvrtc, architectures, standard):
    """A kernel gets views by value, and computes addresses with their strides."""
    text = (ROOT / "capi-tests/special/kernel.cu").read_text()
    for number in architectures:
        ptx, log = compiled(nvrtc, text, f"--std={standard}", f"--gpu-architecture=compute_{number}")
        # Functions without a word of CUDA would be those of the host, unless an option says otherwise.
        assert ptx and not log.strip("\n\0"), log
        assert re.search(r"\.visible \.entry scale\(", ptx) and f".target sm_{number}" in ptx
        assert {0, *STRIDES} <= bytes_read(ptx, "scale_param_0"), ptx
        assert 0 in bytes_read(ptx, "scale_param_1"), ptx


def test_an_index_is_missing(nvrtc):
    ptx, log = compiled(
        nvrtc,
        '#include <cai/unstable/kernel.hpp>\nextern "C" __global__ void f(cai::unstable::kernel_view<float, 2> v) { v(1) = 2; }\n',
    )
    assert ptx is None and "one index for each dimension" in log
