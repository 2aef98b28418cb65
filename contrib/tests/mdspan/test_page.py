"""The program with std::mdspan on the page about frameworks."""

import re

from commands import CLANG, INCLUDES, ROOT, STRICT, linked, run


def test_the_program_of_the_page(tmp_path):
    """clang's library has std::mdspan. The clang is that of zig."""
    page = (ROOT / "contrib/docs/frameworks.md").read_text()
    sample = next(text for text in re.findall(r"```cpp\n(.*?)```", page, re.S) if "cai/mdspan.hpp" in text)
    (tmp_path / "sample.cpp").write_text(sample)
    flags = ["-std=c++23", *STRICT, "-Wsign-conversion", *INCLUDES]
    run(*CLANG, "c++", *flags, tmp_path / "sample.cpp", "-o", tmp_path / "sample", *linked())
    printed = re.search(r"```text\n(.*?)```", page[page.index(sample) :], re.S)[1]
    assert run(tmp_path / "sample").stdout == printed
