"""Imports of stored dictionaries under every CPython that tools/pythons.py finds: `pythons.py FOLDER PAGE VERSION...`.

The reader by hand is compiled for each of them. Without versions: all. With a page, the table there is written.
"""

import pathlib
import shutil
import statistics
import subprocess
import sys

import run

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import pythons  # noqa: E402


def module(version, python, folder):
    """Compiles python.c with the headers of the version; a program without headers has those of the build with the lock."""
    ask = "import sysconfig; print(sysconfig.get_path('include'))"
    plain = pythons.package(version.rstrip("t")) if version in pythons.FROZEN else python
    include = subprocess.run([plain, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
    free = ["-DPy_GIL_DISABLED=1"] * version.endswith("t")
    headers = [f"-I{ROOT}/include", "-isystem", include]
    end = [folder / "libcai.so.1", "-ldl", "-lpthread", "-Wl,-rpath,$ORIGIN"]
    gcc = ["gcc", "-O2", "-std=gnu11", "-shared", "-fPIC", *free, *headers, ROOT / "bench/python.c"]
    subprocess.run([*gcc, "-o", folder / "python_ways.so", *end], check=True)


def ratios(groups):
    """The median, the least and the most of all dictionaries, for each group of them."""
    for rows in groups.values():
        found = sorted(row.ratio for row in rows if row.name != row.first and "not read" not in row.name)
        if len(found) > 20:
            yield f"{statistics.median(found):.2f} ({found[0]:.2f} to {found[-1]:.2f})"


def main(folder, page, *versions):
    commands = {}
    for version in versions or pythons.VERSIONS:
        python = pythons.interpreter(version)
        if python is None:
            print(f"{version} is not there, and left out")
            continue
        own = pathlib.Path(folder) / version
        own.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "build/bench/libcai.so.1", own)
        module(version, python, own)
        commands[version] = f"cd {version} && {python} -B {ROOT}/bench/python_bench.py stored"
    programs, _ = run.measure(folder, commands)
    lines = ["| CPython | import, to the reader by hand | requirements, to no requirement |", "|---|---|---|"]
    for version, groups in programs.items():
        print(f"--- CPython {version}")
        run.show(groups)
        lines.append(f"| {version} | " + " | ".join(ratios(groups)) + " |")
    print("\n".join(lines))
    if page != "-":
        run.write(pathlib.Path(page), {"pythons": "\n".join(lines)})


if __name__ == "__main__":
    main(*sys.argv[1:])
