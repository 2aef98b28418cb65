"""`cuda-sim run --report=FILE`: JSON, JUnit XML and SARIF of the same runs."""

import html.parser
import json
import re
import sys
import xml.etree.ElementTree

import pytest

from commands import PLUGIN, PROGRAM, compile_program, compile_text, run, sim

RACE = """
static int fill(CUdeviceptr p, CUstream s) { return (int)cuMemsetD8Async(p, 1, 64, s); } /* line 2 */
static int read_back(void *to, CUdeviceptr p, CUstream s) { return (int)cuMemcpyDtoHAsync(to, p, 64, s); }
int main(int argc, char **argv) {
    CUcontext context; CUstream a, b; CUdeviceptr p; char host[64]; CUarray array; CUDA_ARRAY_DESCRIPTOR d = {0};
    (void)argv;
    OK(cuInit(0)); OK(cuDevicePrimaryCtxRetain(&context, 0)); OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&a, 1)); OK(cuStreamCreate(&b, 1)); OK(cuMemAlloc(&p, 64));
    OK(fill(p, a));
    if (argc == 1) OK(read_back(host, p, b));
    (void)cuArrayCreate(&array, &d);
    for (int i = 2; i < argc; ++i) OK(cuMemAlloc(&p, 64) || fill(p, a) || read_back(host, p, b));
    OK(cuStreamSynchronize(a)); OK(cuStreamSynchronize(b));
    return 7;
}
"""
# Members that the specification of SARIF 2.1.0 requires, by the kind of object.
REQUIRED = {"log": {"version", "runs"}, "run": {"tool"}, "driver": {"name"}, "result": {"message"}, "stack": {"frames"}}


@pytest.fixture(scope="module")
def racy(driver, tmp_path_factory):  # noqa: F811
    folder = tmp_path_factory.mktemp("a project & more")
    return compile_text(driver, folder / "race", RACE, flags=["-fno-inline"])


def reports(program, *arguments, options=()):
    """Returns the reports of a run in the folder of the program."""
    folder = program.parent
    names = [f"report.{end}" for end in ("json", "xml", "sarif")]
    done = sim(*(f"--report={name}" for name in names), *options, "--", *arguments, check=False, cwd=folder)
    lines = [json.loads(line) for line in (folder / names[0]).read_text().splitlines()]
    suites = xml.etree.ElementTree.parse(folder / names[1]).getroot()
    return done, lines, suites, json.loads((folder / names[2]).read_text())


