"""Collects the site's pages into one folder, for Sphinx: prepare.py FOLDER

The README, the pages of the book and of cuda-sim, a page for each C header, and the tables of statuses and types. Links
between pages follow them; a link to another file of the repository becomes a download. An address that had a page leads to
its successor, as docs/redirects.txt lists them.
"""

import functools
import os
import pathlib
import re
import shutil
import sys

import chart
import links
import reference

ROOT = pathlib.Path(__file__).resolve().parents[1]
BOOK = ROOT / "docs/src"
SIM = ROOT / "cuda-sim"
SECTIONS = re.compile(r"(?ms)^## (?P<caption>.+?)$(?P<list>.*?)(?=^## |\Z)")
LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s#]*)(#[^)\s]*)?\)")
# The comment that each replaces begins with its word.
CHARTS = [("bars", "Bars: nanoseconds of each way, by group", "performance_python.svg", chart.draw),
          ("lines", "Lines: nanoseconds for each of N, by group", "performance_scale.svg", chart.growth)]  # fmt: skip
STUB = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>Moved</title>
<meta http-equiv="refresh" content="0; url={target}">
<link rel="canonical" href="{target}">
<p>This page has moved: <a href="{target}">{target}</a></p>
</html>
"""
# Lists that cuda-sim makes: files beside the site.
LISTS = ("driver_rules.md", "entry_points.md")


def pages():
    """Every page, and where it lies on the site."""
    found = {page: page.relative_to(BOOK) for page in BOOK.rglob("*.md")}
    found |= {page: pathlib.Path("cuda-sim", page.name) for page in (SIM / "docs").glob("*.md") if page.name not in LISTS}
    return found | {ROOT / "README.md": pathlib.Path("start.md")}


def redirects():
    """Addresses of former pages, and what they lead to now."""
    lines = (ROOT / "docs/redirects.txt").read_text().splitlines()
    return [tuple(line.split()) for line in lines if line and not line.startswith("#")]


class Site:
    def __init__(self, folder):
        self.folder = folder
        self.places = pages()
        self.texts = {page: page.read_text() for page in self.places}
        self.links = links.Links({path: path.read_text() for path in links.headers()})
        # The page of each header that declares something.
        self.headers = {
            path: pathlib.Path("c", f"{'unstable_' if path.parent.name == 'unstable' else ''}{path.stem}.md")
            for path, text in self.links.headers.items()
            if reference.items(text)
        }

    def file(self, path, page):
        """Copies a file of the repository; returns the link to it."""
        copy = self.folder / "files" / path.relative_to(ROOT)
        # Sphinx would take a link to Markdown as one to a page.
        copy = copy.with_name(f"{copy.name}.txt") if copy.suffix == ".md" else copy
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
        return os.path.relpath(copy, (self.folder / page).parent)

    def link(self, match, source, page):
        text, target, anchor = match[1], match[2], match[3] or ""
        if "://" in target or target.startswith("mailto:") or not target:
            return match[0]
        path = pathlib.Path(os.path.normpath(source.parent / target))
        if path in self.places:
            place = os.path.relpath(self.places[path], page.parent)
            return f"{text}({place}{anchor})"
        if SIM in path.parents and not SIM.exists():
            return text[1:-1]
        if not path.exists():
            raise SystemExit(f"{source}: no file {target}")
        if path.is_dir():
            name = path.relative_to(ROOT)
            return f"`{name}/`" if "`" in text else f"{text[1:-1]} (`{name}/`)"
        return f"{text}({self.file(path, page)})"

    def page(self, source, page):
        parts = links.FENCE.split(self.texts[source])
        parts[::2] = [LINK.sub(lambda match: self.link(match, source, page), part) for part in parts[::2]]
        if source == BOOK / "index.md":
            parts.append(self.contents(source))
        if source == BOOK / "c.md":
            parts.append(self.reference())
        if source == BOOK / "python.md":
            parts.append(reference.python(self.links, functools.partial(self.place, page=page)))
        if source == BOOK / "errors.md":
            headers = (ROOT / "include/cai" / name for name in ("abi.h", "status.h"))
            parts.append(reference.statuses([header.read_text() for header in headers]))
        if source == BOOK / "dtypes.md":
            text = "".join(parts)
            tables = [*reference.types((ROOT / "src/abi/dtypes.txt").read_text()),
                      reference.devices((ROOT / "src/abi/devices.txt").read_text())]  # fmt: skip
            for name, table in zip(("kinds", "types", "devices"), tables):
                assert text.count(f"<!-- table: {name} -->") == 1
                text = text.replace(f"<!-- table: {name} -->", table)
            parts = [text]
        if source == BOOK / "performance.md":
            for word, shows, picture, draw in CHARTS:
                (self.folder / picture).write_text(draw(self.texts[source]))
                found = [re.subn(rf"<!-- chart: {word} .*?-->", f"![{shows}]({picture})", part) for part in parts]
                parts = [part for part, _ in found]
                assert sum(count for _, count in found) == 1
        target = self.folder / page
        target.parent.mkdir(parents=True, exist_ok=True)
        # Rust's documentation tests have words behind the language.
        target.write_text(re.sub(r"(?m)^```rust,.*", "```rust", "".join(parts)))

    def contents(self, index):
        """The navigation: the lists of the first page, in its order."""
        text = ""
        for section in SECTIONS.finditer(self.texts[index]):
            listed = re.findall(r"(?m)^- \[([^\]]*)\]\(([^)]+)\)", section["list"])
            listed = [(title, pathlib.Path(os.path.normpath(index.parent / page))) for title, page in listed]
            places = [(title, self.places[page]) for title, page in listed if SIM not in page.parents or SIM.exists()]
            names = "\n".join(f"{title} <{place.with_suffix('')}>" for title, place in places)
            text += f"\n```{{toctree}}\n:hidden:\n:caption: {section['caption']}\n\n{names}\n```\n"
        return text

    def place(self, target, page):
        """The address on the site of a link of the reference."""
        path, hash, anchor = target.partition("#")
        path = pathlib.Path(path)
        to = self.places.get(path) or self.headers.get(path)
        return f"{os.path.relpath(to, page.parent)}{hash}{anchor}" if to else self.file(path, page)

    def reference(self):
        """Writes a page for each header; returns their table and the navigation."""
        (self.folder / "c").mkdir(exist_ok=True)
        table, names = "\n| Header | Content |\n|---|---|\n", ""
        for header, page in self.headers.items():
            text = self.links.headers[header]
            place = functools.partial(self.place, page=page)
            (self.folder / page).write_text(reference.page(text, header.stem, self.links, place))
            title, sentence, _ = reference.introduction(text)
            table += f"| [`{title}`]({page}) | {' '.join(sentence.split())} |\n"
            names += f"{page.with_suffix('')}\n"
        return f"{table}\n```{{toctree}}\n:hidden:\n\n{names}```\n"

    def make(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        for source, page in self.places.items():
            self.page(source, page)
        shutil.copytree(ROOT / "docs/static", self.folder / "static")
        for old, new in redirects():
            page = self.folder / "redirects" / old
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(STUB.format(target=os.path.relpath(new, pathlib.Path(old).parent)))


if __name__ == "__main__":
    Site(pathlib.Path(sys.argv[1]).resolve()).make()
