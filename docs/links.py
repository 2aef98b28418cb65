"""What each entry of the reference leads to: the first version that has it, examples, and the rules that it implements.

All are found in the tree: versions in abi/symbols.txt and docs/since.txt, examples by their calls, in the guides first, and
rules by the statuses that a comment lists, by the rows of the specification that name a function, and by the sections of
the guides that do.
"""

import collections
import functools
import pathlib
import re

import reference

ROOT = pathlib.Path(__file__).resolve().parents[1]
BOOK = ROOT / "docs/src"
SIM = ROOT / "cuda-sim"
FENCE = re.compile(r"(^ *(?:```+|~~~+).*?^ *(?:```+|~~~+) *$)", re.M | re.S)
SPECIFICATION = BOOK / "specification.md"
EXAMPLES = ("examples-c", "contrib/examples", "examples-py", "examples-rs", "interop/languages", "cuda-sim/examples")
# Not where a rule is stated: summaries, and lists of all names.
NOT_GUIDES = {"README.md", "performance.md", "packaging.md"}
# Titles in the specification of the CUDA Array Interface, which the comments name as sources, and what states them here.
SOURCES = {
    "Interface Requirements": "specification.md#streams",
    "Lifetime management": "specification.md#owners",
    "Pointer Attributes": "specification.md#data-and-device",
    "Python Interface Specification": "python.md#dictionaries",
    "Streams": "specification.md#streams",
    "Synchronization": "specification.md#streams",
    "The array interface protocol": "specification.md#types",
    "The Arrow C Device data interface": "elsewhere.md#arrow",
}
# Of functions that no section names and whose comment lists no status of a rule, by header or by name.
DEFAULTS = {
    "abi": "ownership.md#references",
    "array": "specification.md#owners",
    "cudasim": "../../cuda-sim/docs/using.md#declare-kernels",
    "driver": "specification.md#data-and-device",
    "dtype": "dtypes.md#fields",
    "dlpack": "protocols.md#dlpack-in-c",
    "ipc": "elsewhere.md#between-processes-ipc",
    "many": "streams.md#begin-and-end",
    "mpi": "elsewhere.md#mpi",
    "mpi_check": "elsewhere.md#mpi",
    "mpi_types": "elsewhere.md#mpi",
    "nccl": "elsewhere.md#nccl",
    "python": "python.md#import-options",
    "status": "errors.md#",
    "sync": "streams.md#overrides",
    "torch": "elsewhere.md#pytorch-tvm-ffi-and-xla-in-c",
    "view": "python.md#views",
    "tvm_ffi": "elsewhere.md#pytorch-tvm-ffi-and-xla-in-c",
    "xla_ffi": "elsewhere.md#pytorch-tvm-ffi-and-xla-in-c",
    "cudasim_label": "../../cuda-sim/docs/reference.md#reports",
    "cudasim_name_stream": "../../cuda-sim/docs/reference.md#reports",
    "cudasim_races": "../../cuda-sim/docs/reference.md#reports",
    "cudasim_step": "../../cuda-sim/docs/reference.md#schedules",
    "cudasim_synchronize": "../../cuda-sim/docs/reference.md#schedules",
    "cudasim_take_json": "../../cuda-sim/docs/reference.md#reports",
    "cudasim_take_report": "../../cuda-sim/docs/reference.md#reports",
    "libcai": "commands.md#python--m-libcai",
}


def pages():
    """The title of each page of the site in the navigation, in its order."""
    listed = re.findall(r"(?m)^- \[([^\]]*)\]\(([^)#]+)\)", (BOOK / "index.md").read_text())
    found = {(BOOK / page).resolve(): title for title, page in listed}
    return {page: title for page, title in found.items() if page.exists()}


def headers():
    """Those of the library, then the unstable ones, then that of the simulator."""
    library = [*(ROOT / "include/cai").glob("*.h"), *(ROOT / "contrib/include/cai").glob("*.h")]
    unstable = sorted((ROOT / "include/cai/unstable").glob("*.h"))
    return [*sorted(library, key=lambda path: path.name), *unstable, *SIM.glob("include/cudasim.h")]


def slug(title):
    """The anchor of a heading."""
    title = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title)
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


Section = collections.namedtuple("Section", "title anchor prose code")


def sections(page):
    """The sections of a page. The anchor of the first is empty."""
    title, anchor, prose, code = "", "", [], []
    for number, part in enumerate(FENCE.split(page.read_text())):
        if number % 2:
            code.append(part)
            continue
        for line in part.splitlines():
            heading = re.match(r"(#+) (.*)", line)
            if heading:
                if prose or code:
                    yield Section(title, anchor, "\n".join(prose), "\n".join(code))
                title, anchor = heading[2], "" if len(heading[1]) == 1 else slug(heading[2])
                prose, code = [], []
            prose.append(line)
    yield Section(title, anchor, "\n".join(prose), "\n".join(code))


def programs():
    found = (path for top in EXAMPLES for path in (ROOT / top).rglob("*.*"))
    suffixes = (".c", ".cpp", ".cu", ".go", ".lua", ".pyx", ".rs", ".py", ".txt", ".zig")
    return sorted(path for path in found if path.suffix in suffixes and "target" not in path.parts)


