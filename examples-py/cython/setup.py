# Builds the extension in clear.pyx with `pip install .`. Needs the packages of pyproject.toml.
import pathlib
import shlex
import subprocess
import sys

import libcai
import nvidia.cu13
from Cython.Build import cythonize
from setuptools import Extension, setup

cuda = pathlib.Path(next(iter(nvidia.cu13.__path__)))
# The static library: pip builds in an environment that it removes, and with it the shared one.
static = subprocess.check_output([sys.executable, "-m", "libcai", "--libs", "--static"], text=True)
extension = Extension(
    "clear",
    ["clear.pyx"],
    include_dirs=[libcai.includedir(), str(cuda / "include")],
    extra_objects=[str(cuda / "lib/libcudart.so.13")],
    # At run time, CUDA's runtime library is in the package nvidia beside this module.
    extra_link_args=[*shlex.split(static), "-Wl,-rpath,$ORIGIN/nvidia/cu13/lib"],
)
# `from cai.cai cimport *` finds cai.pxd beside the headers.
setup(ext_modules=cythonize([extension], include_path=[libcai.includedir()]))
