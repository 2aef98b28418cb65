"""The example with std::mdspan."""

import pytest
from commands import CLANG, INCLUDES, ROOT, SLOW, STRICT, linked, run


@pytest.mark.skipif(not SLOW, reason="slow")
def test_example(tmp_path):
    """clang's library has std::mdspan. The clang is that of zig."""
    flags = ["-std=c++23", *STRICT, "-Wsign-conversion", *INCLUDES]
    run(*CLANG, "c++", *flags, ROOT / "contrib/examples/mdspan_sum.cpp", "-o", tmp_path / "sample", *linked())
    assert run(tmp_path / "sample").stdout == "12\n"
