"""Streams: the programs of capi-tests/sync on the simulated driver, under every schedule, with each of the
driver's calls failing once, and with each of the calls that make order left out once."""

import concurrent.futures
import json
import os
import re
import shutil

import pytest

from commands import BUILT, CUDA_SIM, ROOT, SIM, SITE, TESTS, Built, libdir, output_of, run

SCHEDULES = ["eager", "lazy", "random:7", "threads"]
WORKERS = os.cpu_count() or 1
PROGRAMS = ["exchange", "produce", "capture", "events", "arrow", "copies", "hip", "release"]


class Programs(Built):
    def each(self, program, jobs, *command):
        """Runs cases, each in a child of a process that has the libraries loaded. Jobs are lines: a case, and perhaps
        `calls` or a value of SHIM. Returns the exit status and the output of each."""
        simulated = [CUDA_SIM, "run", "--print=exit", "--schedule=lazy", "--devices=2", "--"]

        def some(lines):
            done = run(*(command or simulated), self.program(program), "each", input="".join(f"{line}\n" for line in lines), check=False,
                       env=self.environment() if command else self.drivers, timeout=600)  # fmt: skip
            outputs = re.split(r"\nended (\d+) (-?\d+)\n", done.stdout)
            numbers, statuses = [int(text) for text in outputs[1::3]], [int(text) for text in outputs[2::3]]
            # 66: a case has raced, and the simulator reports it in the status of the parent too.
            assert done.returncode in (0, 66) and numbers == list(range(len(lines))), output_of(done)
            # Valgrind writes to the error output that the parent had.
            return [(status, f"{status}\n{text[-3000:]}{done.stderr[-3000:]}") for status, text in zip(statuses, outputs[::3])]

        parts = everywhere(lambda part: some(jobs[part::WORKERS]), [(part,) for part in range(min(WORKERS, len(jobs)))])
        results = [None] * len(jobs)
        for part, found in enumerate(parts):
            results[part::WORKERS] = found
        return results

    def environment(self, schedule="lazy"):
        """For programs that run without the command."""
        return {"LD_LIBRARY_PATH": self.driver, **self.drivers, "CUDASIM_DEVICES": "2",
                "CUDASIM_SCHEDULE": schedule, "CUDASIM_RACES": "off"}  # fmt: skip


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    return Programs(tmp_path_factory.mktemp("sync"), libdir())


def everywhere(work, jobs):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda job: work(*job), jobs))


# What version 3 of the specification says about streams, the rule (docs/src/specification.md), and the cases that test it.
SENTENCES = [
    ("exchange without data races", "S7 S8", "exchange.c"),
    ("correct by default, without the user's knowledge", "S10", "exchange.c handles policy_of_the_process"),
    ("exceptions have to be documented", "S4", "exchange.c nothing_to_order conservative"),
    ("users may override, and are then responsible for races", "S10", "exchange.c policy_of_the_process"),
    ("stream not present or None: no synchronization, any stream", "S3", "exchange.c nothing_to_order"),
    ("stream an integer: work may be in progress there", "S2", "exchange.c handles legacy_producer per_thread_producer"),
    ("the consumer synchronizes on it before accessing the data", "S8", "exchange.c handles two_devices two_contexts host_waits"),
    ("or enqueues its operations in it", "S8", "exchange.c nothing_to_order"),
    ("nothing may take place in the stream until the consumer's operations have", "S8", "exchange.c handles many_rounds"),
    ("work in the provided stream is serialized", "S8", "events.c reader_after_a_writer_of_this_library"),
    ("a consumer set to ignore may operate at once", "S10", "exchange.c nothing_to_order"),
    ("producers: synchronizing on the stream is enough", "S7", "produce.c join_7_9_15_into_3 join_default_streams join_across_devices"),
    ("work on one stream, or none: already satisfied", "S7", "produce.c nothing_pending"),
    ("7, 9, 15 into 3", "S7", "produce.c join_7_9_15_into_3"),
    ("no work: None, or not provided", "S3", "produce.c nothing_pending"),
    ("a producer may be set to always export None", "S10", "exchange.c policy_of_the_process"),
    ("the owner of the data must be kept alive", "O1", "produce.c release_after_work release_in_order_of_a_destroyed_stream"),
    ("the owner of the data must be kept alive by a graph", "O1", "capture.c graph_keeps_an_owner"),
    ("the exported stream lives as long as the exporting object", "O2", "produce.c array_keeps_its_stream"),
    ("a stream that was destroyed is detected", "O2", "exchange.c stale_handle"),
    ("the context that owns the pointer; host-accessible; managed", "D11", "produce.c pointer_attributes"),
    ("the data must be device-accessible", "D10", "produce.c checks_of_memory checks_of_pieces"),
    ("an event may be added", "S6", "events.c"),
]


