"""Libraries that need no CUDA driver, real or simulated: SYCL, OpenCL and MPI. `make interop` runs them once."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/python"))
