"""The headers under gcc and clang: each alone, twice, and in any order, as every standard that they
promise, with strict warnings; `cai/abi.h` without the library; and the programs that the headers
show.

The clang is that of the zig package."""

import ctypes
import re

import pytest
from commands import CLANG, ROOT, SITE, linked, run

INCLUDE = ROOT / "include"
HEADERS = "abi.h status.h array.h dtype.h sync.h driver.h dlpack.h python.h".split()
HEADERS += [f"unstable/{name}.h" for name in "arrow capture copy dlpack exchange ipc json many release slice view".split()] + ["cai.h"]

STRICT = """-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wcast-qual
    -Wcast-align -Wundef -Wredundant-decls -Wfloat-equal -Wformat=2 -Wnull-dereference
    -Werror""".split()
STRICT_C = "-Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wwrite-strings".split()
STRICT_CPP = "-Wold-style-cast -Wnon-virtual-dtor -Woverloaded-virtual".split()
# What remains of -Weverything: no warnings about padding, about code that is valid in a newer
# standard only, and about C that is not the subset that it shares with C++ or Swift.
EVERYTHING = """-Weverything -Wno-padded -Wno-c++98-compat -Wno-c++98-compat-pedantic
    -Wno-unsafe-buffer-usage -Wno-declaration-after-statement -Wno-unused-macros
    -Wno-pre-c11-compat -Wno-pre-c23-compat -Wno-c++-keyword -Wno-implicit-void-ptr-cast
    -Wno-disabled-macro-expansion -Wno-poison-system-directories -Wno-c23-compat
    -Wno-nullability-completeness -Wno-reserved-identifier -Wno-reserved-macro-identifier
    -Wno-c++-compat -Wno-unused-command-line-argument -Werror""".split()

COMPILERS = (
    [(["gcc"], s) for s in ("c99", "c11", "c17", "c2x")]
    + [(["g++"], s) for s in ("c++11", "c++14", "c++17", "c++20", "c++23")]
    + [([*CLANG, "cc"], s) for s in ("c99", "c11", "c17", "c23")]
    + [([*CLANG, "c++"], s) for s in ("c++11", "c++14", "c++17", "c++20", "c++23")]
)
all_compilers = pytest.mark.parametrize(
    "compiler, standard", COMPILERS, ids=[f"{'gcc' if len(c) == 1 else 'clang'}-{s}" for c, s in COMPILERS]
)


def is_cpp(standard):
    return "++" in standard


def strict(compiler, standard):
    flags = [f"-std={standard}", *STRICT, *(STRICT_CPP if is_cpp(standard) else STRICT_C)]
    if len(compiler) > 1:
        flags += EVERYTHING
    elif is_cpp(standard):
        flags += ["-Wuseless-cast", "-Wzero-as-null-pointer-constant"]
    return flags


# All of the C++ headers in use.
USE = '''#include <cai/cai.hpp>
#include <utility>
#include <vector>
int use(const cai_array &given, const char *name);
int use(const cai_array &given, const char *name) {
    cai::array mine = cai::array::from(given), more;
    const cai::host_view<const float, 2> v(mine);
    const cai::host_contiguous_view<const float> all(mine);
    cai::contiguous_view<float> w;
    cai::view<const double, 0> scalar;
    if (cai::contiguous_view<float>::try_make(given, w) != CAI_OK ||
        cai::view<const double, 0>::try_make(given, scalar) != CAI_OK || mine.try_share(more) != CAI_OK) {
        throw cai::error(CAI_ERR_NULL_ARGUMENT, name, "no view");
    }
    std::vector<float> numbers(3);
    float *data = numbers.data();
    more = cai::array::make(data, {3}, CAI_STREAM_NONE, cai::host_device(), cai::make_owner(std::move(numbers)));
    mine.attach(std::move(more));
    cai::consumer work(mine, cai::stream_of(nullptr), CAI_ACCESS_READ);
    work.end();
    mine.produce({}, CAI_STREAM_NONE, 0);
    (void)cai::describe(data, {3}, {4});
    std::int64_t i = 0;
    for (const std::int64_t step : mine.strides()) {
        i += step;
    }
    return v.at(i, 0) > all[1] || v(0, i) > 2 ? static_cast<int>(mine.layout().count) : 0;
}
'''


@pytest.mark.parametrize(
    "compiler, standard",
    [(["g++"], s) for s in ("c++17", "c++20", "c++23")] + [([*CLANG, "c++"], s) for s in ("c++17", "c++20", "c++23", "c++26")],
    ids=lambda value: value if isinstance(value, str) else "gcc" if len(value) == 1 else "clang",
)
def test_the_cpp_headers_in_use(tmp_path, compiler, standard):
    (source,) = sources(tmp_path, standard, {"use": USE})
    more = [] if len(compiler) > 1 else ["-Wextra-semi", "-Wsuggest-override", "-Wlogical-op", "-Wduplicated-cond"]
    run(*compiler, *strict(compiler, standard), *more, "-I", INCLUDE, "-c", source, "-o", tmp_path / "use.o")


