"""The second part of `make demo`: runs examples-c/06_streams.c correctly, and then without one wait, which the race
checker reports.

On a machine with a GPU, both runs use the GPU, and the race checker follows the real driver.

    make demo                                             builds the program and runs this file
    python streams.py cuda-sim PROGRAM
"""

import ctypes
import subprocess
import sys
import textwrap


def has_device():
    """Returns whether there is a CUDA driver with a device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int()
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


def show(command):
    sys.stdout.flush()
    done = subprocess.run(command, capture_output=True, text=True)
    for line in (done.stdout + done.stderr).splitlines():
        indent = " " * (4 + len(line) - len(line.lstrip()))
        print(textwrap.fill(line.strip(), 80, initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False))
    return done.returncode


def main():
    race, program = sys.argv[1], sys.argv[2]
    race = [race, "run", "--rules=strict", "--print=exit"]
    real = has_device()
    where = "on this machine's GPU" if real else "on the simulated driver, because this machine has no GPU"
    print(f"\nTwo libraries with streams of their own,\n{where}:\n")
    correct = show([program] if real else [*race, "--", program])
    print("\nThe same with one call left out, cai_array_consume_begin:\n")
    broken = show([*race, *(["--shadow"] if real else []), "--", program, "forget"])
    if correct != 0 or broken != 66:
        print(f"\nThis was not expected: exit codes {correct} and {broken}, instead of 0 and 66.")
        return 1
    print("\nThe first is in order without a wait of the host.\nThe second is caught: exit code 66.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
