"""What the README and the book say: whole programs in them compile, links lead somewhere, every page is listed, the book is
short, and the figures' table has the rows that the bench prints."""

import ast
import os
import pathlib
import re
import subprocess
import sys

import pytest
from commands import CUDA, PYTHON, ROOT, SITE, compile, run

sys.path.append(str(ROOT / "docs"))
import links  # noqa: E402
import reference  # noqa: E402

BOOK = ROOT / "docs/src"
FRONT = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
SIM = ROOT / "cuda-sim"
ADAPTERS = ROOT / "contrib"
PAGES = [*(ROOT / name for name in FRONT), *sorted(BOOK.glob("*.md")), *sorted(ADAPTERS.rglob("*.md"))]
# The pages of the site, by their addresses, and what is made in them, which nobody reads from top to bottom. Two lists that
# cuda-sim makes are beside the site.
LISTS = ("driver_rules", "entry_points")
ON_SITE = {
    "start": ROOT / "README.md",
    **{page.stem: page for page in BOOK.glob("*.md")},
    **{f"cuda-sim/{page.stem}": page for page in (SIM / "docs").glob("*.md") if page.stem not in LISTS},
}
MADE = re.compile(r"<!-- (figures|table): .*?<!-- end of .*? -->", re.S)
FENCE = re.compile(r"^```.*?^```", re.S | re.M)


def words(page):
    return len(MADE.sub("", page.read_text()).split())


def anchors(page):
    """Those of a page's headings, as Sphinx and code hosts make them; not of those that `make docs` adds."""
    titles = re.findall(r"^#+ (.*)", FENCE.sub("", page.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title).lower()).replace(" ", "-") for title in titles}


def programs():
    """Blocks of C and C++ that include the headers, and so claim to be whole."""
    for page in PAGES:
        for language, text in re.findall(r"```(c|cpp)\n(.*?)```", page.read_text(), re.S):
            # Those with a framework, MPI, mdspan or HIP are compiled beside it.
            if re.search(r"#include <(cai/(torch|tvm_ffi|xla_ffi|mdspan|mpi)|nccl|hip/\w+)\.h", text):
                continue
            if "#include <cai/" in text:
                yield pytest.param(language, text, id=f"{page.stem}-{language}")