def test_the_same_in_all(racy):
    done, (line,), suites, log = reports(racy, racy)
    assert done.returncode == 66 and line["count"] == 1 and line["missing"] == {"cuArrayCreate_v2": 1}
    first, second = line["races"][0]["first"], line["races"][0]["second"]
    assert first["frames"][0] == {"function": "fill", "file": str(racy.parent / "race.c"), "line": 2}
    assert [frame["function"] for frame in second["frames"]] == ["read_back", "main"]

    case = suites.find("testsuite/testcase")
    assert suites.get("failures") == suites.find("testsuite").get("tests") == "1"
    assert (case.get("file"), case.get("line")) == ("race.c", "3")
    assert case.get("classname") == line["program"] == racy.name
    assert case.get("name") == "race: cuMemsetD8Async at race.c:2 and cuMemcpyDtoHAsync at race.c:3"
    assert "cuEventRecord" in case.find("failure").get("message") and "fill " in case.find("failure").text
    assert "cuArrayCreate_v2 is not simulated" in case.find("system-out").text

    (result,) = log["runs"][0]["results"]
    assert result["ruleId"] == log["runs"][0]["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "race"
    place = result["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "race.c", "uriBaseId": "SRCROOT"}, "region": {"startLine": 3}}
    assert result["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 2
    assert [len(stack["frames"]) for stack in result["stacks"]] == [2, 2]
    base = log["runs"][0]["originalUriBaseIds"]["SRCROOT"]["uri"]
    assert base.startswith("file:///") and base.endswith("/") and " " not in base
    # The same places in another process have the same fingerprint.
    again = reports(racy, racy, options=["--schedule=eager"])[3]["runs"][0]["results"][0]
    assert again["partialFingerprints"] == result["partialFingerprints"]


def test_required_members(racy):
    log = reports(racy, racy)[3]
    assert log["version"] == "2.1.0" and REQUIRED["log"] <= set(log)
    for run_ in log["runs"]:
        assert REQUIRED["run"] <= set(run_) and REQUIRED["driver"] <= set(run_["tool"]["driver"])
        for result in run_["results"]:
            assert REQUIRED["result"] <= set(result) and "text" in result["message"]
            assert result["level"] in ("none", "note", "warning", "error")
            for stack in result["stacks"]:
                assert REQUIRED["stack"] <= set(stack)
            for location in [*result["locations"], *result["relatedLocations"]]:
                assert location["physicalLocation"]["region"]["startLine"] >= 1


def test_without_races(racy):
    done, (line,), suites, log = reports(racy, racy, "correct")
    assert done.returncode == 7 and line["count"] == 0
    assert suites.get("tests") == "1" and suites.get("failures") == "0"
    assert suites.find("testsuite/testcase").get("classname") == racy.name
    assert log["runs"][0]["results"] == []
    # A program that does not use the driver.
    done, lines, suites, log = reports(racy, "true")
    assert done.returncode == 0 and lines == [] and suites.get("tests") == "0" and log["runs"][0]["results"] == []


def test_more_ranges_of_the_same_calls(racy):
    """They are counted, also if they are found after the race was printed."""
    done, (line,), _, _ = reports(racy, racy, "loop", *"1234")
    assert line["count"] == 1 and line["races"][0]["more_ranges"] == 3
    assert done.returncode == 66 and ", and on 3 more ranges\n" in done.stderr
    done, (line,), _, _ = reports(racy, racy, "loop", *"1234", options=["--print=now"])
    assert line["races"][0]["more_ranges"] == 3 and ", and on " not in done.stderr
    assert re.search(r"\ncuda-sim: the race on 64 bytes at 0x\w+ was found on 3 more ranges\n", done.stderr), done.stderr


def test_several_processes(racy):
    done, lines, suites, log = reports(racy, "sh", "-c", '"$1" & "$1"; wait; "$1" correct', "sh", racy)
    assert done.returncode == 7 and sorted(line["count"] for line in lines) == [0, 1, 1]
    assert (suites.get("tests"), suites.get("failures")) == ("3", "2") and len(log["runs"][0]["results"]) == 2


def test_a_remark_is_no_failure(driver, tmp_path):
    """R9: the host waits, where an event would do."""
    notify = """
    cudasim_cai_note note = {.struct_size = sizeof note, .owner = &note, .stream = (uint64_t)a, .consumer = ~0ull};
    note.bytes = (cudasim_access){.address = p, .nbytes = 64, .mode = CUDASIM_READ};
    note.kind = CUDASIM_CAI_EXPORT; cudasim_cai(&note);
    OK(cuStreamSynchronize(a));
    note.kind = CUDASIM_CAI_SYNCHRONIZE; cudasim_cai(&note);"""
    program = compile_text(driver, tmp_path / "race", RACE.replace("OK(fill(p, a));", "OK(fill(p, a));" + notify))
    done, (line,), suites, log = reports(program, program, "correct", options=["--rules=strict"])
    assert done.returncode == 7 and line["count"] == 0, done.stderr
    case = suites.find("testsuite/testcase")
    assert suites.get("failures") == "0" and case.get("name").startswith("R9: ") and case.find("system-out") is not None
    (result,) = log["runs"][0]["results"]
    assert result["level"] == "note" and log["runs"][0]["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "R9"


UNORDERED = """
static void begin(cudasim_cai_note *note, unsigned flags, int status) {
    note->kind = CUDASIM_CAI_BEGIN; note->flags = flags; note->status = status; cudasim_cai(note); /* line 3 */
}
"""


@pytest.mark.parametrize("how", ["", "early"])
def test_exchanges_that_were_not_ordered(driver, tmp_path, how):
    """They are counted, with the place of the first, and are no fault. Refused ones and others do not count."""
    notes = """
    cudasim_cai_note note = {.struct_size = sizeof note, .owner = &note, .stream = ~0ull - 1, .consumer = (uint64_t)b};
    note.bytes = (cudasim_access){.address = p, .nbytes = 64, .mode = CUDASIM_READ};
    begin(&note, 0, 0); begin(&note, CUDASIM_CAI_UNORDERED, 220);
    begin(&note, CUDASIM_CAI_UNORDERED | CUDASIM_CAI_READONLY, 0);
    if (argc > 2) _exit(7);
    begin(&note, CUDASIM_CAI_UNORDERED, 0);"""
    source = RACE.replace("OK(fill(p, a));", "OK(fill(p, a));" + notes.replace("\n", " "), 1)
    program = compile_text(driver, tmp_path / "race", UNORDERED + source, flags=["-fno-inline"])
    done, (line,), suites, log = reports(program, program, "correct", *how.split(), options=["--report=report.html"])
    count = 1 if how else 2
    assert done.returncode == 7 and line["count"] == 0 and log["runs"][0]["results"] == [], done.stderr
    assert line["unordered"]["count"] == count and line["unordered"]["first"]["frames"][1]["line"] == 3
    assert line["unordered"]["first"]["label"] == "cai_array_consume_begin" and line["unordered"]["first"]["mode"] == "read"
    words = "1 exchange with an unknown stream was" if how else "2 exchanges with an unknown stream were"
    words += " not ordered; the first: cai_array_consume_begin"
    assert suites.get("failures") == "0"
    for text in (suites.find("testsuite/testcase/system-out").text, (tmp_path / "report.html").read_text()):
        assert f"{words} at race.c:3" in text
    assert (f"cai-race: {words}, by host thread" in done.stderr) == (not how)
    assert "unordered" not in reports(program, "true", "correct")[0].stderr


def test_a_file_that_cannot_be_written(tmp_path):
    done = sim(f"--report={tmp_path}/none/report.xml", "--", "true", check=False)
    assert done.returncode == 2 and "none/report.xml" in done.stderr
    assert not list(tmp_path.iterdir())


def test_hostile_names(driver, tmp_path):
    """Of labels, streams, kernels, files and programs: nothing that XML cannot contain, or a terminal acts on."""
    hostile = r"<&]]>\"\001\033[2J\n\r\177\302\233\342\200\256\342\201\246\377"
    before = f"""
        CUmodule module; CUfunction function;
        cudasim_name_stream(b, "b{hostile}"); OK(cuModuleLoadData(&module, ""));
        (void)cuModuleGetFunction(&function, module, "c{hostile}");
        cudasim_label("a{hostile}"); OK(fill(p, a));"""
    source = RACE.replace("OK(fill(p, a));", before.replace("\n", " "))
    folder = tmp_path / "d\x1b[2J\n\u202e"
    folder.mkdir()
    (folder / "race.c").write_text(source)
    program = compile_program(driver, folder / "e\x1b\n\u202e", [folder / "race.c"], flags=[*PROGRAM, "-Wno-bidi-chars"])
    done, (line,), suites, log = reports(program, program)
    escaped = '<&]]>"' + r"\u{1}\u{1b}[2J\n\r\u{7f}\u{9b}\u{202e}\u{2066}\xff"
    assert "a" + escaped in suites.find("testsuite/testcase").get("name")
    assert "a" + escaped in log["runs"][0]["results"][0]["message"]["text"]
    assert "b" + escaped in line["races"][0]["second"]["actor"] and line["kernels"] == ["c" + escaped]
    page_ = folder / "page.html"
    sim(f"--report={page_}", "--", program, check=False)
    missing = sim("--missing", "--", program, check=False)
    absent = sim("--", folder / "f\x1b\n", check=False)
    texts = [done.stdout, done.stderr, missing.stdout, missing.stderr, absent.stderr, page_.read_text()]
    texts += [path.read_text() for path in folder.glob("report.*")]
    for text in texts:
        assert text.replace("\n", "").isprintable(), ascii(text)
    assert len(absent.stderr.splitlines()) == 1


def test_tests_are_named(tmp_path):
    """Reports of a run of pytest name the tests, also for processes that tests started."""
    from test_cuda_sim_pytest import DRIVER

    (tmp_path / "world.py").write_text(DRIVER)
    (tmp_path / "test_it.py").write_text("from world import *\ndef test_own(): race()\ndef test_child(): child()\ndef test_fine(): pass")
    words = [sys.executable, "-m", "pytest", "-p", "cuda_sim.pytest_plugin", "-p", "no:cacheprovider", "--cuda-sim"]
    for more in ([], ["-n", "2"]):
        # This process may be a worker of pytest-xdist itself.
        environment = {"PYTHONPATH": f"{PLUGIN}:{tmp_path}", "PYTEST_ADDOPTS": ""}
        done = run(*words, "--report=a.xml", "--report=a.sarif", *more, check=False, cwd=tmp_path, env=environment)
        assert done.returncode == 1, done.stdout + done.stderr
        cases = xml.etree.ElementTree.parse(tmp_path / "a.xml").getroot().iter("testcase")
        failed = {case.get("classname") for case in cases if case.find("failure") is not None}
        assert failed == {"test_it.py::test_own", "test_it.py::test_child"}
        results = json.loads((tmp_path / "a.sarif").read_text())["runs"][0]["results"]
        assert {result["properties"]["test"] for result in results} == failed


class Page(html.parser.HTMLParser):
    """Checks that elements are closed in the right order, and that nothing is loaded. Collects texts by class."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts = [], {}
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        assert not {"src", "href"} & set(attributes) and tag not in ("script", "link", "iframe")
        if tag != "meta":
            self.open.append((tag, attributes.get("class", "")))

    def handle_endtag(self, tag):
        assert self.open and self.open.pop()[0] == tag

    def handle_data(self, data):
        for kind in {name for _, names in self.open for name in names.split()}:
            self.texts[kind] = self.texts.get(kind, "") + data


EARLY = """
    CUevent e;
    OK(cuEventCreate(&e, 2)); OK(fill(p, a)); OK(cuEventRecord(e, a)); OK(fill(p, a)); OK(cuStreamWaitEvent(b, e, 0));"""


def page(program, *options, arguments=()):
    done = sim("--report=page.html", *options, "--", program, *arguments, check=False, cwd=program.parent)
    text = (program.parent / "page.html").read_text()
    assert "url(" not in text and "@import" not in text
    return done, Page(text), text


@pytest.mark.parametrize("schedule", ["lazy", "threads"])
def test_page(driver, tmp_path, schedule):
    """The timeline has both accesses, a wait for an earlier moment, and the one that is missing."""
    program = compile_text(driver, tmp_path / "race", RACE.replace("OK(fill(p, a));", EARLY), flags=["-fno-inline"])
    done, found, text = page(program, f"--schedule={schedule}")
    assert done.returncode == 66
    assert "first: write cuMemsetD8Async" in found.texts["first"] and "second: read" in found.texts["second"]
    assert "for what came before the first access" in found.texts["early"]
    assert "waits for the first access" in found.texts["missing"]
    assert "host thread 1" in found.texts["name"] and found.texts["name"].count("stream") == 2
    assert "race.c:3" in found.texts["two"] and "prefers-color-scheme: dark" in text and 'name="viewport"' in text
    _, found, _ = page(program, arguments=["correct"])
    assert "cuMemsetD8Async" in found.texts["lane"] and "waits for" in found.texts["order"]
    assert not {"missing", "first", "second"} & set(found.texts)


def test_the_page_is_bounded(driver, tmp_path):
    """Between two accesses that are far apart, operations are counted and not drawn."""
    many = "CUdeviceptr q; OK(cuMemAlloc(&q, 64)); OK(fill(p, a)); for (int i = 0; i < %d; ++i) OK(fill(q, a));"
    for count, expected in ((200, "skipped"), (5000, "is older than what is kept")):
        program = compile_text(driver, tmp_path / "race", RACE.replace("OK(fill(p, a));", many % count))
        _, found, text = page(program)
        assert expected in text and text.count('class="call"') < 60, text
