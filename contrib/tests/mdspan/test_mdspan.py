"""cai/mdspan.hpp with the mdspan of CCCL; test_example.py and the line `run:` of mdspan.cpp have that of clang's library."""

import pathlib
import sysconfig

import pytest
from commands import INCLUDES, ROOT, STRICT, compile, run

HERE = pathlib.Path(__file__).resolve().parent
CCCL = pathlib.Path(sysconfig.get_path("purelib")) / "nvidia/cu13/include/cccl"


@pytest.mark.parametrize("reference, compiles", [("float &", True), ("float", False)])
def test_accessors_of_mdspan(tmp_path, reference, compiles):
    """An array has the elements in memory, not those that an accessor computes."""
    source = tmp_path / "accessor.cpp"
    source.write_text(
        "#include <cai/mdspan.hpp>\n#include <cuda/std/mdspan>\n"
        "struct accessor {\n"
        f"    using element_type = float;\n    using reference = {reference};\n"
        "    using data_handle_type = float *;\n    using offset_policy = accessor;\n"
        "    reference access(float *p, std::size_t i) const { return p[i]; }\n"
        "    float *offset(float *p, std::size_t i) const { return p + i; }\n"
        "};\n"
        "using span = cuda::std::mdspan<float, cuda::std::dextents<int, 1>, cuda::std::layout_right, accessor>;\n"
        "cai::description f(const span &given) { return cai::describe(given); }\n"
    )
    done = run("g++", "-std=c++17", *INCLUDES, "-isystem", CCCL, "-fsyntax-only", source, check=False)
    assert (done.returncode == 0) == compiles, done.stderr
    assert compiles or "the accessor of the mdspan computes elements" in done.stderr


@pytest.mark.parametrize("standard", ["c++17", "c++20"])
def test_mdspan(tmp_path, standard):
    """The arrays of the host that become a cuda::std::mdspan, and back: this program runs."""
    flags = [f"-std={standard}", "-DFAMILY=2", *STRICT, "-Wsign-conversion", "-I", ROOT / "capi-tests", "-isystem", CCCL]
    run(compile(HERE / "mdspan.cpp", tmp_path / "program", *flags))