def test_a_view_of_an_unknown_type_does_not_compile(tmp_path):
    text = "#include <cai/view.hpp>\nstruct pair { float a, b; };\nvoid f(cai::array &a) { cai::view<pair, 1> v(a); }\n"
    done = run("g++", "-I", INCLUDE, "-fsyntax-only", *sources(tmp_path, "c++17", {"unknown": text}), check=False)
    assert done.returncode and "specialize cai::element" in done.stderr, done.stderr


def sources(folder, standard, texts):
    files = []
    for name, text in texts.items():
        files.append(folder / f"{name}.{'cpp' if is_cpp(standard) else 'c'}")
        files[-1].write_text(text)
    return files


def includes(*headers):
    return "".join(f"#include <cai/{header}>\n" for header in headers)


@all_compilers
def test_each_alone_and_twice(tmp_path, compiler, standard):
    # The clang compiles one file at a time: the oldest standards see each header alone, the others
    # all at once.
    headers = HEADERS if len(compiler) == 1 or standard in ("c99", "c++11") else ["cai.h"]
    use = "int use(void);\nint use(void) { return CAI_ABI_H_VERSION > 0 ? 0 : 1; }\n"
    texts = {header.replace(".", "_").replace("/", "_"): includes(header, header) + use for header in headers}
    for file in sources(tmp_path, standard, texts):
        run(*compiler, *strict(compiler, standard), "-I", INCLUDE, "-c", file, "-o", tmp_path / "alone.o")


@pytest.mark.parametrize("compiler, standard", [("gcc", "c99"), ("g++", "c++11")])
def test_in_any_order(tmp_path, compiler, standard):
    """Each stands once before all others."""
    texts = {first.replace(".", "").replace("/", "_"): includes(first, *HEADERS, first) for first in HEADERS}
    texts["backwards"] = includes(*reversed(HEADERS))
    # A file without a declaration is no program of C.
    flags = [flag for flag in strict([compiler], standard) if flag != "-Wpedantic"]
    run(compiler, *flags, "-I", INCLUDE, "-fsyntax-only", *sources(tmp_path, standard, texts))


@all_compilers
def test_abi_without_the_library(tmp_path, compiler, standard):
    program = tmp_path / "abi_only"
    language = ["-x", "c++"] if is_cpp(standard) else []
    # The test itself has casts of C.
    flags = [flag for flag in strict(compiler, standard) if flag not in ("-Wold-style-cast", "-Wuseless-cast")]
    if is_cpp(standard):
        flags += ["-Wno-old-style-cast"]
    source = ROOT / "capi-tests/special/abi_only.c"
    run(*compiler, *flags, "-O2", "-I", INCLUDE, *language, source, "-c", "-o", f"{program}.o")
    # The clang of zig would compile a run-time library and libc++ for each set of options before
    # it links the first program: a minute, for what this program does not use.
    run("g++" if is_cpp(standard) else "gcc", f"{program}.o", "-o", program)
    run(program)
    assert "cai_" not in run("nm", "-u", program).stdout


def test_abi_under_sanitizers(tmp_path):
    program = tmp_path / "abi_only"
    flags = "-std=c99 -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all".split()
    run("gcc", *flags, "-I", INCLUDE, ROOT / "capi-tests/special/abi_only.c", "-o", program)
    run(program)


def test_a_copy_of_abi_is_all_that_is_needed(tmp_path):
    """In another tree, under another name, and then together with the installed headers."""
    (tmp_path / "vendored.h").write_text((INCLUDE / "cai/abi.h").read_text())
    body = "cai_array a = CAI_ARRAY_INIT; cai_inline_release(&a); return 0;"
    text = f'#include "vendored.h"\nint main(void) {{ {body} }}\n'
    (alone,) = sources(tmp_path, "c99", {"alone": text})
    run("gcc", *strict(["gcc"], "c99"), alone, "-o", tmp_path / "alone")
    run(tmp_path / "alone")
    both = sources(tmp_path, "c99", {"both": '#include "vendored.h"\n' + includes("cai.h") + "int x;\n"})
    run("gcc", *strict(["gcc"], "c99"), "-I", INCLUDE, "-fsyntax-only", *both)


def refused(folder, text):
    """What the compiler says of a program that it refuses."""
    (source,) = sources(folder, "c99", {"refused": text})
    done = run("gcc", "-I", INCLUDE, "-fsyntax-only", source, check=False)
    assert done.returncode != 0
    return done.stderr


