"""Runs the programs about streams on this machine's real driver, and prints what order costs there.

    python3 gpu_test.py FOLDER

FOLDER holds the programs, as `make gpu-programs` leaves them. Exit code: 0 where all cases pass, or where there is
no real driver.
"""

import os
import pathlib
import subprocess
import sys


def run(folder, *command, **more):
    return subprocess.run([folder / command[0], *command[1:]], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **more})  # fmt: skip


def main(folder):
    folder = pathlib.Path(folder).resolve()
    probe = run(folder, "conformance", "run", "init/flags")
    if probe.returncode != 0:
        print("streams: there is no real driver here")
        return 0
    shim = {"CAI_CUDA_DRIVER": str(folder / "libshim.so")}
    failed = []
    for program in ("exchange", "produce", "capture"):
        cases = run(folder, program, "list").stdout.split()
        for case in cases:
            done = run(folder, program, case, **shim)
            if done.returncode != 0:
                failed.append(f"{program} {case}: {done.returncode}: {(done.stdout + done.stderr)[-600:]}")
        print(f"{program}: {len(cases)} cases on the real driver")
    print("\n".join(failed))
    stress = run(folder, "stress", "32", "20000")
    print("stress:", stress.returncode, stress.stdout, stress.stderr[-600:])
    for command in (["streams", "with this driver"], ["pingpong", "65536"], ["pingpong", "1048576"],
                    ["pingpong", "67108864", "200"]):  # fmt: skip
        done = run(folder, *command)
        print(done.stdout, done.stderr[-600:])
    return 1 if failed or stress.returncode != 0 else 0


sys.exit(main(sys.argv[1]))
