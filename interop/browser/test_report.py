"""The HTML report of `cuda-sim run` in a browser, at the widths of a desktop and of a telephone."""

import pathlib
import struct
import sys

import pytest

from browser import ROOT

sys.path.insert(0, str(ROOT / "tests/python"))
from commands import CUDA_SIM, compile, run  # noqa: E402

PICTURES = ROOT / "build/browser-pictures"
WIDTHS = [1280, 360]
LONG = "a_label_of_the_program_without_any_place_to_break_it" * 6

RACE = """
#include <cuda.h>
#include <cudasim.h>
#define OK(call) do { if (call) return 3; } while (0)
static int fill(CUdeviceptr p, CUstream s) { return (int)cuMemsetD8Async(p, 1, 64, s); }
static int read_back(void *to, CUdeviceptr p, CUstream s) { return (int)cuMemcpyDtoHAsync(to, p, 64, s); }
int main(int argc, char **argv) {
    CUcontext context; CUstream a, b; CUdeviceptr p; char host[64]; CUarray array; CUDA_ARRAY_DESCRIPTOR d = {0};
    (void)argv;
    OK(cuInit(0)); OK(cuDevicePrimaryCtxRetain(&context, 0)); OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&a, 1)); OK(cuStreamCreate(&b, 1)); OK(cuMemAlloc(&p, 64));
    OK(fill(p, a));
    if (argc == 1) OK(read_back(host, p, b));
    (void)cuArrayCreate(&array, &d);
    OK(cuStreamSynchronize(a)); OK(cuStreamSynchronize(b));
    return 7;
}
"""
# A wait for an earlier moment.
EARLY = """
    CUevent e;
    OK(cuEventCreate(&e, 2)); OK(fill(p, a)); OK(cuEventRecord(e, a)); OK(fill(p, a)); OK(cuStreamWaitEvent(b, e, 0));"""

# Elements that extend beyond the page, and texts that their element cuts off or overlaps.
OVERFLOWING = """
(() => {
    const wrong = [], width = document.documentElement.clientWidth;
    for (const one of document.querySelectorAll("body *")) {
        const box = one.getBoundingClientRect();
        if (box.right > width + 1 || box.left < -1 || one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0)
            wrong.push(one.tagName + "." + one.className + ": " + one.textContent.slice(0, 60));
    }
    return wrong;
})()
"""


def many_lanes():
    """Waits in a row through several streams: a timeline with many columns."""
    streams = "CUstream s[6]; CUevent e; OK(cuEventCreate(&e, 2)); for (int i = 0; i < 6; ++i) OK(cuStreamCreate(&s[i], 1));"
    waits = "for (int i = 1; i < 6; ++i) { OK(cuEventRecord(e, s[i - 1])); OK(cuStreamWaitEvent(s[i], e, 0)); OK(fill(p, s[i])); }"
    return f"{streams} OK(fill(p, s[0])); {waits} OK(fill(p, a));"


PROGRAMS = {
    "race": (RACE.replace("OK(fill(p, a));", EARLY), []),
    "long": (RACE.replace("OK(fill(p, a));", f'cudasim_label("{LONG}"); cudasim_name_stream(a, "{LONG}"); OK(fill(p, a));'), []),
    "lanes": (RACE.replace("OK(fill(p, a));", many_lanes()), []),
    "none": (RACE, ["correct"]),
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder, found = tmp_path_factory.mktemp("pages"), {}
    for name, (text, arguments) in PROGRAMS.items():
        (folder / f"{name}.c").write_text(text)
        program = folder / name
        compile(f"{program}.c", program, "-g", "-fno-inline", library=None, cuda=True)
        found[name] = folder / f"{name}.html"
        run(CUDA_SIM, "run", f"--report={found[name]}", "--", program, *arguments, check=False)
    return found


def size(picture):
    return struct.unpack(">II", picture.read_bytes()[16:24])


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_page_fits(browser, pages, name, width, dark):
    """Nothing goes wrong, nothing else is loaded, and nothing is wider than the window."""
    assert browser.open(pages[name], width, dark=dark) == []
    assert browser.evaluate("window.innerWidth") == width
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate(OVERFLOWING) == []
    PICTURES.mkdir(parents=True, exist_ok=True)
    picture = PICTURES / f"{name}-{width}-{'dark' if dark else 'light'}.png"
    browser.picture(picture)
    assert size(picture)[0] == width


@pytest.mark.parametrize("width", WIDTHS)
def test_what_it_shows(browser, pages, width):
    """The timeline has a column for each lane at the same places as its names, and the parts are in their order."""
    assert browser.open(pages["race"], width) == []
    shown = browser.evaluate("document.querySelector('h1').innerText")
    assert shown == "1 race"
    columns = "[...document.querySelectorAll('.timeline .{}')].slice(0, {}).map(one => Math.round(one.getBoundingClientRect().left))"
    names = browser.evaluate(columns.format("name", 99))
    assert len(names) >= 3 and names == sorted(set(names)) == browser.evaluate(columns.format("lane", len(names)))
    tops = browser.evaluate(
        "['.first', '.early', '.missing', '.second', '.sides'].map(one => document.querySelector(one).getBoundingClientRect().top)"
    )
    assert tops == sorted(tops) and len(set(tops)) == 5
    # Both call stacks: beside each other where there is space, otherwise below.
    one, two = browser.evaluate("['.one', '.two'].map(one => document.querySelector(one).getBoundingClientRect().left)")
    assert (one < two) == (width == 1280)


def test_words_are_not_broken(browser, pages):
    """With four lanes on a telephone, too."""
    assert browser.open(pages["lanes"], 360) == []
    lines = "[...document.querySelectorAll('.call')].map(one => one.offsetHeight / parseFloat(getComputedStyle(one).lineHeight))"
    found = browser.evaluate(lines)
    assert len(found) == 4 and all(height < 2 for height in found), found


def test_the_check_can_fail(browser, tmp_path):
    """A page that is too wide, loads something and has an error in a script is found out."""
    path = pathlib.Path(tmp_path / "wrong.html")
    path.write_text('<!DOCTYPE html><p style="width: 2000px">wide</p><img src="none.png"><script>undefined.x</script>')
    wrong = " ".join(browser.open(path, 360))
    assert "Uncaught" in wrong and "loads file:" in wrong
    assert browser.evaluate(OVERFLOWING) != []