def test_every_sentence_has_cases():
    page = (ROOT / "docs/src/specification.md").read_text()
    for sentence, rules, tested in SENTENCES:
        program, *cases = tested.split()
        source = (TESTS / program).read_text()
        assert [case for case in cases if f"CASE({case})" not in source] == [], sentence
        assert [rule for rule in rules.split() if f"| {rule} |" not in page] == [], sentence


# Where the race checker observes the library, it takes the slow path, which reports each exchange. On a GPU nothing
# observes it.
OBSERVED = [(schedule, "seen") for schedule in SCHEDULES] + [("lazy", "hidden")]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(("schedule", "exchanges"), OBSERVED)
def test_cases(built, program, schedule, exchanges):
    def one(case, devices):
        done = built.run(program, case, schedule=schedule, devices=devices, check=False, CUDASIM_EXCHANGES=exchanges)
        assert done.returncode == 0, f"{case} on {devices}: {output_of(done)}"

    everywhere(one, [(case, devices) for case in built.cases(program) for devices in (1, 2)])


@pytest.mark.parametrize("schedule", ["lazy", "threads"])
def test_lifetime(built, schedule):
    copies = {name: str(built.folder / f"{name}.so") for name in ("FIRST_COPY", "SECOND_COPY")}
    for path in copies.values():
        shutil.copy(BUILT / "libcai.so", path)
    cases = built.cases("lifetime")
    assert len(cases) == 4
    for case in cases:
        done = built.run("lifetime", case, schedule=schedule, check=False, **copies)
        assert done.returncode == (5 if case == "callback_that_exits" else 0), f"{case}: {output_of(done)}"


# --- each call of the driver fails once -----------------------------------------------------------------------

# Out of memory, the process exits, no context, a bad handle, a failed kernel, a destroyed context, a capture,
# a detached stream, something unknown, and a number that no header knows.
CODES = [2, 4, 201, 400, 719, 709, 900, 917, 999, 12345]

# These have a status of their own (test_driver.py).
NOT_FAILED = {"cuInit", "hipInit"}


def documented_codes():
    """The codes that cuda.h documents for each function, and those of earlier work, which every call may return."""
    header = (SITE / "nvidia/cu13/include/cuda.h").read_text()
    values = {name: int(value) for name, value in re.findall(r"\b(CUDA_ERROR_\w+)\s*=\s*(\d+)", header)}
    comments = re.findall(r"/\*\*((?:(?!\*/).)*)\*/\s*(?:__CUDA_DEPRECATED\s+)?CUresult CUDAAPI (\w+)\(", header, re.DOTALL)
    found = {}
    for comment, name in comments:
        codes = {values[code] for code in re.findall(r"::(CUDA_ERROR_\w+)", comment.rpartition("\\return")[2]) if code in values}
        found[re.sub(r"_v\d$", "", name)] = codes | {700, 709, 719}
    return found


