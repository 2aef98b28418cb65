"""A Rust extension and PyTorch: tensors in and out, and a copy that cudarc makes on a stream of its own."""

import ctypes
import os
import pathlib
import shutil
import subprocess

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def extension():
    # The simulator's settings are for this process, not for cargo.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LD_", "CUDASIM"))}
    target = ROOT / "target/examples-rs"
    command = [os.environ.get("CARGO", "cargo"), "build", "-q"]
    folder = ROOT / "examples-rs/extension"
    shutil.copy(ROOT / "Cargo.lock", folder)  # the versions that this workspace has tested
    subprocess.run(command, cwd=folder, env={**kept, "CARGO_TARGET_DIR": str(target)}, check=True)
    library = ctypes.PyDLL(str(target / "debug/libextension.so"))
    for function in (library.extension_row_sums, library.extension_device_copy):
        function.argtypes, function.restype = [ctypes.py_object], ctypes.py_object
    return library


def test_host_memory(extension):
    table = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    assert torch.from_dlpack(extension.extension_row_sums(table)).tolist() == [6, 22, 38]
    assert torch.from_dlpack(extension.extension_row_sums(table.T)).tolist() == [12, 15, 18, 21]
    with pytest.raises(BufferError, match="typestr: found <f8"):
        extension.extension_row_sums(table.double())


def test_device_memory(extension):
    """The data is pending on PyTorch's stream when it is copied, and freed right after; the race checker watches."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        values = torch.arange(12, dtype=torch.float32).reshape(3, 4)
        table = torch.empty((3, 4), device="cuda")
        table.copy_(values, non_blocking=True)
        assert torch.from_dlpack(extension.extension_row_sums(table)).tolist() == [6, 22, 38]
        copy = torch.as_tensor(extension.extension_device_copy(table), device="cuda")
        del table
        assert copy.shape == (3, 4) and copy.cpu().tolist() == values.tolist()
        with pytest.raises(BufferError, match="strides: found other strides, expected a C-contiguous array"):
            extension.extension_device_copy(copy.T)
        with pytest.raises(BufferError, match="typestr"):
            extension.extension_device_copy(torch.empty(3, device="cuda", dtype=torch.int8))
    torch.cuda.synchronize()
