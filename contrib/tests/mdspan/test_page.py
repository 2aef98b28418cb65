"""The program with std::mdspan on the page about frameworks."""

from commands import CLANG, INCLUDES, ROOT, STRICT, block, linked, run


def test_the_program_of_the_page(tmp_path):
    """clang's library has std::mdspan. The clang is that of zig."""
    sample, after = block((ROOT / "contrib/docs/frameworks.md").read_text(), "#include <cai/mdspan.hpp>")
    (tmp_path / "sample.cpp").write_text(sample)
    flags = ["-std=c++23", *STRICT, "-Wsign-conversion", *INCLUDES]
    run(*CLANG, "c++", *flags, tmp_path / "sample.cpp", "-o", tmp_path / "sample", *linked())
    assert run(tmp_path / "sample").stdout == block(after, "```text")[0]
