"""every_python.py under each CPython from 3.9 on that lies on this machine: on PATH, and where pyenv puts them. With
CAI_ONLY_THIS_PYTHON, which tools/pythons.py sets, under the one that runs the tests only."""

import glob
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ASK = "import sys, ctypes; print(sys.implementation.name, sys.version_info >= (3, 9), sys.version, sys.base_prefix, sep='|')"


def pythons():
    """The one that runs the tests first; each build once."""
    if os.environ.get("CAI_ONLY_THIS_PYTHON"):
        return [sys.executable]
    names = [f"python3.{minor}{kind}" for minor in range(9, 20) for kind in ("", "t", "-dbg", "d")]
    found = [sys.executable, *filter(None, map(shutil.which, names))]
    root = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    found += sorted(glob.glob(os.path.join(root, "versions", "*", "bin", "python3")))
    builds = {}
    for path in found:
        try:
            answer = subprocess.run([path, "-c", ASK], capture_output=True, text=True, timeout=30).stdout.strip()
        except (OSError, subprocess.TimeoutExpired):
            continue
        name, new, *which = answer.split("|") if answer.count("|") == 3 else ("", "", "", "")
        if name == "cpython" and new == "True":
            builds.setdefault(tuple(which) + (os.path.basename(path).endswith(("-dbg", "d")),), path)
    return list(builds.values())


def test_every_python(library_path):
    """In one test, because each testing process would look for them to list it."""
    failed = []
    for python in pythons():
        command = [python, str(HERE / "every_python.py")]
        found = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=300)
        if found.returncode or not found.stdout.endswith("good\n"):
            failed.append(f"{python}\n{found.stdout[-3000:]}{found.stderr[-6000:]}")
    assert not failed, "\n".join(failed)
