"""Settings of the site that `make docs` builds: see `make help`. Sphinx with MyST, because pages stay readable Markdown,
and dead links are errors."""

import json
import pathlib
import re

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

ROOT = pathlib.Path(__file__).resolve().parents[1]

project = "libcai"
author = "the authors of libcai"
copyright = author
version = release = re.search(r'^version = "(.*?)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]

extensions = ["myst_parser", "sphinx_copybutton"]
myst_enable_extensions = ["attrs_block", "attrs_inline", "deflist"]
# An anchor for each heading, as the links between pages use them.
myst_heading_anchors = 4
# Figures that a command makes stand between comments, and a page of the repository may begin with its own title.
suppress_warnings = ["myst.header"]
exclude_patterns = ["files"]
nitpicky = True
# Types of the C library, CUDA, Python, DLPack, Arrow and the frameworks have no page here.
nitpick_ignore_regex = [("c:identifier", r"(?!cai_|CAI_|cudasim_).*"), ("py:class", ".*")]
default_role = "code"
highlight_language = "text"

html_theme = "furo"
html_title = f"libcai {release}"
templates_path = ["templates"]
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
# What docs/prepare.py makes of docs/redirects.txt.
html_extra_path = [str(ROOT / "build/site-src/redirects")]
html_favicon = "static/favicon.svg"
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
# A terminal's prompt and output are not copied.
copybutton_prompt_text = "$ "


class Names(SphinxTransform):
    """The first `name` of the C interface in each section leads to its entry in the reference."""

    default_priority = 400
    known = set()

    def apply(self, **kwargs):
        seen = set()
        for node in list(self.document.findall(nodes.literal)):
            name = node.astext().removesuffix("()")
            section = node.parent
            while section is not None and not isinstance(section, nodes.section):
                if isinstance(section, (nodes.reference, nodes.title, addnodes.desc_signature)):
                    break
                section = section.parent
            if not isinstance(section, nodes.section) or name not in self.known or (id(section), name) in seen:
                continue
            seen.add((id(section), name))
            link = addnodes.pending_xref("", refdomain="c", reftype="any", reftarget=name, refexplicit=True, refwarn=False)
            node.replace_self(link)
            link += node


# What the search lists by name.
OBJECTS = {"macro": "macro", "function": "function", "struct": "structure", "type": "type", "enum": "enumeration"}


def write_search_index(app, exception):
    """The text of each section, and the names of the C interface, for static/search.js: a script, because a browser reads
    no other file beside a page that was opened without a server."""
    if exception or app.builder.format != "html":
        return
    pages, sections = [], []
    for number, page in enumerate(sorted(app.env.found_docs)):
        pages.append((page, app.env.titles[page].astext()))
        for section in app.env.get_doctree(page).findall(nodes.section):
            apart = (nodes.section, nodes.title, nodes.comment, nodes.raw)
            text = " ".join(child.astext() for child in section.children if not isinstance(child, apart))
            anchor = section["ids"][0] if isinstance(section.parent, nodes.section) else ""
            sections.append((number, anchor, section[0].astext(), " ".join(text.split())))
    numbers = {page: number for number, (page, _) in enumerate(pages)}
    objects = app.env.domains["c"].get_objects()
    names = sorted((name, OBJECTS[kind], numbers[page], anchor) for name, _, kind, page, anchor, _ in objects if kind in OBJECTS)
    index = json.dumps({"pages": pages, "sections": sections, "names": names}, ensure_ascii=False, separators=(",", ":"))
    (pathlib.Path(app.outdir) / "_static/search_index.js").write_text(f"const searchIndex = {index};\n")


def setup(app):
    names = (ROOT / "build/site-src").glob("c/*.md")
    Names.known = {name for page in names for name in re.findall(r"\{c:(?:function|struct|type|macro)\}.*?\b((?:cai|CAI|cudasim|CUDASIM)_\w+)(?=\(|$)", page.read_text(), re.M)}
    app.add_transform(Names)
    app.connect("build-finished", write_search_index)
    return {"parallel_read_safe": True}
