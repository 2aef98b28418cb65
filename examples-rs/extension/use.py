"""Exchanges arrays between PyTorch and the Rust library in this folder.

    cargo build --release
    python use.py target/release/libextension.so

Without a GPU, the same with simulated CUDA tensors:

    cuda-sim run --runtime=13 -- python use.py target/release/libextension.so
"""

import ctypes
import sys

import torch


def load(path):
    library = ctypes.PyDLL(path)
    for function in (library.extension_row_sums, library.extension_device_copy):
        function.argtypes, function.restype = [ctypes.py_object], ctypes.py_object
    return library


def main():
    extension = load(sys.argv[1])
    table = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    print("rows:", torch.from_dlpack(extension.extension_row_sums(table)))
    print("columns, which are not contiguous:", torch.from_dlpack(extension.extension_row_sums(table.T)))
    try:
        extension.extension_row_sums(table.double())
    except BufferError as error:
        print("refused:", error)
    if torch.cuda.is_available():
        on_device = table.cuda()
        copy = torch.as_tensor(extension.extension_device_copy(on_device))
        print("copied on", copy.device, "by Rust:", copy.tolist() == table.tolist())


if __name__ == "__main__":
    main()
