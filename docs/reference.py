"""Pages of the C interface, made from the headers: one page a header, every name that is not private.

The comments are Markdown, as the pages are.
"""

import ast
import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
COMMENT = r"/\*\*(?P<doc>(?:[^*]|\*(?!/))*)\*/\s*"
NAME = re.compile(r"\b(?:cai|cudasim|CAI|CUDASIM)_\w+")


@dataclasses.dataclass
class Item:
    """A name with its comment. `kind` is a directive of Sphinx's C domain."""

    kind: str
    name: str
    signature: str
    doc: str
    members: list

    @property
    def is_function(self):
        return self.kind == "function" or self.kind == "macro" and "(" in self.signature


def uncommented(text):
    """The text of a comment without stars; parameters and the standard paragraphs stand alone."""
    lines = [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in text.strip().removeprefix("<").splitlines()]
    out = []
    for line in lines:
        begins = re.match(r"(`\w+`(, `\w+`)*: |Returns |Thread safety: |Source: |Ownership: |Growth: )", line)
        if begins and out and out[-1].endswith((".", ":", "`", "|")):
            out.append("")
        out.append(line)
    return "\n".join(out).strip()


def flat(text):
    return re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", text, flags=re.S)).strip()


def members(body):
    found = []
    for part in re.finditer(rf"(?:{COMMENT})?(?P<decl>[^;{{}}/]+);[ \t]*(?:/\*+<?(?P<after>.*?)\*/)?", body, re.S):
        declaration = flat(part["decl"])
        name = re.search(r"\(\*(\w+)\)", declaration) or re.search(r"(\w+)(?:\[\w*\])?$", declaration)
        if not name:
            continue
        found.append(Item("member", name[1], declaration, uncommented(part["doc"] or part["after"] or ""), []))
    private = body.find("The rest is private")
    if private < 0:
        return found
    return [item for item in found if body.find(item.name) < private]


def blocks(header):
    """The header with comments of three slashes as blocks of stars."""
    return re.sub(r"(?m)((?:^ *///.*\n)+)", lambda match: f"/**{re.sub('(?m)^ *///', ' *', match[1])} */\n", header)


FAMILIES = {
    0: "Success", 1: "Arguments", 2: "The array", 3: "The CUDA driver", 4: "Stream capture", 5: "Python",
    6: "Resources", 7: "Conversions and requirements", 9: "The library itself",
}  # fmt: skip


