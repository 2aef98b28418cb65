"""The simulated driver under AddressSanitizer and valgrind. A file of its own, because one process runs all tests of a file."""

import os
import shutil

import pytest

from commands import HEADERS, SIM, TARGET, compile_program, run


@pytest.fixture(scope="session")
def instrumented(tmp_path_factory):
    """The driver under AddressSanitizer, as a static library: rustc's option for it is unstable."""
    triple = f"{os.uname().machine}-unknown-linux-gnu"
    environment = {"RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": "-Zsanitizer=address", "CARGO_PROFILE_DEV_DEBUG": "line-tables-only"}
    command = ["cargo", "rustc", "-q", "-p", "cudasim-driver", "--lib", "--crate-type", "staticlib", "--target", triple]
    run(*command, "--target-dir", TARGET / "asan", env=environment, timeout=600)
    library = TARGET / f"asan/{triple}/debug/libcuda.a"
    folder = tmp_path_factory.mktemp("instrumented")

    def build(name, sources):
        flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-rdynamic", "-std=gnu11", "-g"]
        includes = ["-isystem", HEADERS["13"], "-I", SIM / "include"]
        if not (folder / name).exists():
            run("gcc", *flags, *includes, *sources, library, "-o", folder / name, "-lpthread", "-ldl", "-lm")
        return folder / name

    return build


@pytest.mark.parametrize("schedule", ["lazy", "random:1"])
def test_address_sanitizer(instrumented, schedule):
    environment = {"CUDASIM_SCHEDULE": schedule, "CUDASIM_DEVICES": "2", "CUDASIM_PRINT": "exit"}
    conformance = instrumented("conformance", sorted((SIM / "conformance").glob("*.c")))
    done = run(conformance, check=False, env=environment, timeout=300)
    assert done.returncode == 0 and "Sanitizer" not in done.stderr, done.stdout + done.stderr
    stress = instrumented("stress", [SIM / "tests/stress.c"])
    done = run(stress, "8", "16", "50000", check=False, env=environment, timeout=300)
    assert done.returncode == 0 and "Sanitizer" not in done.stderr, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.parametrize("schedule", ["lazy", "random:1"])
def test_valgrind(driver, tmp_path, schedule):
    program = compile_program(driver, tmp_path / "stress", [SIM / "tests/stress.c"])
    environment = {"CUDASIM_SCHEDULE": schedule, "LD_LIBRARY_PATH": driver}
    command = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=definite"]
    run(*command, "--errors-for-leak-kinds=definite", program, "4", "4", "3000", env=environment, timeout=300)
