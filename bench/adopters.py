"""What a program pays for the headers and the static library: `adopters.py PREFIX [PAGE]`, for an installed libcai.

Each header is compiled in a file by itself, in turn with the others and with an empty file. Times are those of the
compiler's process, the least of the rounds.
"""

import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile

import run

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROUNDS = int(os.environ.get("BENCH_ROUNDS", 3))
SITE = pathlib.Path(sysconfig.get_path("purelib"))
# Headers of others; those of frameworks are what the adapters include.
FRAMEWORKS = ["mpi.h", "torch/csrc/stable/c/shim.h", "tvm/ffi/c_api.h", "xla/ffi/api/c_api.h"]
C = ["", "dlpack/dlpack.h", *FRAMEWORKS, "cai/abi.h", "cai/cai.h"]
CPP = ["", "nanobind/ndarray.h", "pybind11/pybind11.h"]
# What the page shows of them.
SHOWN = {*C, *CPP, "cai/abi.hpp", "cai/cai.hpp", "cai/nanobind.hpp", "cai/pybind11.hpp"} - {""}


def compiled(compiler, source, *options):
    """Processor seconds of a compiler."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([compiler, *options, source], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def folder_of(name):
    """Where the environments of `make interop` have a header: none or one."""
    for pattern in "build/*/include", "build/*/lib/python*/site-packages/**/include":
        if found := sorted(ROOT.glob(f"{pattern}/{name}")):
            return [found[0].parents[name.count("/")]]
    return []


def headers(prefix, compilers, standard, names):
    """Rows of a table: those that a file can include here."""
    folders = [sysconfig.get_path("include"), SITE / "pybind11/include", SITE / "nanobind/include"]
    folders += [path for name in ["dlpack/dlpack.h", *FRAMEWORKS] for path in folder_of(name)]
    options = [f"-std={standard}", "-O2", f"-I{prefix}/include", *(f"-isystem{folder}" for folder in folders)]
    with tempfile.TemporaryDirectory() as folder:
        sources = {}
        for name in names:
            source = pathlib.Path(folder) / (name.replace("/", "_") + (".cpp" if "++" in standard else ".c"))
            source.write_text(f"#include <{name}>\n" if name else "\n")
            found = subprocess.run([compilers[0], *options, "-E", "-P", source], capture_output=True, text=True)
            if found.returncode == 0:
                sources[name] = source, found.stdout.count("\n")
            else:
                print(f"not there, and left out: {name}")
        times = {}
        for _ in range(ROUNDS):
            for name, (source, _) in sources.items():
                for compiler in compilers:
                    took = compiled(compiler, source, *options, "-c", "-o", os.devnull)
                    times[name, compiler] = min(took, times.get((name, compiler), took))
    for name, (_, lines) in sources.items():
        cells = [f"{times[name, one] * 1e3:,.0f} ms | {times[name, one] / times['', one]:.1f}" for one in compilers]
        yield " | ".join([f"| `{name}`" if name else "| an empty file", f"{lines:,}", *cells]) + " |"


def table(prefix, compilers, standard, names):
    there = [name for name in compilers if shutil.which(name)]
    if not there:
        return
    columns = [f"{name} | of an empty file" for name in there]
    yield " | ".join([f"| {standard.replace('c', 'C')}", "lines", *columns]) + " |"
    yield "|---|" + "---|" * (1 + 2 * len(there))
    yield from headers(prefix, there, standard, names)
    yield ""


def main(prefix, page=None):
    prefix = pathlib.Path(prefix).resolve()
    ours = sorted(str(path.relative_to(prefix / "include")) for path in (prefix / "include/cai").rglob("*.h*"))
    # Some headers of adapters are C++, as what they include.
    ours = [name for name in ours if name not in C]
    in_cpp = [name for name in ours if name.endswith(".hpp") or "_cast<" in (prefix / "include" / name).read_text()]
    in_c = [name for name in ours if name not in in_cpp]
    lines = list(table(prefix, ["gcc", "clang"], "c11", C + in_c))
    lines += table(prefix, ["g++", "clang++"], "c++17", CPP + in_cpp)
    sizes = subprocess.run([ROOT / "tools/sizes.sh", prefix], check=True, capture_output=True, text=True).stdout
    table_of_sizes = [re.sub(r"\d+(?= \|)", lambda found: f"{int(found[0]):,}", line) for line in sizes.splitlines() if line[:1] == "|"]
    print("\n".join(lines + table_of_sizes))
    if page:
        cells = [line.strip("| ").split(" | ") for line in lines]
        shown = [row[:4] for row in cells if row[0].strip("`") in SHOWN]
        times = "\n".join("| " + " | ".join(row) + " |" for row in [["header", "lines", "time", "of an empty file"], *shown])
        times = times.replace("\n", "\n|---|---|---|---|\n", 1)
        run.write(pathlib.Path(page), {"headers": times, "sizes": "\n".join(table_of_sizes)})


if __name__ == "__main__":
    main(*sys.argv[1:])
