"""`python -m libcai` without arguments: what is installed, found and set, for bug reports.

Other packages are found without importing them. The shared library and the drivers are loaded in a child process,
because a driver that cannot start may end its process.
"""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import signal
import subprocess
import sys
import textwrap
from typing import Any

from . import _paths

# Name for people, module, and a pattern of the names under which it is distributed.
LIBRARIES: list[tuple[str, str, str]] = [
    ("CuPy", "cupy", r"cupy(-.*)?"),
    ("PyTorch", "torch", "torch"),
    ("Numba", "numba", "numba"),
    ("numba-cuda", "numba_cuda", "numba-cuda"),
    ("cuda.bindings", "cuda.bindings", "cuda-bindings"),
    ("cuda.core", "cuda.core", "cuda-core"),
    ("JAX", "jax", "jax"),
    ("TensorFlow", "tensorflow", r"tensorflow(-cpu|-gpu)?"),
    ("Triton", "triton", r"(pytorch-)?triton.*"),
    ("RMM", "rmm", r"rmm(-.*)?"),
    ("cuDF", "cudf", r"cudf(-cu\d+)?"),
    ("pylibraft", "pylibraft", r"pylibraft(-.*)?"),
    ("XGBoost", "xgboost", r"xgboost(-.*)?"),
    ("PyCUDA", "pycuda", "pycuda"),
    ("Warp", "warp", "warp-lang"),
    ("DALI", "nvidia.dali", r"nvidia-dali-.*"),
    ("CV-CUDA", "cvcuda", r"cvcuda(-.*)?"),
    ("TVM FFI", "tvm_ffi", "apache-tvm-ffi"),
    ("dpctl", "dpctl", "dpctl"),
    ("dpnp", "dpnp", "dpnp"),
    ("PyOpenCL", "pyopencl", "pyopencl"),
    ("mpi4py", "mpi4py", "mpi4py"),
    ("UCXX", "ucxx", r"ucxx(-.*)?"),
    ("Arrow", "pyarrow", "pyarrow"),
    ("NumPy", "numpy", "numpy"),
    ("ml_dtypes", "ml_dtypes", "ml-dtypes"),
    ("pybind11", "pybind11", "pybind11"),
    ("nanobind", "nanobind", "nanobind"),
    ("Cython", "Cython", "cython"),
    ("cuda-sim", "cuda_sim", "cuda-sim"),
]

# This library's variables, which are always listed, and others that decide on drivers, streams and their order.
OWN = ("CAI_SYNC", "CAI_CUDA_DRIVER", "CAI_HIP_DRIVER")
OTHERS = (
    "CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "CUDA_HOME", "CUDA_PATH", "HIP_VISIBLE_DEVICES", "LD_LIBRARY_PATH",
    "LD_PRELOAD", "NUMBA_ENABLE_CUDASIM", "NUMBA_CUDA_ARRAY_INTERFACE_SYNC", "NUMBA_CUDA_PER_THREAD_DEFAULT_STREAM",
    "CUPY_CUDA_ARRAY_INTERFACE_SYNC", "CUPY_CUDA_ARRAY_INTERFACE_EXPORT_VERSION", "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM",
)  # fmt: skip

POLICY = {
    "CAI_SYNC_IGNORE": "consumers ignore streams",
    "CAI_SYNC_EXPORT_NONE": "producers export no stream",
    "CAI_SYNC_CONSERVATIVE": "for an unknown stream, the whole context waits",
}

WIDTH = 80

# Starting a driver takes seconds on machines with many devices.
TIMEOUT = 60


def collect() -> dict[str, Any]:
    """Everything, as a dictionary for JSON. Raises nothing."""
    library, reason = _library()
    found = _probe(library) if library else {}
    missing = {"message": "not asked, because the library is missing"}
    return {
        "libcai": {
            "version": _version(),
            "package": os.path.dirname(os.path.abspath(__file__)),
            "library": {"path": library, **found.get("library", {"message": reason})},
        },
        "python": {
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "executable": sys.executable,
            "platform": platform.platform(),
        },
        "driver": found.get("driver", missing),
        "hip": found.get("hip", missing),
        "policy": found.get("policy", missing),
        "libraries": _libraries(),
        "variables": _variables(),
    }


def _version() -> str | None:
    try:
        return importlib.metadata.version("libcai")
    except Exception:  # the files about installed packages may hold anything
        return None


def _library() -> tuple[str | None, str | None]:
    try:
        return _paths.library(), None
    except FileNotFoundError as error:
        return None, str(error)


# --- the shared library and the drivers -------------------------------------------------------------------