def calls_of(built, program, cases):
    """What the library calls in each case: {case: {function: how often}}."""
    found = {}
    for case, (status, output) in zip(cases, built.each(program, [f"{case} calls" for case in cases])):
        assert status == 0, f"{case}: {output}"
        words = [line.split() for line in output.splitlines() if line.startswith("called ")]
        found[case] = {name: int(count) for _, name, count in words}
    return found


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_call_fails_once(built, program):
    """The library says what failed, or does without; nothing is lost, and the next call works. The macro OK of
    the programs checks that; the rest of each case checks that all is in order in the end."""

    jobs, documented = [], documented_codes()
    for case, calls in calls_of(built, program, built.cases(program)).items():
        for name, count in calls.items():
            if name not in NOT_FAILED:
                # The first call, the second, which finds what the first left, and the last.
                codes = sorted(documented[re.sub(r"_v\d$", "", name)]) if program == "release" else CODES
                jobs += [f"{case} {name}:{n}:{code}" for n in sorted({1, 2, count}) if n <= count for code in codes]
    assert len(jobs) > 300

    results = zip(jobs, built.each(program, jobs))
    wrong = [f"{job}: {output}" for job, (status, output) in results if status != 0]
    assert not wrong, f"{len(wrong)} of {len(jobs)}\n" + "\n".join(wrong[:10])


@pytest.mark.parametrize("missing", ["memory", "threads", "any_threads"])
@pytest.mark.parametrize("owners", ["", "_foreign"])
def test_release_without(built, monkeypatch, missing, owners):
    """No release comes early where memory or threads are missing. Where no thread can ever be had, functions that
    return a status fail."""
    monkeypatch.setenv("WITHOUT", missing + owners)
    cases = [case for case in built.cases("release_without") if missing != "any_threads" or case.startswith("IN_ORDER")]
    results = zip(cases, built.each("release_without", cases))
    assert [f"{case}: {output}" for case, (status, output) in results if status != 0] == []


# --- each call that makes order is left out once ----------------------------------------------------------------

ORDER = ["cuEventRecord", "cuStreamWaitEvent", "cuStreamSynchronize", "cuEventSynchronize", "cuCtxRecordEvent",
         "cuCtxWaitEvent", "cuCtxSynchronize", "hipEventRecord", "hipStreamWaitEvent", "hipStreamSynchronize",
         "hipEventSynchronize", "hipDeviceSynchronize"]  # fmt: skip

# The cases in which each of them is needed. In the others some are implied by what came before.
NEEDED = {
    "exchange": [
        "handles", "blocking_handles", "two_devices", "two_contexts", "legacy_producer", "legacy_consumer",
        "legacy_of_two_devices", "per_thread_producer", "legacy_in_either", "per_thread_mask_in_either",
        "conservative_in_either_context", "event_of_an_unknown_stream", "events_of_a_context_that_came_back",
    ],
    "produce": ["join_7_9_15_into_3", "release_after_work"],
    "capture": [
        "both_in_one_capture", "joining_a_capture", "waiting_from_inside_a_capture", "around_a_launch",
        "producers_in_a_capture",
    ],
    # The other cases record events that no rule waits for, or end with a wait that nothing follows.
    "events": ["readers_and_writers_of_an_unknown_stream", "graph_of_a_reader_of_a_read_only_array"],
    "arrow": ["a_consumer_of_arrow_waits_for_the_event", "a_mask_on_another_stream", "an_unknown_stream", "an_imported_array"],
    "copies": ["page_locked_memory_on_a_stream"],
    "hip": [
        "handles", "two_devices", "legacy_producer", "legacy_consumer", "legacy_of_two_devices", "legacy_in_either",
        "per_thread_producer", "legacy_in_either_by_memory", "per_thread_in_either",
        "event_of_an_unknown_stream", "both_streams_in_one_capture", "an_event_for_arrow",
    ],
}  # fmt: skip


