"""Runs the rules of the driver on this machine's real driver and on the simulated one, and prints a table.

    python3 gpu_test.py FOLDER

FOLDER holds `conformance` and `simulated/libcuda.so.1`, as `make gpu-programs` leaves them. Exit code: 0 where both
keep all rules and observe the same, or where there is no real driver.
"""

import os
import pathlib
import subprocess
import sys


def run(program, result, **environment):
    path = os.environ.get("LD_LIBRARY_PATH", "")
    folders = environment.pop("folders", [])
    variables = {**os.environ, **environment, "LD_LIBRARY_PATH": ":".join([*map(str, folders), path]).strip(":")}
    return subprocess.run([program, "--json", result], env=variables, capture_output=True, text=True)


def main(folder):
    folder = pathlib.Path(folder).resolve()
    program = folder / "conformance"
    simulated = run(program, folder / "simulated.json", folders=[folder / "simulated"], CUDASIM_SCHEDULE="threads",
                    CUDASIM_RACES="off")  # fmt: skip
    print(simulated.stdout.splitlines()[-1], "on the simulated driver")
    probe = subprocess.run([program, "run", "init/flags"], capture_output=True, text=True)
    if probe.returncode != 0:
        print(f"There is no real driver here: {(probe.stderr or probe.stdout).strip().splitlines()[-1:]}")
        return simulated.returncode
    real = run(program, folder / "real.json")
    print(real.stdout.splitlines()[-1], "on the real driver")
    compare = pathlib.Path(__file__).with_name("compare.py")
    return subprocess.run([sys.executable, compare, folder / "real.json", folder / "simulated.json"]).returncode


sys.exit(main(sys.argv[1]))