@pytest.mark.parametrize("language, text", list(programs()))
def test_programs_compile(tmp_path, language, text):
    source = tmp_path / f"program.{language}"
    source.write_text(text)
    flags = ["-std=c99"] if language == "c" else ["-Wno-unused-but-set-variable"]
    if re.search(r"#include <(Python\.h|cai/(pybind11|nanobind)\.hpp)>", text):
        if not (PYTHON / "Python.h").exists():
            pytest.skip("Python's headers are not installed")
        for folder in (PYTHON, SITE / "pybind11/include", SITE / "nanobind/include"):
            flags += ["-isystem", folder]
    compile(source, tmp_path / "program.o", "-c", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", *flags, "-isystem", CUDA)


@pytest.mark.parametrize("page", ["specification"])
def test_the_first_program_runs(tmp_path, page):
    """It prints the page's first block of text, but for addresses. Pages with commands run in test_pages.py."""
    text = (BOOK / f"{page}.md").read_text()
    source = tmp_path / "program.c"
    source.write_text(re.search(r"```c\n(.*?)```", text, re.S)[1])
    done = run(compile(source, tmp_path / "program", "-std=c99"))
    shown = re.search(r"```text\n(.*?)```", text, re.S)[1]
    assert re.sub(r"\d{5,}", "ADDRESS", done.stdout) == re.sub(r"\d{5,}", "ADDRESS", shown)


def test_there_are_programs():
    assert len(list(programs())) >= 4


def is_there(path):
    """cuda-sim may lie elsewhere."""
    path = pathlib.Path(os.path.normpath(path))
    return path.exists() or SIM in path.parents and not SIM.exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links(page):
    for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", FENCE.sub("", page.read_text())):
        assert "://" in target or is_there(page.parent / target), target
        to = pathlib.Path(os.path.normpath(page.parent / target)) if target else page
        if anchor and to.suffix == ".md" and to.exists() and to.stem not in ("c", "dtypes", "errors"):
            assert anchor in anchors(to), f"{target}#{anchor}"
    for file in re.findall(r"`((?:capi-tests|contrib|interop|tests|src|examples-c|examples-py|abi|cuda-sim)/[\w./-]+)`", page.read_text()):
        assert is_there(ROOT / file) or is_there(page.parent / file), file


def test_every_page_is_listed():
    listed = re.findall(r"^- \[.*?\]\((\S+\.md)\)", (BOOK / "index.md").read_text(), re.M)
    expected = [os.path.relpath(page, BOOK) for page in ON_SITE.values() if page != BOOK / "index.md"]
    assert sorted(page for page in listed if is_there(BOOK / page)) == sorted(expected)


def test_the_book_is_short():
    """What is longer is not read: say each fact once, and link. A proposal to authors of other libraries is no part of it."""
    counted = {name: words(page) for name, page in ON_SITE.items() if name != "version4"}
    assert len(counted) <= 25, sorted(counted)
    assert counted["start"] <= 900 and sum(counted.values()) <= 25_000, counted


def test_former_addresses_lead_to_pages():
    lines = (ROOT / "docs/redirects.txt").read_text().splitlines()
    assert lines == sorted(lines) and len({line.split()[0] for line in lines}) == len(lines) > 10
    for line in lines:
        old, new, anchor = re.fullmatch(r"(\S+)\.html (\S+?)\.html(?:#(\S+))?", line).groups()
        assert old not in ON_SITE, line
        if SIM.exists() or not new.startswith("cuda-sim/"):
            assert new in ON_SITE and (not anchor or anchor in anchors(ON_SITE[new])), line


def test_questions_have_pages():
    """docs/queries.txt has what people type into a search box, and the page that answers it."""
    rows = [line.split("\t") for line in (ROOT / "docs/queries.txt").read_text().splitlines()]
    assert len(rows) >= 20 and len({query for query, _ in rows}) == len(rows)
    for query, page in rows:
        assert 2 <= len(query.split()) <= 6, query
        assert page.removesuffix(".html") in ON_SITE or page.startswith("cuda-sim/") and not SIM.exists(), page


@pytest.mark.parametrize("page", [*PAGES, *(SIM / "docs").glob("*.md")], ids=lambda page: page.stem)
def test_path_variables_keep_their_value(page):
    names = r"\b(LD_LIBRARY_PATH|PKG_CONFIG_PATH|CMAKE_PREFIX_PATH|PYTHONPATH|PATH)=(.*)"
    for name, value in re.findall(names, page.read_text()):
        assert f":${name}" in value, (name, value)


def test_every_status_of_the_array_has_a_rule():
    """The numbered rules and the header name the same statuses, but for those that other functions answer."""
    header = "".join((ROOT / "include/cai" / name).read_text() for name in ("abi.h", "status.h"))
    statuses = set(re.findall(r"#define (CAI_ERR_\w+) 2\d\d\b", header))
    rules = set(re.findall(r"CAI_ERR_\w+", (BOOK / "specification.md").read_text()))
    of_other_functions = {"CAI_ERR_DESCR_SYNTAX", "CAI_ERR_DESCR_NO_FIELD", "CAI_ERR_DESCR_BIT_OFFSET"}
    assert statuses - rules == of_other_functions
    assert rules <= set(re.findall(r"#define (CAI_ERR_\w+) \d\d\d\b", header))


def test_every_function_of_the_reference_has_links():
    """First version, examples and rules, which docs/links.py finds in the tree. A new inline function needs a row in
    docs/since.txt; a function that nothing calls, a call in a guide, at the top of its header or in an example."""
    found = links.Links({path: path.read_text() for path in links.headers()})
    functions = [(item.name, path.stem) for path, text in found.headers.items() for item in reference.items(text) if item.is_function]
    functions += [(f"libcai.{name}", "libcai") for name, _, _ in reference.python_functions()]
    assert len(functions) > 120
    assert [name for name, _ in functions if not found.since(name)] == []
    assert [name for name, stem in functions if not found.examples(name, stem)] == []
    assert [name for name, stem in functions if not found.rules(name, stem)] == []
    assert [name for name in found.versions if name not in dict(functions) and not name.startswith("cudasim_")] == []


def test_every_fuzz_target_has_a_row():
    page = (ROOT / "fuzz/README.md").read_text()
    targets = {path.stem for path in (ROOT / "fuzz/fuzz_targets").glob("*.rs")}
    assert targets == set(re.findall(r"^\| `(\w+)` \| .* \| [\d,]+ \|$", page, re.M))


C_ROW = r'^    \{"(.*?)",'
BENCHES = [
    ("bench/exchange.c", C_ROW, 5),
    ("bench/streams.c", C_ROW, 5),
    ("bench/channel.c", C_ROW, 5),
    ("bench/arrow.c", C_ROW, 5),
    ("rust/benches/view.rs", r'^ +\(?"((?:slice|View|ContiguousView|ArrayRef|the same of).*?)",', 10),
    ("bench/python_bench.py", r'(?:Row|call|native)\("([^"]+)"', 40),
    ("bench/python_bench.py", r'yield "(.*?)"', 8),
    ("bench/goals.txt", r" <= .* # (.*)", 5),
]


@pytest.mark.parametrize("bench, row, least", BENCHES)
def test_the_figures_are_of_this_bench(bench, row, least):
    page = (BOOK / "performance.md").read_text()
    rows = re.findall(row, (ROOT / bench).read_text(), re.M)
    assert len(rows) > least and not [name for name in rows for part in name.split(" | ") if part not in page]


@pytest.mark.parametrize("page", [BOOK / "performance.md", BOOK / "packaging.md", ROOT / "README.md"], ids=lambda page: page.stem)
def test_no_figure_is_written_by_hand(page):
    """All are between the marks where bench/run.py writes."""
    text = re.sub(r"<!-- figures: .*?<!-- end of figures -->|<!-- ns: .*?<!-- -->", "", page.read_text(), flags=re.S)
    assert re.findall(r".*\d (?:ns|µs)\b.*", text) == []


def test_the_chart_finds_its_groups_in_the_table():
    page = (BOOK / "performance.md").read_text()
    charted = re.search(r"CHARTED = \((.*?)\)", (ROOT / "docs/chart.py").read_text(), re.S)[1]
    for title in re.findall('"(.*?)"', charted):
        assert re.search(rf"^{re.escape(title)} +median ns.*\n(?:  \S.* {{2,}}[\d.,]+ .*\n){{2,}}", page, re.M), title


def test_the_time_lines_are_what_the_tool_draws(tmp_path):
    subprocess.run([sys.executable, ROOT / "tools/timelines.py", tmp_path], check=True)
    drawn = sorted(tmp_path.iterdir())
    assert len(drawn) > 4
    for picture in drawn:
        assert picture.read_text() == (BOOK / picture.name).read_text(), picture.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks(page):
    """Python and shell are as their parsers want them, and programs fit a narrow window."""
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(), re.S | re.M):
        if language != "text":
            assert [line for line in text.splitlines() if len(line) > 85] == []
        if language == "python":
            ast.parse(text)
        if language == "sh":
            subprocess.run(["bash", "-n"], input=text, text=True, check=True)
