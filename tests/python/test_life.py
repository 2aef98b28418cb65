"""Interpreters that begin, end and begin again inside a C program, which holds their arrays: life.c, with the library under
AddressSanitizer. The Python that runs the tests is loaded into it, if it has a shared library."""

import os
import pathlib
import subprocess
import sys
import sysconfig

import pytest
from commands import compile

HERE = pathlib.Path(__file__).resolve().parent
CASES = ["again", "before", "during", "after", "sub", "sub_first", "sub_own", "lock", "blocked", "child", "teardown", "no_end"]


def libpython():
    for folder in (sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LIBPL")):
        for key in ("INSTSONAME", "LDLIBRARY"):
            name = sysconfig.get_config_var(key)
            if folder and name and ".so" in name and (pathlib.Path(folder) / name).exists():
                return str(pathlib.Path(folder) / name)
    return None


pytestmark = pytest.mark.skipif(libpython() is None, reason="this Python has no shared library")


@pytest.fixture(scope="module")
def life(sanitized, tmp_path_factory):
    program = tmp_path_factory.mktemp("life") / "life"
    library = sanitized["CAI_LIBRARY"]
    compile(HERE / "life.c", program, "-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=address", library=library)
    environment = {key: value for key, value in sanitized.items() if not key.startswith(("LD_PRELOAD", "PYTHON"))}
    # pymalloc: what CPython leaves behind at its end is in its arenas then.
    environment |= {"PYTHONHOME": sys.base_prefix}

    def run(visible, case):
        command = [program, libpython(), visible, case]
        found = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", timeout=120)
        assert found.returncode == 0 and found.stdout == "done\n", found.stderr[:8000]

    return run


@pytest.mark.parametrize("visible", ["local", "global"])
@pytest.mark.parametrize("case", CASES)
def test_life(life, case, visible):
    life(visible, case)


def test_releases_while_the_interpreter_ends(life):
    for _ in range(int(os.environ.get("CAI_LIFE_RUNS", "50"))):
        life("local", "during")
