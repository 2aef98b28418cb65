"""Makes empty libraries for what PyTorch names and a slim installation lacks.

    python torch_stubs.py FOLDER

Each has the right SONAME, and the versioned symbols without which the loader refuses; calling one is a mistake.
"""

import collections
import pathlib
import re
import subprocess
import sys
import sysconfig


def read(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main(site, folder):
    folder.mkdir(parents=True, exist_ok=True)
    libraries = sorted((site / "torch/lib").glob("*.so*"))
    present = {path.name for path in libraries} | {path.name for path in (site / "nvidia").rglob("*.so*")}
    system = set(re.findall(r"^\s+(\S+) ", read("/sbin/ldconfig", "-p"), re.M)) | {"libcuda.so.1"}
    loose, defined = set(), set()
    needed, versions, undefined = set(), collections.defaultdict(set), collections.defaultdict(set)
    for library in libraries:
        needed |= set(re.findall(r"NEEDED.*\[(.*?)\]", read("readelf", "-d", library)))
        file = None
        for line in read("readelf", "-V", "-W", library).splitlines():
            if match := re.search(r"File: (\S+)", line):
                file = match[1]
            if file and (match := re.search(r"Name: (\S+)\s+Flags", line)):
                versions[file].add(match[1])
        for line in read("nm", "-D", "--with-symbol-versions", "-u", library).splitlines():
            if match := re.search(r" [UwW] (\S+?)@+(\S+)", line):
                undefined[match[2]].add(match[1])
            elif match := re.search(r" U (\w+)$", line):
                loose.add(match[1])
    for library in libraries + [path for path in (site / "nvidia").rglob("*.so*") if path.is_file()]:
        defined |= set(re.findall(r" [A-TV-Z] (\w+)", read("nm", "-D", "--defined-only", library)))
    # What no library provides and no version says where it should come from: one of ours has all of it.
    loose -= defined
    for name in sorted(needed - present - system):
        nodes = sorted(versions[name])
        symbols = sorted(set().union(*(undefined[node] for node in nodes)))
        if not nodes:
            symbols, loose = symbols + sorted(loose), set()
        source, script = folder / "stub.c", folder / "stub.map"
        source.write_text("".join(f"long {symbol}(void) {{ return 1; }}\n" for symbol in symbols) + "typedef int empty;\n")
        command = ["gcc", "-w", "-shared", "-fPIC", "-fno-builtin", "-o", folder / name, source, f"-Wl,-soname,{name}"]
        if nodes:
            names = {node: "".join(f"{symbol}; " for symbol in sorted(undefined[node])) for node in nodes}
            script.write_text("".join(f"{node} {{ {'global: ' + names[node] if names[node] else ''}}};\n" for node in nodes))
            command.append(f"-Wl,--version-script={script}")
        subprocess.run(command, check=True)


main(pathlib.Path(sysconfig.get_path("purelib")), pathlib.Path(sys.argv[1]))
