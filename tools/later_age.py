"""Makes a later age of the library: its sources and headers with one more member in each structure that may grow.

    python tools/later_age.py FOLDER        writes FOLDER/src, FOLDER/include and what cargo needs

The rules of growth are only worth something if a library of today and one of tomorrow work together. Tomorrow's
does not exist, so it is made here: 16 more bytes in cai_array, one more operation, longer rows, lists, options and
tables. A change that the script does not find is an error: the sources have moved on, and it has to follow.
"""

import fcntl
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Name of the structure: the new member in Rust, its zero, the same member in C, and the sizes before and after.
GROWN = {
    "cai_array": ("[u64; 2]", "[0; 2]", "uint64_t later[2];", 128, 144),
    "cai_owner_ops": ("Option<unsafe extern \"C\" fn()>", "None", "void (*later)(void);", 24, 32),
    "cai_descr": ("u64", "0", "uint64_t later;", 24, 32),
    "cai_field": ("u64", "0", "uint64_t later;", 56, 64),
    "cai_import_options": ("[u64; 2]", "[0; 2]", "uint64_t later[2];", 64, 80),
    "cai_export_options": ("[u64; 2]", "[0; 2]", "uint64_t later[2];", 8, 24),
    "cai_unstable_exchange_api": ("Option<unsafe extern \"C\" fn()>", "None", "void (*later)(void);", 24, 32),
}  # fmt: skip


def grow_rust(text, used):
    for name, (kind, zero, _, before, after) in GROWN.items():
        definition = re.compile(rf"(pub struct {name} \{{\n.*?\n)\}}", re.DOTALL)
        text, count = definition.subn(rf"\1    /// Of a later age.\n    pub later: {kind},\n}}", text)
        used[name, "definition"] += count
        text = text.replace(f"layout! {{ {name}: {before}", f"layout! {{ {name}: {after}")
        # Literals that name each member; those that end in `..other` have the new one from there.
        literal = re.compile(rf"(?<!struct )(?<!for )(?<!-> )(?<!\*const )(?<!\*mut )(\b{name} \{{)((?:[^{{}}]|\{{[^{{}}]*\}})*)\}}")

        def filled(found, zero=zero):
            members = found.group(2)
            is_literal = "struct_size" in members or "type:" in members or "name:" in members
            if ".." in members or not is_literal or "pub " in members:
                return found.group(0)
            used[name, "literal"] += 1
            return f"{found.group(1)}{members.rstrip().rstrip(',')}, later: {zero} }}"

        text = literal.sub(filled, text)
    return text


def grow_header(text, used):
    for name, (_, _, member, before, after) in GROWN.items():
        text, count = re.subn(rf"(struct {name} \{{\n.*?)\n\}}", rf"\1\n    {member}\n}}", text, flags=re.DOTALL)
        used[name, "header"] += count
        text = text.replace(f"sizeof({name}) == {before}", f"sizeof({name}) == {after}")
    return text


def make(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lock = open(folder / "lock", "w")  # tests may run in several processes
    fcntl.flock(lock, fcntl.LOCK_EX)
    used = {(name, what): 0 for name in GROWN for what in ("definition", "literal", "header")}
    for part, suffixes, grow in (("src", {".rs"}, grow_rust), ("include", {".h", ".hpp"}, grow_header)):
        for path in sorted((ROOT / part).rglob("*")):
            if path.is_file():
                text = path.read_text()
                write(folder / path.relative_to(ROOT), grow(text, used) if path.suffix in suffixes else text)
        for path in (folder / part).rglob("*"):
            if path.is_file() and not (ROOT / path.relative_to(folder)).exists():
                path.unlink()  # of an earlier state of the sources
    for (name, what), count in used.items():
        expected = count > 0 if what == "literal" else count == 1
        if not expected and (name, what) not in NO_LITERAL:
            sys.exit(f"{name}: {what} found {count} times")
    manifest(folder)


# Made from a caller's bytes only, or only by callers.
NO_LITERAL = {("cai_field", "literal"), ("cai_export_options", "literal")}


def manifest(folder):
    """The manifest of the library alone: a workspace of its own, with the versions of today's lock file."""
    for name in ("build.rs", "Cargo.lock", "rustfmt.toml"):
        if (ROOT / name).exists():
            write(folder / name, (ROOT / name).read_text())
    text = (ROOT / "Cargo.toml").read_text()
    text = re.sub(r"^members = \[.*?\]$", 'members = ["."]', text, count=1, flags=re.MULTILINE | re.DOTALL)
    text = text.partition("\n[[test]]\n")[0]
    write(folder / "Cargo.toml", text)


def write(path, text):
    """Only where something changed, so that nothing is built twice."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


if __name__ == "__main__":
    make(sys.argv[1])