def statuses(headers):
    """The table of each family of statuses. A comment is the cause, and what to do."""
    found = []
    for doc, name, number in re.findall(r"((?:///.*\n)+)#define (CAI_OK|CAI_ERR_\w+) (\d+)\n", "".join(headers)):
        found.append((int(number), name, " ".join(doc.replace("///", " ").split()).replace("|", "\\|")))
    text = ""
    for family, title in FAMILIES.items():
        text += f"\n## {title}\n\n| number | name | cause and cure |\n|---|---|---|\n"
        rows = [row for row in sorted(found) if row[0] // 100 == family]
        text += "".join(f"| {number} | `{name}` | {doc} |\n" for number, name, doc in rows)
    assert text.count("| `CAI_") == len(found) > 100, "a status has no family"
    return text


def types(table):
    """The kinds and the types of src/abi/dtypes.txt, as two tables."""
    kinds = "| kind | type | sizes in bytes |\n|---|---|---|\n"
    names = "| name | `dtype_code` | typestr | DLPack | Arrow | MPI | NCCL | PyTorch | XLA | C++ |\n" + 10 * "|---" + "|\n"
    sizes = {"characters": "any", "bits": "any"}
    for line in table.splitlines():
        if line.startswith("kind "):
            _, letter, _, size, meaning = line.split(None, 4)
            kinds += f"| `{letter}` | {meaning} | {sizes.get(size, size).replace(',', ', ')} |\n"
        elif line.startswith("type "):
            _, name, code, typestr, dlpack, arrow, mpi, nccl, torch, xla, cuda, *_ = line.split(None, 11)
            mpi, torch = mpi.replace("-", "") and f"MPI_{mpi}", torch.replace("-", "") and name
            cells = (name, code, typestr.split(":")[0], dlpack, arrow, mpi, nccl, torch, xla, cuda)
            names += "".join(f"| `{cell}` " if cell.strip("-") else "| " for cell in cells) + "|\n"
    return kinds, names


def devices(table):
    """The devices of src/abi/devices.txt, as a table."""
    text = "| number | constant | `data` | streams | memory |\n|---|---|---|---|---|\n"
    for line in table.splitlines():
        if line[:1].isdigit():
            number, name, streams, data, _, meaning = line.split(None, 5)
            streams = {"cuda": "CUDA", "hip": "HIP", "-": ""}[streams]
            text += f"| {number} | `CAI_DEVICE_{name.upper()}` | {data.replace('-', 'address')} | {streams} | {meaning} |\n"
    return text


def items(header):
    """What a header declares, in its order."""
    text = blocks(header[header.find("#define", header.find("#ifndef")) :])
    if "Generated from" not in header:
        # Written by hand: any comment before a declaration is its own.
        text = re.sub(r"(?m)^/\*(?=[ \n])", "/**", text)
    found = []
    patterns = [
        ("macro", r"#define (?P<name>\w+)(?P<args>\([^)]*\))?[ \t]+(?P<value>(?:[^\n\\/]|\\\n|/(?!\*))*)"),
        ("struct", r"(?:typedef )?struct (?P<name>\w+)? ?\{(?P<body>(?:[^{}])*)\}(?: (?P<alias>\w+))?;"),
        ("function", r"(?:CAI_API|static inline)\s+(?P<decl>[\w \t\n*]+?\b(?P<name>\w+)\s*\((?:[^()]|\([^()]*\))*\))\s*[;{]"),
        ("type", r"typedef (?P<decl>[^;{}]+);"),
    ]
    for kind, pattern in patterns:
        for match in re.finditer(rf"(?:{COMMENT})?(?:template[^\n]*\n)?{pattern}[ \t]*(?:/\*\*<(?P<after>.*?)\*/)?", text, re.S):
            groups = match.groupdict()
            doc = uncommented(groups["doc"] or groups["after"] or "")
            name, signature, inner = groups.get("name"), "", []
            if kind == "macro":
                signature = name + (groups["args"] or "")
            elif kind == "struct":
                name = groups["alias"] or name
                signature, inner = name, members(groups["body"])
            elif kind == "function":
                signature = flat(groups["decl"])
            else:
                declaration = flat(groups["decl"])
                if re.match(r"struct (\w+) \1$", declaration):
                    continue
                named = re.search(r"\(\*(\w+)\)", declaration) or re.search(r"(\w+)$", declaration)
                name = named and named[1]
                signature = declaration
            if not NAME.fullmatch(name or "") or "private" in name.lower() or not doc and kind != "function":
                continue
            if kind == "macro" and groups["value"].strip() and len(flat(groups["value"])) < 40 and not groups["args"]:
                doc += f"\n\nValue: `{flat(groups['value'])}`"
            found.append((match.start(), Item(kind, name, signature, doc, inner)))
    found = [item for _, item in sorted(found, key=lambda pair: pair[0])]
    for before, item in zip(found, found[1:]):
        # One comment for two functions.
        item.doc = item.doc or f"See `{before.name}`."
    return found


def introduction(header):
    """The header's first comment: what it is for, and a program. The licence is left out."""
    text = re.match(r"/\*(.*?)\*/", header, re.S)[1]
    lines = [re.sub(r"^ \* ?", "", line).rstrip() for line in text.strip("\n").splitlines()]
    lines = [line for line in lines if not re.match(r"(SPDX|Generated from)", line)]
    text = "\n".join(lines).strip()
    title, status, rest = re.fullmatch(r"(.*?)(?: \((.*?)\))?: (.*)", text, re.S).groups()
    sentence, _, rest = rest.partition("\n\n")
    rest = f"{status[:1].upper()}{status[1:]}.\n\n{rest}" if status else rest
    return title, sentence[:1].upper() + sentence[1:], re.sub(r"(?m)((?:^    .*\n?|^\n)+)", as_code, rest + "\n")


def as_code(match):
    text = match[1]
    if not text.strip():
        return text
    return "\n```c\n" + re.sub(r"(?m)^    ", "", text.strip("\n")) + "\n```\n"


def page(header, stem, links, place):
    """The Markdown of one header, whose name without ending is `stem`. `place(target)` is the address of a link of
    `links`, a `links.Links`."""
    title, sentence, rest = introduction(header)
    out = [f"# `{title}`", sentence, rest]
    found = items(header)
    groups = [("Functions", "function"), ("Types", "struct"), (None, "type"), ("Macros", "macro")]
    for heading, kind in groups:
        chosen = [item for item in found if item.kind == kind]
        if not chosen:
            continue
        if heading or not any(item.kind == "struct" for item in found):
            out.append(f"## {heading or 'Types'}")
        for item in chosen:
            body = [links.with_sources(item.doc, lambda target, text: f"[{text}]({place(target)})")]
            for member in item.members:
                body.append(f"```{{c:member}} {member.signature}\n{member.doc}\n```")
            body += footer(item.name, stem, links, place) if item.is_function else uses(item, stem, links, place)
            fence = "````" if item.members else "```"
            out.append(f"{fence}{{c:{item.kind}}} {item.signature}\n" + "\n\n".join(body) + f"\n{fence}")
    return "\n\n".join(out) + "\n"


def listed(found, place):
    return ", ".join(f"[{text}]({place(target)})" for text, target in found) + "."


def uses(item, stem, links, place):
    found = links.examples(item.name, stem, calls=False) if item.kind != "macro" else []
    return ["Used in: " + listed(found, place)] if found else []


def footer(name, stem, links, place):
    """What the entry of each function ends with."""
    return [f"Since {links.since(name)}.", "Examples: " + listed(links.examples(name, stem), place),
            "Rules: " + listed(links.rules(name, stem), place)]  # fmt: skip


def python(links, place):
    """The entries of the Python package's functions."""
    out = []
    for name, signature, doc in python_functions():
        body = [doc, *footer(f"libcai.{name}", "libcai", links, place)]
        out.append(f"```{{py:function}} libcai.{name}{signature}\n" + "\n\n".join(body) + "\n```")
    return "\n\n## Functions\n\n" + "\n\n".join(out) + "\n"


def python_functions():
    """The name, the signature and the comment of each public function."""
    package = ROOT / "python/libcai"
    # The library makes these functions, so their comments are in the sources of the library.
    made = {}
    for name, file in (("view", "view/mod"), ("empty_like", "empty")):
        text = (ROOT / f"src/python/{file}.rs").read_text()
        doc = re.search(r'const DOC: &CStr =\s+c".*?--(.*?)";', text, re.S)[1]
        made[name] = re.sub(r"\\\n\s*", "", doc).replace("\\n", "\n").strip()
    found = []
    for file in ("__init__.py", "_paths.py", "_native.pyi"):
        for node in ast.parse((package / file).read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
                found.append((node.name, f"({ast.unparse(node.args)}){returns}", ast.get_docstring(node) or made[node.name]))
    return sorted(found)
