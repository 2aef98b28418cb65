"""Renews entry_points.txt: the functions of the driver, their versions and their symbols. The other columns, which
entry_points.rs describes, remain as they are.

    python3 tools/entry_points.py CUDA_INCLUDE [CUDA_INCLUDE ...]

Each CUDA_INCLUDE is a folder with NVIDIA's cuda.h, cudaTypedefs.h, and those of graphics libraries;
functions of several releases add up.
"""

import pathlib
import re
import sys


TABLE = pathlib.Path(__file__).parents[1] / "entry_points.txt"


def main():
    columns = {}  # name, version, symbol -> the rest of the row
    for line in TABLE.read_text().splitlines():
        *key, rest = (re.sub("/[^ ]*", "", line, count=1) + " ").split(" ", 3)
        columns[" ".join(key)] = rest.strip()
    rows = []
    versions = {}  # name -> set of versions
    twins = {}  # name -> (suffix, set of versions)
    declared = set()
    for folder in map(pathlib.Path, sys.argv[1:]):
        parts = ["cuda", "cudaGL", "cudaEGL", "cudaVDPAU"]
        typedefs = "".join((folder / f"{part}Typedefs.h").read_text() for part in parts)
        pointer = r"\*PFN_(cu\w+?)_v(\d+)(?:_(pt[ds][sz]))?\)\("
        for name, version, suffix in re.findall(pointer, typedefs):
            if suffix:
                twins.setdefault(name, (suffix, set()))[1].add(int(version))
            else:
                versions.setdefault(name, set()).add(int(version))
        headers = "".join((folder / f"{part}.h").read_text() for part in parts)
        header = re.sub(r"/\*.*?\*/", "", headers, flags=re.S)
        declared |= set(re.findall(r"CUDAAPI\s+(cu\w+)\(", header))
        declared |= set(re.findall(r"#\s*define\s+cu\w+\s+(?:__CUDA_API_\w+\()?(cu\w+)", header))
    # Windows only.
    del versions["cuWGLGetDevice"]
    # Of a header without typedefs in older releases.
    versions.update({f"cuProfiler{name}": {4000} for name in ["Initialize", "Start", "Stop"]})
    # The name was given to another function in 12.0; its typedef was not.
    versions["cuGraphInstantiate"].add(12000)
    for name in sorted(versions):
        symbols = [name] + [f"{name}_v{n}" for n in range(2, 6) if f"{name}_v{n}" in declared]
        known = sorted(versions[name])
        if name == "cuGraphInstantiate":
            symbols.append("cuGraphInstantiateWithFlags")
        # One symbol a version; where the typedefs leave old versions out, the newest ones match.
        pairs = list(zip(reversed(known), reversed(symbols)))[::-1]
        suffix, since = twins.get(name, ("", []))
        twin = {}  # symbol -> what its row says of its twin
        for version in sorted(since):
            of = [symbol for first, symbol in pairs if first <= version]
            twin[(of or [symbols[0]])[-1]] = f"/{suffix}:{version}"
        rows += [(f"{name} {version} {symbol}", twin.get(symbol, "")) for version, symbol in pairs]
    if gone := [row for row, rest in columns.items() if rest and row not in dict(rows)]:
        sys.exit(f"these functions are gone, with what the table states about them: {gone}")
    TABLE.write_text("".join(f"{row}{twin} {columns.get(row, '')}".rstrip() + "\n" for row, twin in rows))


main()
