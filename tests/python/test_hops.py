"""What an array keeps on its way through each protocol: the tables of docs/src/hops.md, which tools/hops.py makes, and
random arrays through one protocol and then another, which the tables must predict."""

import os
import sys

import pytest
from commands import CUDA_SIM, ROOT, run

pytest.importorskip("numpy")


def hops(what, schedule, seed):
    simulated = [CUDA_SIM, "run", "--print=exit", f"--schedule={schedule}", "--"]
    assert "came back" in run(*simulated, sys.executable, "tools/hops.py", what, "400", seed).stdout


def test_generated_table():
    hops("write" if os.environ.get("CAI_BLESS") else "check", "lazy", 1)


@pytest.mark.parametrize("schedule", ["eager", "threads"])
def test_random_arrays_under_other_schedules(schedule):
    hops("check", schedule, 2 if schedule == "eager" else 3)


def test_the_program_of_the_page(tmp_path):
    page = (ROOT / "docs/src/hops.md").read_text()
    program, printed = (page.split(f"```{kind}\n")[1].split("```")[0] for kind in ("c", "text"))
    (tmp_path / "program.c").write_text(program)
    (tmp_path / "libcai.so.1").symlink_to(ROOT / "target/release/libcai.so")
    run(
        "gcc", "-std=c99", "-I", ROOT / "include", tmp_path / "program.c", "-o", tmp_path / "program", tmp_path / "libcai.so.1",
        f"-Wl,-rpath,{tmp_path}",
    )  # fmt: skip
    assert run(tmp_path / "program").stdout == printed