def _probe(library: str) -> dict[str, Any]:
    """What the child process said, by name. What it could not say any more has the reason as its message."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_probe.py")
    try:
        done = subprocess.run(
            [sys.executable, program, library],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT,
        )
        said, ending = done.stdout, _ending(done)
    except subprocess.TimeoutExpired as error:
        said, ending = error.stdout or b"", f"no answer within {TIMEOUT} seconds"
    except (OSError, ValueError) as error:  # no such interpreter
        said, ending = b"", str(error)
    found: dict[str, Any] = {}
    for line in said.decode("utf-8", "replace").splitlines():
        # A driver may print lines of its own.
        if line.startswith('{"'):
            try:
                found.update(json.loads(line))
            except ValueError:
                pass
    if ending:
        for name in ("library", "policy", "driver", "hip"):
            if name not in found:
                found[name] = {"message": ending}
                break  # what comes later was not asked for
    for name in ("policy", "driver", "hip"):
        found.setdefault(name, {"message": "not asked, because the process had ended"})
    return found


def _ending(done: subprocess.CompletedProcess[bytes]) -> str | None:
    if done.returncode == 0:
        return None
    if done.returncode < 0:
        try:
            name = signal.Signals(-done.returncode).name
        except ValueError:
            name = f"signal {-done.returncode}"
        return f"the process that loaded it was ended by {name}"
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return f"the process that loaded it exited with {done.returncode}" + (
        f": {lines[-1]}" if lines else ""
    )


# --- other libraries --------------------------------------------------------------------------------------


def _libraries() -> list[dict[str, Any]]:
    distributions: dict[str, str] = {}
    try:
        for distribution in importlib.metadata.distributions():
            name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"] or "").lower()
            # The first one in the path is the one that is imported.
            distributions.setdefault(name, distribution.version)
    except Exception:  # as above
        pass
    found: list[dict[str, Any]] = []
    for name, module, pattern in LIBRARIES:
        matches = {
            key: value for key, value in distributions.items() if re.fullmatch(pattern, key)
        }
        path = _find(module)
        if path or matches:
            found.append(
                {"name": name, "module": module, "path": path, "distributions": matches}
            )
    return found


def _find(module: str) -> str | None:
    """The file of a module, or its folder, without importing it or a package above it; None if there is none."""
    top, *inner = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
        for name in inner:
            if spec is None:
                return None
            spec = importlib.machinery.PathFinder.find_spec(
                f"{spec.name}.{name}", spec.submodule_search_locations
            )
    except Exception:  # finders of other packages take part
        return None
    # A folder without code is no library: Python takes any folder of that name in the current one for a package.
    return spec.origin if spec is not None and spec.loader is not None else None


def _variables() -> dict[str, str | None]:
    values = {name: os.environ.get(name) for name in OWN}
    simulator = sorted(name for name in os.environ if name.startswith("CUDASIM_"))
    for name in (*OTHERS, *simulator):
        if name in os.environ:
            values[name] = os.environ[name]
    return values


# --- as text ----------------------------------------------------------------------------------------------


def text(found: dict[str, Any]) -> str:
    own, library = found["libcai"], found["libcai"]["library"]
    lines = [f"libcai {own['version'] or '(not installed as a package)'}"]
    _row(lines, "package", own["package"])
    _row(lines, "library", library["path"] or "none")
    if "version" in library:
        _row(lines, "", f"version {library['version']}, ABI {library['abi']}")
    if "message" in library:
        _row(lines, "", library["message"])
    python = found["python"]
    _row(lines, "Python", f"{python['version']} ({python['implementation']})")
    _row(lines, "system", python["platform"])
    lines += ["", "CUDA driver"]
    _driver(lines, found["driver"])
    lines += ["", "HIP runtime"]
    _hip(lines, found["hip"])
    lines += ["", "Libraries, found without importing them"]
    for one in found["libraries"]:
        _row(lines, one["name"], _versions(one), 16)
    if not found["libraries"]:
        lines.append("  none")
    lines += ["", "Synchronization"]
    for flag, meaning in _policy(found["policy"]):
        _row(lines, flag, meaning, 20)
    lines += ["", "Environment variables"]
    width = max(map(len, found["variables"]))
    for name, value in found["variables"].items():
        _row(lines, name, "not set" if value is None else value, width)
    return "\n".join(lines)


def _row(lines: list[str], name: str, value: str, width: int = 9) -> None:
    first = f"  {name:<{width}} "
    lines += textwrap.wrap(
        _printable(value), WIDTH, initial_indent=first, subsequent_indent=" " * (width + 3),
        break_long_words=False, break_on_hyphens=False,
    ) or [first]  # fmt: skip


def _printable(value: str) -> str:
    return value if value.isprintable() else repr(value)


def _driver(lines: list[str], driver: dict[str, Any]) -> None:
    if "path" not in driver:
        _row(lines, "none", _reason(driver))
        return
    _row(lines, "file", driver["path"] or "unknown")
    _row(lines, "CUDA", driver["cuda"])
    for number, device in enumerate(driver["devices"]):
        known = [device.get("name", "unknown")]
        if "compute_capability" in device:
            known.append(f"compute capability {device['compute_capability']}")
        if "memory" in device:
            known.append(f"{device['memory'] / 2**30:.1f} GiB")
        _row(lines, f"device {number}", ", ".join(known))
    if not driver["devices"]:
        _row(lines, "devices", "none")


def _hip(lines: list[str], hip: dict[str, Any]) -> None:
    if "file" not in hip:
        _row(lines, "none", _reason(hip))
        return
    _row(lines, "file", hip["file"])
    for name in ("version", "devices"):
        if name in hip:
            _row(lines, name, str(hip[name]))


def _reason(found: dict[str, Any]) -> str:
    status = found.get("status")
    return f"{status}: {found['message']}" if status else found["message"]


def _versions(one: dict[str, Any]) -> str:
    versions = ", ".join(f"{value} ({key})" for key, value in one["distributions"].items())
    if not one["path"]:
        return f"{versions}, but its module {one['module']} is missing"
    return versions or f"unknown version, {one['path']}"


def _policy(policy: dict[str, Any]) -> list[tuple[str, str]]:
    if "flags" not in policy:
        return [("unknown", _reason(policy))]
    if not policy["flags"]:
        return [("no override", "streams are ordered as the specification requires")]
    return [(flag, POLICY[flag]) for flag in policy["flags"]]
