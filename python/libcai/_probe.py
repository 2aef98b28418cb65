"""Run as a program by `_system`: reports what the shared library and the drivers say, as lines of JSON.

A driver that cannot start may end its process. Each line is written as soon as it is known, so what was found before
is not lost.
"""

from __future__ import annotations

import ctypes as c
import json
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import _abi
else:
    # After the others: a module of the package must not hide one of the standard library.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import _abi

    del sys.path[0]

COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR = 75, 76  # CUdevice_attribute

HIP = (
    ["amdhip64.dll", "amdhip64_7.dll", "amdhip64_6.dll"]
    if os.name == "nt"
    else ["libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"]
)


def say(name: str, value: object) -> None:
    print(json.dumps({name: value}), flush=True)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _failure(library: c.CDLL, status: int, error: _abi.cai_error) -> dict[str, Any]:
    _abi.declare(library, ["cai_status_name"])
    return {
        "status": _text(library.cai_status_name(status)),
        "message": _text(error.message),
    }


def library(path: str) -> c.CDLL:
    found = _abi.declare(c.CDLL(path), ["cai_version", "cai_abi_version"])
    abi = found.cai_abi_version()
    say(
        "library",
        {"version": _text(found.cai_version()), "abi": f"{abi >> 16}.{abi & 0xFFFF}"},
    )
    if abi >> 16 != _abi.CAI_ABI_MAJOR:
        raise OSError(f"{path} has another major version of the ABI than the package")
    return found


def policy(found: c.CDLL) -> dict[str, Any]:
    """What `CAI_SYNC` means to the library."""
    _abi.declare(found, ["cai_sync_policy_get"])
    bits, error = c.c_uint32(), _abi.cai_error()
    status = found.cai_sync_policy_get(c.byref(bits), c.byref(error))
    if status:
        return _failure(found, status, error)
    names = ("IGNORE", "EXPORT_NONE", "CONSERVATIVE")
    return {
        "flags": [
            f"CAI_SYNC_{name}" for name in names if bits.value & getattr(_abi, f"CAI_SYNC_{name}")
        ]
    }


def driver(found: c.CDLL) -> dict[str, Any]:
    _abi.declare(found, ["cai_driver_info_get"])
    info, error = _abi.cai_driver_info(), _abi.cai_error()
    status = found.cai_driver_info_get(c.byref(info), c.byref(error))
    if status:
        return _failure(found, status, error)
    path = _text(info.path)
    answer = {"path": path, "cuda": f"{info.version // 1000}.{info.version % 1000 // 10}"}
    say("driver", {**answer, "devices": _unknown(info.devices)})
    # The library has loaded and started it; this is the same copy.
    return {**answer, "devices": _devices(c.CDLL(path or "libcuda.so.1"), info.devices)}


def _unknown(count: int) -> list[dict[str, Any]]:
    return [{} for _ in range(count)]


def _devices(cuda: c.CDLL, count: int) -> list[dict[str, Any]]:
    devices: list[dict[str, Any]] = []
    for ordinal in range(count):
        device, number, size = c.c_int(), c.c_int(), c.c_size_t()
        name = c.create_string_buffer(256)
        known: dict[str, Any] = {}
        if cuda.cuDeviceGet(c.byref(device), ordinal) == 0:
            if cuda.cuDeviceGetName(name, len(name), device) == 0:
                known["name"] = _text(name.value)
            capability: list[str] = []
            for attribute in (COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR):
                if cuda.cuDeviceGetAttribute(c.byref(number), attribute, device) == 0:
                    capability.append(str(number.value))
            if len(capability) == 2:
                known["compute_capability"] = ".".join(capability)
            if cuda.cuDeviceTotalMem_v2(c.byref(size), device) == 0:
                known["memory"] = size.value
        devices.append(known)
    return devices


def hip() -> dict[str, Any]:
    """The HIP runtime that the library would load."""
    named = os.environ.get("CAI_HIP_DRIVER")
    reasons: list[str] = []
    for file in [named] if named else HIP:
        try:
            runtime = c.CDLL(file)
        except OSError as error:
            reasons.append(str(error))
            continue
        answer: dict[str, Any] = {"file": file}
        say("hip", answer)
        version, count = c.c_int(), c.c_int()
        if runtime.hipRuntimeGetVersion(c.byref(version)) == 0:
            answer["version"] = version.value
        if runtime.hipGetDeviceCount(c.byref(count)) == 0:
            answer["devices"] = count.value
        return answer
    return {"message": reasons[0]}


def main(path: str) -> None:
    try:
        found = library(path)
    except (AttributeError, OSError) as error:
        say("library", {"message": str(error)})
        return
    for name, ask in (("policy", policy), ("driver", driver)):
        try:
            say(name, ask(found))
        except (AttributeError, OSError) as error:  # a function or a file that is missing
            say(name, {"message": str(error)})
    try:
        say("hip", hip())
    except AttributeError as error:
        say("hip", {"message": str(error)})


if __name__ == "__main__":
    main(sys.argv[1])
