"""Libraries that need no CUDA driver, real or simulated: SYCL, OpenCL and MPI. `make interop` runs them once."""

import pathlib
import sys

INTEROP = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(INTEROP), str(INTEROP.parent / "tests/python"), str(INTEROP.parent / "python")]