@pytest.mark.parametrize("program", NEEDED)
def test_no_wait_is_superfluous(built, program):
    """Leaving out any one record, wait or synchronization makes the case fail."""

    jobs = []
    for case, calls in calls_of(built, program, NEEDED[program]).items():
        for name, count in calls.items():
            # An end records an event for either context, of the same work.
            if name in ORDER and not ("_in_either" in case and name == "cuEventRecord"):
                jobs += [f"{case} {name}:{number}:skip" for number in range(1, count + 1)]
    # Consumers of Arrow wait for its event themselves.
    assert len(jobs) >= (1 if program == "arrow" else 2) * len(NEEDED[program])

    survivors = [job for job, (status, _) in zip(jobs, built.each(program, jobs)) if status == 0]
    assert not survivors, f"{len(survivors)} of {len(jobs)}: {survivors}"


# --- many threads -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_many_threads(built, schedule):
    """32 threads over 8 streams of 2 devices. A million pairs each take a minute: `stress 32 1000000`."""
    few = built.run("stress", 32, 50, schedule=schedule).stdout
    many = built.run("stress", 32, 1000, schedule=schedule).stdout
    in_use = [int(text.split()[2]) for text in (few, many)]
    # What is left does not grow with the number of pairs. The race checker's part settles at 1 MB, for 32,000 pairs
    # as for 256,000.
    assert in_use[1] < in_use[0] + 2_000_000, in_use


# --- the rules, as a stranger meets them ------------------------------------------------------------------------

STRANGER = """
#include "sync_test.h"
int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    CUstream producer, consumer;
    CUdeviceptr out;
    cai_stream streams[1];
    cai_array array;
    set_up();
    producer = new_stream(), consumer = new_stream(), out = new_buffer();
    streams[0] = as_value(producer);
    array = array_of(new_buffer(), 0);
    if (cai_owner_create(NULL, NULL, &array.owner, NULL) != CAI_OK) return 1;
    fill((CUdeviceptr)(uintptr_t)array.data, 1, strcmp(what, "R2") == 0 ? consumer : producer);
    if (cai_array_produce(&array, streams, strcmp(what, "R1") != 0, streams[0], 0, NULL) != CAI_OK) return 1;
    if (strcmp(what, "R7") == 0) array.flags = CAI_ARRAY_READONLY;
    if (strcmp(what, "R3") != 0) {
        cai_array_consume_begin(&array, strcmp(what, "R8") == 0 ? 0 : as_value(consumer),
                          strcmp(what, "R7") == 0 ? CAI_ACCESS_WRITE : CAI_ACCESS_READ, NULL);
    }
    if (strcmp(what, "R7") != 0 && strcmp(what, "R8") != 0) copy(out, (CUdeviceptr)(uintptr_t)array.data, consumer);
    if (strcmp(what, "R4") != 0 && strcmp(what, "R5") != 0) {
        cai_array_consume_end(&array, as_value(consumer), CAI_ACCESS_READ, NULL);
    }
    if (strcmp(what, "R4") == 0) fill((CUdeviceptr)(uintptr_t)array.data, 2, producer);
    if (strcmp(what, "R6") == 0) CU(cuStreamDestroy(producer));
    if (strcmp(what, "R9") == 0) cai_array_synchronize(&array, CAI_ACCESS_READ, NULL);
    if (strcmp(what, "R10") == 0) {
        CU(cuStreamBeginCapture(consumer, CU_STREAM_CAPTURE_MODE_GLOBAL));
        cuStreamSynchronize(consumer);
    }
    if (strcmp(what, "R6") != 0) cai_array_release(&array);
    CU(cuStreamSynchronize(consumer));
    return 0;
}
"""


@pytest.fixture(scope="session")
def stranger(built):
    source = built.folder / "stranger.c"
    source.write_text(STRANGER)
    return built.compile(source, built.folder / "stranger")


