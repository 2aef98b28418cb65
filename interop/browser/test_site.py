"""The site that `make docs` builds, in a browser, as it is without a server: pages of a desktop and of a telephone, light and
dark, with and without JavaScript; whether they are accessible; and what the search finds."""

import json

import pytest

from browser import AXE, ROOT

SITE = ROOT / "build/site"
PICTURES = ROOT / "build/browser-pictures"
PICTURED = ["c/sync.html", "index.html", "search.html", "streams.html"]
# What docs/prepare.py wrote, and what Sphinx adds.
SOURCES = ROOT / "build/site-src"
PAGES = sorted(str(path.relative_to(SOURCES).with_suffix(".html")) for path in SOURCES.rglob("*.md"))
PAGES += ["genindex.html", "search.html"]
MOVED = [line.split() for line in (ROOT / "docs/redirects.txt").read_text().splitlines()]
QUERIES = [line.split("\t") for line in (ROOT / "docs/queries.txt").read_text().splitlines()]
# Of the queries, so many have their page among the first three hits.
FOUND = 37
FIELD = "#search input"
HITS = "[...document.querySelectorAll('#search-hits > li > a')].map(one => one.getAttribute('href'))"

# What is wider than the window, or in the text lies outside of it and cannot be scrolled to; and pictures that are missing.
WRONG = """
(() => {
    const width = document.documentElement.clientWidth, wrong = [];
    if (document.documentElement.scrollWidth > width) wrong.push("wider than the window");
    for (const one of document.querySelectorAll("article *")) {
        const box = one.getBoundingClientRect();
        if (box.width == 0 || box.right <= width + 1) continue;
        let within = one.parentElement;
        while (within && !["auto", "scroll"].includes(getComputedStyle(within).overflowX)) within = within.parentElement;
        if (!within || within == document.body || within == document.documentElement)
            wrong.push("outside: " + one.tagName + "." + one.className + ": " + one.textContent.slice(0, 60));
    }
    return [...wrong, ...[...document.images].filter(one => !one.naturalWidth).map(one => "no picture " + one.src)];
})()
"""
# What axe finds about colours. It takes many seconds for all words of a page of programs: it gets one text of each style,
# and none of the styles in `seen`, which it had on other pages. Returns all styles, and what is wrong.
COLOURS = """
(seen => {
    document.getAnimations().forEach(one => one.finish());
    const grounds = new Map([[null, ""]]), texts = new Map();
    const ground = one => {
        if (!grounds.has(one)) {
            const { backgroundColor, opacity } = getComputedStyle(one);
            const own = backgroundColor == "rgba(0, 0, 0, 0)" && opacity == 1 ? "" : backgroundColor + opacity;
            grounds.set(one, ground(one.parentElement) + own);
        }
        return grounds.get(one);
    };
    for (const one of document.querySelectorAll("body *")) {
        const box = one.getBoundingClientRect();
        if (!one.checkVisibility() || !box.width || box.right < 1 || box.left >= innerWidth) continue;
        if (![...one.childNodes].some(node => node.nodeType == Node.TEXT_NODE && node.data.trim())) continue;
        const { color, fontSize, fontWeight } = getComputedStyle(one);
        const style = [color, fontSize, fontWeight, ground(one)].join();
        if (!seen.includes(style) && !texts.has(style)) texts.set(style, one);
    }
    const found = texts.size ? axe.run({ include: [...texts.values()] }, { runOnly: ["color-contrast", "link-in-text-block"] }) : { violations: [] };
    return Promise.resolve(found).then(({ violations }) => [[...seen, ...texts.keys()], violations]);
})(%s)
"""
STRUCTURE = """
(() => {
    const apart = { "color-contrast": { enabled: false }, "link-in-text-block": { enabled: false } };
    return axe.run({ rules: apart, preload: false, resultTypes: ["violations"] }).then(found => found.violations);
})()
"""


def violations(found):
    return [f"axe: {rule['id']}: {node['html'][:200]}: {node['failureSummary']}" for rule in found for node in rule["nodes"]]


def colours(browser, seen):
    seen[:], found = browser.evaluate(COLOURS % json.dumps(seen))
    return violations(found)


@pytest.fixture(scope="session")
def seen():
    """The styles of text whose colours were tested."""
    return []


def test_there_is_a_site():
    """More than 20 pages of the book, and one for each header."""
    assert len(PAGES) > 40 and all((SITE / page).exists() for page in PAGES), "run `make docs`"


@pytest.mark.parametrize("page", PAGES)
def test_page(browser, seen, page):
    """It loads without an error, from the site alone; nothing is wider than the window; axe finds no violation."""
    loaded = browser.open(SITE / page, 1280)
    wrong = [text for text in loaded if not text.startswith((f"loads {SITE.as_uri()}", "loads data:"))]
    if page == "search.html":
        browser.type(FIELD, "cai_array_release after a stream")
    wrong += browser.evaluate(WRONG)
    browser.evaluate(f"{AXE.read_text()}; 0")
    wrong += colours(browser, seen)
    for width, dark in ((1280, True), (360, True), (360, False)):
        browser.show(width, dark)
        wrong += browser.evaluate(WRONG) if width == 360 else []
        wrong += violations(browser.evaluate(STRUCTURE)) if dark == (width == 1280) else []
        wrong += colours(browser, seen)
        if page in PICTURED:
            PICTURES.mkdir(parents=True, exist_ok=True)
            browser.picture(PICTURES / f"site-{page.replace('/', '-')[:-5]}-{width}-{'dark' if dark else 'light'}.png")
    assert wrong == []


