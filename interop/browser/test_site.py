"""The site that `make docs` builds, in a browser, at the widths of a desktop and of a telephone."""

import pytest

from browser import ROOT

SITE = ROOT / "build/site"
PICTURES = ROOT / "build/browser-pictures"
# What docs/prepare.py wrote, without copies of files of the repository, and what Sphinx adds.
SOURCES = ROOT / "build/site-src"
PAGES = sorted(str(path.relative_to(SOURCES).with_suffix(".html")) for path in SOURCES.rglob("*.md"))
PAGES += ["genindex.html", "search.html"]
MOVED = [line.split() for line in (ROOT / "docs/redirects.txt").read_text().splitlines()]
# What of the text lies outside of the window and cannot be scrolled to, or is cut off.
OUTSIDE = """
(() => {
    const width = document.documentElement.clientWidth, wrong = [];
    for (const one of document.querySelectorAll("article *")) {
        const box = one.getBoundingClientRect();
        if (box.width == 0 || box.right <= width + 1) continue;
        let within = one.parentElement;
        while (within && !["auto", "scroll"].includes(getComputedStyle(within).overflowX)) within = within.parentElement;
        if (!within || within == document.body || within == document.documentElement)
            wrong.push(one.tagName + "." + one.className + ": " + one.textContent.slice(0, 60));
    }
    return wrong;
})()
"""


def test_there_is_a_site():
    """More than 20 pages of the book, and one for each header."""
    assert len(PAGES) > 40 and all((SITE / page).exists() for page in PAGES), "run `make docs`"


def test_former_addresses_lead_to_their_pages(browser):
    for old, new in MOVED:
        browser.follow(SITE / old, f"{SITE.as_uri()}/{new}")
        # test_docs.py looks for the anchors in the sources of the pages; `:target` is where this page has one.
        assert "#" not in new or browser.evaluate("document.querySelector(':target') != null"), f"{old} -> {new}"


@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit(browser, width):
    """Each page loads without an error, from the site alone; nothing is wider than the window; no picture is missing."""
    wrong = []
    for page in PAGES:
        found = browser.open(SITE / page, width)
        wrong += [f"{page}: {text}" for text in found if not text.startswith(f"loads file://{SITE}") and not text.startswith("loads data:")]
        if browser.evaluate("document.documentElement.scrollWidth") > width:
            wrong.append(f"{page}: wider than {width} pixels")
        wrong += [f"{page}: {text}" for text in browser.evaluate(OUTSIDE)]
        missing = browser.evaluate("[...document.images].filter(one => !one.naturalWidth).map(one => one.src)")
        wrong += [f"{page}: no picture {name}" for name in missing]
    assert wrong == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("page", ["index", "start", "streams", "performance", "c/sync"])
def test_pictures_of_pages(browser, page, width, dark):
    browser.open(SITE / f"{page}.html", width, dark=dark)
    PICTURES.mkdir(parents=True, exist_ok=True)
    picture = PICTURES / f"site-{page.replace('/', '-')}-{width}-{'dark' if dark else 'light'}.png"
    browser.picture(picture)
    assert picture.stat().st_size > 10_000


def test_the_search_finds_functions(browser):
    index = (SITE / "searchindex.js").read_text()
    assert "cai_array_consume_begin" in index
    browser.open(SITE / "genindex.html", 1280)
    assert browser.evaluate("document.querySelectorAll('a[href*=cai_array_]').length") > 20
