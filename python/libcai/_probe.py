"""Run as a program by `_system`: reports what the shared library and the drivers say, as lines of JSON.

A driver that cannot start may end its process. Each line is written as soon as it is known, so what was found before
is not lost.
"""

import ctypes as c
import json
import os
import sys

# Before the others: a module of the package must not hide one of the standard library.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import _abi  # noqa: E402

del sys.path[0]

COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR = 75, 76  # CUdevice_attribute

HIP = (
    ["amdhip64.dll", "amdhip64_7.dll", "amdhip64_6.dll"]
    if os.name == "nt"
    else ["libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"]
)


def say(name, value):
    print(json.dumps({name: value}), flush=True)


def _text(value):
    return value.decode("utf-8", "replace")


def _failure(library, status, error):
    _abi.declare(library, ["cai_status_name"])
    return {
        "status": _text(library.cai_status_name(status)),
        "message": _text(error.message),
    }


def library(path):
    found = _abi.declare(c.CDLL(path), ["cai_version", "cai_abi_version"])
    abi = found.cai_abi_version()
    say(
        "library",
        {"version": _text(found.cai_version()), "abi": f"{abi >> 16}.{abi & 0xFFFF}"},
    )
    if abi >> 16 != _abi.CAI_ABI_MAJOR:
        raise OSError(f"{path} has another major version of the ABI than the package")
    return found


def policy(found):
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


def driver(found):
    _abi.declare(found, ["cai_driver_info_get"])
    info, error = _abi.cai_driver_info(), _abi.cai_error()
    status = found.cai_driver_info_get(c.byref(info), c.byref(error))
    if status:
        return _failure(found, status, error)
    path = _text(info.path)
    answer = {"path": path, "cuda": f"{info.version // 1000}.{info.version % 1000 // 10}"}
    say("driver", {**answer, "devices": [{} for _ in range(info.devices)]})
    # The library has loaded and started it; this is the same copy.
    return {**answer, "devices": _devices(c.CDLL(path or "libcuda.so.1"), info.devices)}


def _devices(cuda, count):
    devices = []
    for ordinal in range(count):
        device, number, size = c.c_int(), c.c_int(), c.c_size_t()
        name = c.create_string_buffer(256)
        known = {}
        if cuda.cuDeviceGet(c.byref(device), ordinal) == 0:
            if cuda.cuDeviceGetName(name, len(name), device) == 0:
                known["name"] = _text(name.value)
            capability = []
            for attribute in (COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR):
                if cuda.cuDeviceGetAttribute(c.byref(number), attribute, device) == 0:
                    capability.append(str(number.value))
            if len(capability) == 2:
                known["compute_capability"] = ".".join(capability)
            if cuda.cuDeviceTotalMem_v2(c.byref(size), device) == 0:
                known["memory"] = size.value
        devices.append(known)
    return devices


def hip():
    """The HIP runtime that the library would load."""
    named = os.environ.get("CAI_HIP_DRIVER")
    reasons = []
    for file in [named] if named else HIP:
        try:
            runtime = c.CDLL(file)
        except OSError as error:
            reasons.append(str(error))
            continue
        answer = {"file": file}
        say("hip", answer)
        version, count = c.c_int(), c.c_int()
        if runtime.hipRuntimeGetVersion(c.byref(version)) == 0:
            answer["version"] = version.value
        if runtime.hipGetDeviceCount(c.byref(count)) == 0:
            answer["devices"] = count.value
        return answer
    return {"message": reasons[0]}


def main(path):
    found = library(path)
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
    try:
        main(sys.argv[1])
    except (AttributeError, OSError) as error:
        say("library", {"message": str(error)})
