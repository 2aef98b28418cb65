"""The exported functions, as abi/symbols.txt lists them, and the headers, as they are installed."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = [line.split() for line in (ROOT / "abi/symbols.txt").read_text().splitlines() if not line.startswith("#")]
NAMES = {row[0] for row in ROWS}
UNSTABLE = {row[0] for row in ROWS if row[1].startswith("unstable/")}
HEADERS = {str(path.relative_to(root)) for root in (ROOT, ROOT / "contrib") for path in (root / "include").rglob("*.*")}
