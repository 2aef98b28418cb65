# Builds the extension in clear.pyx with `pip install .`. Needs the packages of pyproject.toml.
import pathlib

import libcai
import nvidia.cu13
from Cython.Build import cythonize
from setuptools import Extension, setup

cuda = pathlib.Path(next(iter(nvidia.cu13.__path__)))
extension = Extension(
    "clear",
    ["clear.pyx"],
    include_dirs=[libcai.includedir(), str(cuda / "include")],
    library_dirs=[libcai.libdir()],
    libraries=["cai"],
    extra_objects=[str(cuda / "lib/libcudart.so.13")],
    runtime_library_dirs=[libcai.libdir(), str(cuda / "lib")],
)
# `from cai.cai cimport *` finds cai.pxd beside the headers.
setup(ext_modules=cythonize([extension], include_path=[libcai.includedir()]))