@pytest.mark.parametrize("beside", [False, True], ids=["simulated", "beside a driver"])
@pytest.mark.parametrize("rule", ["none", "R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10"])
def test_the_report_names_the_rule_for_foreign_code(built, stranger, tmp_path, rule, beside):
    """`cai-race ./program` names what was broken, in text and as JSON, on the simulator and beside another driver."""
    report = tmp_path / "report.json"
    options = ["--print=exit", f"--report={report}"]
    if beside:
        # Another instance of the simulator takes the place of a real driver.
        shutil.copy(f"{libdir()}/libcuda.so.1", tmp_path / "libcuda.so.1")
        options.append(f"--shadow={tmp_path / 'libcuda.so.1'}")
    done = run(SIM / "bin/cai-race", *options, "--", stranger, rule, check=False, env={"CUDASIM_RACES": "off"} if beside else {})
    found = json.loads(report.read_text().splitlines()[0])
    rules = {race["rule"] for race in found["races"]}
    assert done.returncode == (0 if rule in ("none", "R9") else 66), output_of(done)
    assert rule in rules or rule == "none", output_of(done)
    assert all(race["missing"] and race["second"]["stack"] for race in found["races"])
    assert "cai-race: 1 exports" in done.stderr
    assert (rule == "none") == (f"cai-race: {rule} " not in done.stderr), output_of(done)
    if rule == "none":
        assert found["races"] == []


# --- sanitizers -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def instrumented(built):
    """The programs with AddressSanitizer, and the library's Rust with it too; the driver as it is."""
    triple = f"{os.uname().machine}-unknown-linux-gnu"
    command = ["cargo", "rustc", "-q", "--lib", "--crate-type", "staticlib", "--target", triple]
    run(*command, "--target-dir", ROOT / "target/asan", cwd=ROOT, timeout=600,
        env={"RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": "-Zsanitizer=address"})  # fmt: skip
    for name in PROGRAMS:
        run(
            "gcc", "-std=gnu11", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined",
            "-isystem", SITE / "nvidia/cu13/include", "-I", ROOT / "include", "-I", SIM / "include",
            TESTS / f"{name}.c", ROOT / f"target/asan/{triple}/debug/libcai.a", "-o", built.folder / f"{name}-asan",
            "-L", built.driver, "-lcuda", "-lpthread", "-ldl", "-lm",
        )  # fmt: skip
    return built


@pytest.mark.parametrize("schedule", ["lazy", "threads"])
def test_address_sanitizer(instrumented, schedule):
    def one(program, case):
        command = [instrumented.folder / f"{program}-asan", case]
        done = run(*command, check=False, env=instrumented.environment(schedule), timeout=300)
        assert done.returncode == 0 and "Sanitizer" not in done.stderr, f"{case}: {output_of(done)}"

    everywhere(one, [(program, case) for program in PROGRAMS for case in instrumented.cases(program)])


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_valgrind(built):
    command = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"]
    for program in PROGRAMS:
        cases = built.cases(program)
        for case, (status, output) in zip(cases, built.each(program, cases, *command)):
            assert status == 0, f"{case}: {output}"


@pytest.mark.parametrize("stream", "012")
def test_a_consumer_whose_end_fails(built, stream):
    if not (built.folder / "consumer").exists():
        built.compile(TESTS / "consumer.cpp", built.folder / "consumer")
    for schedule in SCHEDULES:
        built.run("consumer", stream, schedule=schedule, SHIM="cuEventRecord:1:400")


def test_stack(built):
    """Functions and the release thread need no more stack than docs/src/ffi.md states, which is nothing for functions
    that call Python."""
    needed = {name: int(size) for name, size in (line.split() for line in built.run("stack").stdout.splitlines())}
    functions = (ROOT / "abi/symbols.txt").read_text().split()
    assert set(needed) == {name for name in functions if "python" not in name} | {"thread"}
    assert needed["thread"] <= 16 << 10 and max(needed.values()) <= 64 << 10, needed