def versions():
    """The first version with each function."""
    found = {}
    for row in map(str.split, (ROOT / "abi/symbols.txt").read_text().splitlines()):
        if row[0] != "#":
            found[row[0]] = f"ABI {row[2]}"
    for line in (ROOT / "docs/since.txt").read_text().splitlines():
        if line[:1] not in ("", "#"):
            name, version = line.split()
            found[name] = f"{'cuda-sim' if name.startswith('cudasim_') else 'libcai'} {version}"
    return found


class Links:
    """Links are pairs of a text and a target: a file, or a file and an anchor."""

    def __init__(self, headers):
        """`headers`: the text of each header, by its path."""
        self.headers = headers
        self.comments = {item.name: item.doc for text in headers.values() for item in reference.items(text)}
        self.versions = versions()
        self.titles = pages()
        self.sections = {page: list(sections(page)) for page in self.titles}
        self.programs = {path: path.read_text() for path in programs()}
        # What the rows of the specification name: statuses and functions, with the section and the number of the rule.
        self.named = collections.defaultdict(set)
        for section in self.sections[SPECIFICATION]:
            for rule, row in re.findall(r"(?m)^\| ([A-Z]\d+)\*? \| (.*)", section.prose):
                for name in re.findall(r"CAI_ERR_\w+|\bcai_\w+", row):
                    self.named[name].add((section.anchor, rule))

    def link(self, page, section):
        title = self.titles[page]
        return (f"{title}: {section.title}", f"{page}#{section.anchor}") if section.anchor else (title, str(page))

    def since(self, name):
        return self.versions.get(name)

    def first(self, page, name, part, names):
        """The first section of a page whose prose or code has a name, as a link."""
        found = (section for section in self.sections[page] if name in names(getattr(section, part)))
        return [self.link(page, section) for section in found][:1]

    def examples(self, name, stem, calls=True):
        """At most three that use a name, or call it: in the guides, at the top of headers, in programs. Functions of the
        Python package are also commands."""
        names = called if calls else words
        guides = [link for page in self.sections for link in self.first(page, name, "code", names)]
        tops = [(f"the top of {path.name}", str(path)) for path, text in self.headers.items() if name in names(program(text))]
        files = [(str(path.relative_to(ROOT)), str(path)) for path, text in self.programs.items() if name in names(text)]
        tops.sort(key=lambda link: pathlib.Path(link[1]).stem != stem)
        return [*guides[:2], *tops[:1], *files][:3]

    def numbers(self, name):
        """The numbers of the rules that name a function, or a status that it returns; otherwise those of the functions
        whose statuses it returns."""
        parts = self.comments.get(name, "").split("\n\n")
        returned = " ".join(part for part in parts if part.startswith("Returns") or part.count("CAI_ERR_") > 2)
        names = [name, *re.findall(r"CAI_ERR_\w+", returned)]
        found = {rule for key in names if key in self.named for rule in self.named[key]}
        others = [other for other in re.findall(r"`(cai_\w+)`", returned) if other != name]
        return found or {rule for other in others if other in self.comments for rule in self.numbers(other)}

    def rules(self, name, stem):
        """Sections of the specification with the numbers of their rules; then sections of the guides that name it."""
        shared = re.fullmatch(r"See `(\w+)`\.", self.comments.get(name, ""))
        name = shared[1] if shared else name
        rules, found = self.numbers(name), []
        for section in self.sections[SPECIFICATION]:
            numbers = sorted((rule for anchor, rule in rules if anchor == section.anchor), key=lambda rule: int(rule[1:]))
            if numbers:
                found.append((f"{section.title} ({', '.join(numbers)})", f"{SPECIFICATION}#{section.anchor}"))
        guides = [page for page in self.sections if page.name not in NOT_GUIDES and page != SPECIFICATION]
        found += [link for page in guides for link in self.first(page, name, "prose", quoted)][:2]
        if not found and (name in DEFAULTS or stem in DEFAULTS):
            found.append(self.target(DEFAULTS.get(name) or DEFAULTS[stem]))
        return found

    def target(self, place):
        page, _, anchor = place.partition("#")
        page = (BOOK / page).resolve()
        return self.link(page, next(section for section in self.sections[page] if section.anchor == anchor))

    def with_sources(self, doc, link):
        """A comment in which the titles that it names as sources are links: `link(target, text)`."""
        before, source, after = doc.partition("Source: ")
        for title, place in SOURCES.items():
            quoted = re.compile(r"\s+".join(map(re.escape, f'"{title}"'.split())))
            after = quoted.sub(lambda match: link(self.target(place)[1], match[0]), after)
        return before + source + after


@functools.cache
def called(text):
    """The names of the functions that a text calls; `libcai.inspect` also for `python -m libcai inspect`."""
    commands = {f"libcai.{name}" for name in re.findall(r"-m libcai (?:--)?(\w+)", text)}
    return commands | set(re.findall(r"(?:\blibcai\.)?\b\w+(?=\s*\()", text))


@functools.cache
def words(text):
    return set(re.findall(r"\w+", text))


@functools.cache
def quoted(text):
    return set(re.findall(r"`((?:libcai\.)?\w+)", text))


@functools.cache
def program(header):
    """The program in a header's first comment."""
    return "\n".join(re.findall(r"(?m)^ \*     (.*)", header.partition("*/")[0]))
