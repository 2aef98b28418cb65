"""Streams: which cases test which sentence of the specification, what the race checker reports of foreign code, and how
much stack functions need. tests/programs runs the programs of capi-tests/sync."""

import json
import re
import shutil

import pytest

import abi_symbols
from commands import ROOT, SIM, TESTS, output_of, run

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
        assert [rule for rule in rules.split() if not re.search(rf"^\| {rule}\*? \|", page, re.M)] == [], sentence


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
        shutil.copy(f"{built.driver}/libcuda.so.1", tmp_path / "libcuda.so.1")
        options.append(f"--shadow={tmp_path / 'libcuda.so.1'}")
    done = run(SIM / "bin/cai-race", *options, "--", stranger, rule, check=False, env={"CUDASIM_RACES": "off"} if beside else {})
    found = json.loads(report.read_text().splitlines()[0])
    rules = {race["rule"] for race in found["races"]}
    assert done.returncode == (0 if rule in ("none", "R9") else 66), output_of(done)
    assert rule in rules or rule == "none", output_of(done)
    assert all(race["missing"] and race["second"]["stack"] for race in found["races"])
    assert "cai-race: 1 export, " in done.stderr
    assert (rule == "none") == (f"cai-race: {rule} " not in done.stderr), output_of(done)
    if rule == "none":
        assert found["races"] == []


UNKNOWN = """
#include "sync_test.h"
static int64_t none[1] = {0};
static CUstream consumer;
static cai_status begin(const cai_array *array, uint32_t flags) {
    return cai_array_consume_begin(array, as_value(consumer), CAI_ACCESS_READ | flags, NULL);
}
int main(void) {
    cai_array array, other, mask;
    CUevent event;
    set_up();
    consumer = new_stream();
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CU(cuEventRecord(event, new_stream()));
    array = array_of(new_buffer(), CAI_STREAM_UNKNOWN);
    if (begin(&array, CAI_SYNC_IGNORE) || begin(&array, CAI_SYNC_CONSERVATIVE)) return 1;
    if (begin(&array, 0x4000) == CAI_OK) return 1;
    if (begin(&array, 0)) return 1; /* counts */
    if (cai_array_consume_end(&array, as_value(consumer), CAI_ACCESS_READ, NULL)) return 1;
    if (cai_array_synchronize(&array, CAI_ACCESS_READ, NULL)) return 1;
    mask = array;
    memcpy(mask.typestr, "|u1", 4);
    other = array, other.event = event;
    if (begin(&other, 0)) return 1;
    other = array, other.ndim = 1, other.shape = none, other.data = NULL;
    if (begin(&other, 0)) return 1;
    other = array, other.device.type = CAI_DEVICE_CPU;
    if (begin(&other, 0)) return 1;
    other = array, other.stream = CAI_STREAM_NONE;
    if (begin(&other, 0)) return 1;
    other.mask = &mask;
    if (begin(&other, 0)) return 1; /* counts: the mask */
    if (cai_sync_policy_set(CAI_SYNC_CONSERVATIVE, NULL) || begin(&array, 0)) return 1;
    return 0;
}
"""


def test_the_report_counts_unknown_streams(built, tmp_path):
    """Begins that ordered nothing, and of which the consumer did not decide that: two of them. They are no faults."""
    source, report = built.folder / "unknown.c", tmp_path / "report.json"
    source.write_text(UNKNOWN)
    done = run(SIM / "bin/cuda-sim", "run", f"--report={report}", "--", built.compile(source, built.folder / "unknown"), check=False)
    (found,) = map(json.loads, report.read_text().splitlines())
    assert done.returncode == 0 and found["races"] == [], output_of(done)
    assert found["unordered"]["count"] == 2 and "begin" in str(found["unordered"]["first"]["frames"])
    assert "cai-race: 2 exchanges with an unknown stream were not ordered; the first: cai_array_consume_begin" in done.stderr


# --- stack -----------------------------------------------------------------------------------------------------------


def test_stack(built):
    """Functions and the release thread need no more stack than docs/src/languages.md states, which is nothing for functions
    that call Python."""
    needed = {name: int(size) for name, size in (line.split() for line in built.run("stack").stdout.splitlines())}
    functions = abi_symbols.NAMES
    assert set(needed) == {name for name in functions if "python" not in name} | {"thread"}
    assert needed["thread"] <= 16 << 10 and max(needed.values()) <= 64 << 10, needed
