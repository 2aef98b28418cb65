"""The README's samples: saved, compiled and run in the order in which a reader pastes them.

As test_pages.py does. The program with streams runs under the race checker, and once more with a wait
left out, which the checker must report.
"""

import ast
import pathlib
import re
import subprocess
import sys
import sysconfig

import pytest

from test_pages import BLOCK, NAMED, ROOT, as_reader, pasted

REPORTED = 66  # exit status of `cuda-sim run` with a race


def blocks():
    return BLOCK.findall((ROOT / "README.md").read_text())


def program(name):
    return next(text for _, text in blocks() if (found := NAMED.match(text)) and found[1] == name)


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """A home folder in which every block was pasted, the environment, and what the shell printed."""
    home = tmp_path_factory.mktemp("reader")
    script, _ = pasted((ROOT / "README.md").read_text())
    script += '\nenv -0 > "$HOME/environment"'
    command = ["bash", "-c", script]
    done = subprocess.run(command, cwd=ROOT, env=as_reader(home), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    after = (home / "environment").read_text().split("\0")
    return home / "first-exchange", dict(line.split("=", 1) for line in after if line), done.stdout


def run(command, reader, **more):
    folder, environment, _ = reader
    return subprocess.run(
        command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, **more
    )


def test_every_program_prints_what_the_readme_states(reader):
    text = (ROOT / "README.md").read_text()
    _, _, printed = reader
    outputs = re.findall(r"[Pp]rints\s+`([^`]+)`", text)
    assert len(outputs) >= 2
    for output in outputs:
        assert output in printed, printed


def test_a_missing_wait_is_reported(reader):
    folder, _, _ = reader
    source = program("exchange.c")
    call = "cai_array_consume_begin(&array, mine, CAI_ACCESS_READ, error)"
    assert call in source
    (folder / "racy.c").write_text(source.replace(call, "CAI_OK"))
    build = next(text for language, text in blocks() if language == "sh" and "exchange.c" in text)
    assert build.count("exchange") == 3
    done = run(
        build.replace("exchange.c", "racy.c")
        .replace("-o exchange", "-o racy")
        .replace("./exchange", "./racy"),
        reader,
    )
    assert done.returncode == REPORTED, done.stdout + done.stderr
    for part in ("cuMemsetD32Async", "cuMemcpyDtoDAsync", "missing: cuEventRecord", "1 race found"):
        assert part in done.stderr, done.stderr


def test_schedules(reader):
    for schedule in ("lazy", "eager", "threads"):
        done = run(f"cuda-sim run --rules=strict --schedule={schedule} ./exchange", reader)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_extension(reader):
    """The first one of the page about extensions, which has the build files. It is built by hand here."""
    page = (ROOT / "docs/src/extensions.md").read_text()
    assert program("mine.cpp") in page, "the README and the page have different programs"
    folder, _, _ = reader
    headers = pathlib.Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").exists():
        pytest.skip("Python's headers are not installed")
    (folder / "use.py").write_text(
        "import ctypes, mine\n"
        "runtime, data = ctypes.CDLL('libcudart.so.13'), ctypes.c_void_p()\n"
        "assert runtime.cudaMalloc(ctypes.byref(data), ctypes.c_size_t(64)) == 0\n"
        "assert runtime.cudaMemset(data, 7, ctypes.c_size_t(64)) == 0\n"
        "class Array:\n"
        "    __cuda_array_interface__ = {'shape': (4, 4), 'typestr': '<f4', 'version': 3,\n"
        "                                'data': (data.value, False), 'stream': 1}\n"
        "mine.clear(Array())\n"
        "host = (ctypes.c_uint32 * 16)(*[7] * 16)\n"
        "assert runtime.cudaMemcpy(host, data, ctypes.c_size_t(64), 2) == 0\n"
        "assert not any(host)\n"
        "try:\n"
        "    mine.clear(type('Flat', (), {'__cuda_array_interface__':\n"
        "        Array.__cuda_array_interface__ | {'shape': (16,)}})())\n"
        "except (BufferError, TypeError) as error:\n"
        "    print('refused:', error)\n"
    )
    packages = pathlib.Path(sysconfig.get_path("purelib"))
    build = (
        f"g++ -std=c++17 -O1 -fvisibility=hidden -shared -fPIC mine.cpp -isystem {headers} "
        f"-isystem {packages}/pybind11/include -isystem $CUDA_HOME/include "
        "$(pkg-config --cflags --libs cai) $CUDA_HOME/lib/libcudart.so.13 -o mine.so"
    )
    done = run(build, reader)
    assert done.returncode == 0, done.stderr
    done = run(f"cuda-sim run --runtime --rules=strict {sys.executable} use.py", reader)
    assert done.returncode == 0 and "refused:" in done.stdout, done.stdout + done.stderr


def test_python_blocks_are_python():
    found = [text for language, text in blocks() if language == "python"]
    assert found
    for text in found:
        ast.parse(text)
