"""The page about mdspan with clang's library, which has std::mdspan. The clang is that of zig."""

import re

from commands import CLANG, ROOT, STRICT, linked, run


def test_mdspan(tmp_path):
    """The program on the page about cai/mdspan.hpp."""
    page = (ROOT / "docs/src/frameworks.md").read_text()
    sample = next(text for text in re.findall(r"```cpp\n(.*?)```", page, re.S) if "cai/mdspan.hpp" in text)
    (tmp_path / "sample.cpp").write_text(sample)
    flags = ["-std=c++23", *STRICT, "-Wsign-conversion", "-I", ROOT / "include"]
    run(*CLANG, "c++", *flags, tmp_path / "sample.cpp", "-o", tmp_path / "sample", *linked())
    printed = re.search(r"```text\n(.*?)```", page[page.index(sample) :], re.S)[1]
    assert run(tmp_path / "sample").stdout == printed
