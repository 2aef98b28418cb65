"""Prints the results of two runs of `conformance --json` as a table.

    python3 compare.py real.json simulated.json
"""

import json
import sys


def load(path):
    with open(path, encoding="utf-8") as file:
        rules = [json.loads(line) for line in file]
    return {f"{rule['theme']}/{rule['name']}": rule for rule in rules}


def observations(rule):
    lines = rule["output"].splitlines()
    return [line.removeprefix("observed ") for line in lines if line.startswith("observed ")]


def cell(rule):
    if rule is None:
        return "not run"
    lines = rule["output"].splitlines()
    failures = [line for line in lines if line.startswith(("failed ", "skipped "))]
    return "; ".join([rule["result"], *observations(rule), *failures]).replace("|", "\\|")


def main(real, simulated):
    real, simulated = load(real), load(simulated)
    print("| rule | real driver | simulated | |\n|---|---|---|---|")
    differ = 0
    for name in sorted(real.keys() | simulated.keys()):
        a, b = real.get(name), simulated.get(name)
        rule = (a or b)["rule"]
        same = cell(a) == cell(b)
        differ += not same
        print(f"| {name}: {rule} | {cell(a)} | {cell(b)} | {'' if same else 'DIFFERS'} |")
    print(f"\n{differ} of {len(real.keys() | simulated.keys())} rules differ.")
    return differ > 0


sys.exit(main(*sys.argv[1:]))