@pytest.mark.parametrize("header", HEADERS[1:-1])
def test_an_older_copy_of_abi_is_refused(tmp_path, header):
    old = (INCLUDE / "cai/abi.h").read_text()
    (tmp_path / "vendored.h").write_text(re.sub(r"(CAI_ABI_H_VERSION) 0x\w+", r"\1 0xffff", old))
    assert "an older copy of cai/abi.h" in refused(tmp_path, '#include "vendored.h"\n' + includes(header))


def test_narrow_platforms_are_refused(tmp_path):
    narrow = "#include <stdint.h>\n#undef UINTPTR_MAX\n#define UINTPTR_MAX 0xffffffffu\n"
    assert "64-bit platforms only" in refused(tmp_path, narrow + includes("abi.h"))


@pytest.mark.parametrize(
    "macro",
    [f"{word}_API_PER_THREAD_DEFAULT_STREAM" for word in ("CUDA", "__CUDA", "HIP")] + ["__HIP_API_PER_THREAD_DEFAULT_STREAM__"],
)
def test_the_per_thread_default_stream(macro, tmp_path):
    text = includes("abi.h") + "int main(void) { return cai_inline_stream(NULL) == CAI_STREAM_PER_THREAD ? 0 : 1; }\n"
    (source,) = sources(tmp_path, "c99", {"stream": text})
    run("gcc", f"-D{macro}", "-I", INCLUDE, source, "-o", tmp_path / "stream")
    run(tmp_path / "stream")


def shown(header):
    """The program in the comment at the top of a header."""
    banner = (INCLUDE / "cai" / header).read_text().partition("*/")[0]
    lines = re.findall(r"^ \*(?:     (.*))?$", banner, re.M)
    first = next(place for place, line in enumerate(lines) if line.startswith("#include"))
    return "\n".join(lines[first:]) + "\n"


@pytest.mark.parametrize("header", HEADERS[:-1])
def test_the_program_that_the_header_shows(tmp_path, header):
    text = shown(header)
    for standard in ("c99", "c++11"):
        program = tmp_path / "program"
        (source,) = sources(tmp_path, standard, {"shown": text})
        flags = [f for f in strict(["gcc"], standard) if f not in ("-Wold-style-cast", "-Wuseless-cast")]
        library = [] if header == "abi.h" else linked()
        run("g++" if is_cpp(standard) else "gcc", *flags, "-I", INCLUDE, source, "-o", program, *library)
        run(program)


KERNEL = ROOT / "capi-tests/special/kernel.cu"
# Sizes of the two arguments: an address, and two numbers for each dimension, or for one if there is none.
PARAMETERS = ["scale_param_0[40]", "scale_param_1[24]"]


@pytest.mark.parametrize("standard", ["c++11", "c++20"])
def test_a_kernel_without_a_standard_library(tmp_path, standard):
    """With the clang of the zig package, which has no header of CUDA, as NVRTC has none."""
    clang = [*CLANG, "clang", "-x", "cuda", "-nocudainc", "-nocudalib", "--cuda-device-only", "--cuda-gpu-arch=sm_70"]
    clang += ["-Xclang", "-target-feature", "-Xclang", "+ptx63", "-nostdinc", "-nostdinc++", "-D__CUDACC_RTC__"]
    run(*clang, f"-std={standard}", *STRICT, "-O2", "-I", INCLUDE, "-S", KERNEL, "-o", tmp_path / "kernel.ptx")
    text = (tmp_path / "kernel.ptx").read_text()
    assert all(parameter in text for parameter in PARAMETERS)


NVRTC = [*SITE.glob("nvidia/cu13/lib/libnvrtc.so*"), *SITE.glob("nvidia/cuda_nvrtc/lib/libnvrtc.so*")]


@pytest.mark.skipif(not NVRTC, reason="NVRTC is not installed")
def test_a_kernel_of_nvrtc():
    nvrtc, program, size = ctypes.CDLL(NVRTC[0]), ctypes.c_void_p(), ctypes.c_size_t()

    def text(of):
        getattr(nvrtc, f"nvrtcGet{of}Size")(program, ctypes.byref(size))
        made = ctypes.create_string_buffer(size.value)
        getattr(nvrtc, f"nvrtcGet{of}")(program, made)
        return made.value.decode()

    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), KERNEL.read_bytes(), b"kernel.cu", 0, None, None) == 0
    options = [f"-I{INCLUDE}".encode(), b"--std=c++17"]
    done = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    assert done == 0, text("ProgramLog")
    assert all(parameter in text("PTX") for parameter in PARAMETERS)
