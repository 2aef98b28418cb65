"""Makes folders of C++ headers of two ages: today's, and later ones with 16 more bytes in an array
and one more operation of owners. Their versions differ, as they do for every real change."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def replaced(text, pattern, by):
    """Exactly one place changes."""
    text, count = re.subn(pattern, by, text, flags=re.DOTALL)
    assert count == 1, pattern
    return text


def write(folder):
    """Writes `folder`/today/cai and `folder`/later/cai."""
    for age in ("today", "later"):
        (folder / age / "cai/unstable").mkdir(parents=True)
        for header in (ROOT / "include/cai").rglob("*.h*"):
            text = header.read_text()
            if age == "later" and header.name == "abi.h":
                text = replaced(text, r"(#define CAI_ABI_H_VERSION) 0x(\w+)", r"\1 0x7\2")
                text = replaced(text, r"(struct cai_array \{.*?)\n\};", r"\1\n    uint64_t later[2];\n};")
                text = replaced(text, r"(struct cai_owner_ops \{.*?)\n\};", r"\1\n    void (*later)(void);\n};")
                text = replaced(text, r"(#define CAI_ARRAY_INIT.*?NULL, 0)( *\\\n *\})", r"\1, {0, 0}\2")
                text = replaced(text, r"sizeof\(cai_array\) == 128", "sizeof(cai_array) == 144")
                text = replaced(text, r"sizeof\(cai_owner_ops\) == 24", "sizeof(cai_owner_ops) == 32")
            elif age == "later" and header.suffix == ".hpp":
                table = "{sizeof(cai_owner_ops), 0, retain, release"
                text = text.replace(table + "}", table + ", nullptr}")
            (folder / age / header.relative_to(ROOT / "include")).write_text(text)