def test_the_check_can_fail(browser, tmp_path):
    path = tmp_path / "wrong.html"
    path.write_text("""<!DOCTYPE html><html lang="en"><meta name="viewport" content="width=device-width"><title>Wrong</title><main><article><h1>Wrong</h1>
        <style>p { color: #aaa; transition: color 9s } @media (prefers-color-scheme: dark) { p { color: #000 } body { background: #111 } }</style>
        <p>pale, or dark on dark</p><img src="none.png"><pre style="width: 500px">wide</pre></article></main></html>""")
    loaded = browser.open(path, 360)
    assert [text[:10] for text in loaded] == ["loads file", "Failed to "] and len(browser.evaluate(WRONG)) == 3
    browser.evaluate(f"{AXE.read_text()}; 0")
    seen = []
    assert "color-contrast" in colours(browser, seen)[0] and colours(browser, seen) == []
    assert "image-alt" in violations(browser.evaluate(STRUCTURE))[0]
    browser.show(360, True)
    assert "color-contrast" in colours(browser, seen)[0]


# Where a label of the page's head was pressed: whether its menu is on the screen, and the texts of its links.
MENU = """
(([label, menu]) => {
    document.querySelector(`label[for=${label}]:not(.overlay)`).click();
    document.getAnimations().forEach(one => one.finish());
    const box = document.querySelector(menu).getBoundingClientRect();
    const links = [...document.querySelectorAll(`${menu} a`)].filter(one => one.checkVisibility()).map(one => one.innerText.trim());
    document.querySelector(`label[for=${label}].overlay`).click();
    return [box.left >= 0 && box.right <= innerWidth && box.height > 300, links];
})(%s)
"""


@pytest.mark.parametrize("page", PAGES)
def test_page_without_scripts(browser, page):
    """It has its text and its menus; the button that needs a script is not shown."""
    assert [text for text in browser.open(SITE / page, 360, scripts=False) if text.endswith(".js")] == []
    assert browser.evaluate(WRONG) == []
    assert browser.evaluate("document.querySelector('article h1').checkVisibility()")
    assert not browser.evaluate("document.querySelector('.theme-toggle').checkVisibility()")
    on_screen, links = browser.evaluate(MENU % json.dumps(["__navigation", ".sidebar-drawer"]))
    assert on_screen and len(links) > 20 and all(links), links
    if browser.evaluate("document.querySelector('.toc-tree') != null"):
        on_screen, links = browser.evaluate(MENU % json.dumps(["__toc", ".toc-drawer"]))
        assert on_screen and links and all(links), links
    elif page == "search.html":
        assert "needs JavaScript" in browser.evaluate("document.querySelector('article').innerText")


def test_former_addresses_lead_to_their_pages(browser):
    for old, new in MOVED:
        browser.open(SITE / old, 1280, scripts=False, to=f"{SITE.as_uri()}/{new}")
        # test_docs.py looks for the anchors in the sources of the pages; `:target` is where this page has one.
        assert "#" not in new or browser.evaluate("document.querySelector(':target') != null"), f"{old} -> {new}"


def test_the_search_finds_pages(browser):
    browser.open(SITE / "search.html", 360)
    missed = {}
    for query, page in QUERIES:
        browser.type(FIELD, query)
        first = [hit.partition("#")[0] for hit in browser.evaluate(HITS)[:3]]
        if page not in first:
            missed[query] = (page, first)
    print(*missed.items(), sep="\n")
    assert len(QUERIES) - len(missed) >= FOUND, missed


@pytest.mark.parametrize("query, first, hits", [
    ("cai_array_consume_begin", "c/sync.html#c.cai_array_consume_begin", range(2, 99)),
    ("when may CAI_ARRAY_RELEASE() fail", "c/array.html#c.cai_array_release", range(2, 99)),
    ("cai_array_consume_", "c/sync.html#c.cai_array_consume_begin", range(2, 99)),
    ("no_such_word_anywhere", None, range(1)),
    ("", None, range(1)),
])  # fmt: skip
def test_names_in_the_search(browser, query, first, hits):
    browser.open(SITE / "search.html", 1280)
    browser.type(FIELD, query)
    found = browser.evaluate(HITS)
    assert (found or [None])[0] == first and len(found) in hits
    status = browser.evaluate("document.getElementById('search-status').textContent")
    assert status == (f"{len(found) or 'No'} hits" if query else "")


def test_the_search_of_another_page(browser):
    """Its field leads to the page of the search, whose hits lead to their sections."""
    browser.open(SITE / "c/sync.html", 1280)
    browser.type(".sidebar-search", "legacy default stream")
    browser.press_enter()
    browser.wait_for(f"{SITE.as_uri()}/search.html?q=legacy+default+stream&check_keywords=yes&area=default")
    assert browser.evaluate(f"document.querySelector('{FIELD}').value") == "legacy default stream"
    hit = browser.evaluate(HITS)[0]
    assert hit == "streams.html#legacy-and-per-thread-default-streams"
    browser.evaluate("document.querySelector('#search-hits a').click()")
    browser.wait_for(f"{SITE.as_uri()}/{hit}")
    assert browser.evaluate("document.querySelector(':target') != null")
