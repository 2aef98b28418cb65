"""The pages of docs/ and the README: their programs print what they say, their links lead somewhere, each is listed."""

import ast
import os
import re

import pytest

from commands import HEADERS, SIM, run

PAGES = [SIM / "README.md", SIM / "CHANGELOG.md", *sorted((SIM / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
NAMED = re.compile(r"/\* (\S+\.\w+) \*/\n")


def clean(text):
    """Lines without addresses and folders, which differ."""
    return [re.sub(r"\S*/(?=\w)", "", re.sub(r"0x[0-9a-f]+", "0x", line)) for line in text.splitlines()]


@pytest.mark.parametrize("page", ["using", "reference"])
def test_what_the_page_says_is_printed(tmp_path, page):
    """As a reader pastes it: a block with a file name is saved, all `sh` blocks run in one shell, and each line of a
    `text` block is one that the `sh` block before it prints."""
    script, expected = ["set -eu", "exec 2>&1"], []
    for language, text in BLOCK.findall((SIM / f"docs/{page}.md").read_text()):
        named = NAMED.match(text)
        if named:
            script.append(f"cat > {named[1]} <<'END_OF_FILE'\n{text}END_OF_FILE")
        elif language == "sh":
            script.append(f"echo '--- part'\n{text}")
            expected.append([])
        elif language == "text":
            expected[-1] = clean(text)
    run("make", "install", f"PREFIX={tmp_path}/sim", timeout=300)
    environment = {"PATH": f"{tmp_path}/sim/bin:{os.environ['PATH']}", "CUDA_HOME": str(HEADERS["13"].parent)}
    printed = run("bash", "-c", "\n".join(script), cwd=tmp_path, env=environment).stdout.split("--- part\n")[1:]
    assert len(printed) == len(expected) and any(expected)
    for lines, text in zip(expected, printed):
        assert not set(lines) - set(clean(text)), text


def programs():
    for page in PAGES:
        for language, text in re.findall(r"```(c|cpp)\n(.*?)```", page.read_text(), re.S):
            if "#include <cudasim" in text:
                yield pytest.param(language, text, id=f"{page.stem}-{language}")


@pytest.mark.parametrize("language, text", list(programs()))
def test_programs_compile(tmp_path, language, text):
    source = tmp_path / f"program.{language}"
    source.write_text(text)
    compiler = ["gcc", "-std=c99"] if language == "c" else ["g++", "-std=c++17"]
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", SIM / "include", "-isystem", HEADERS["13"]]
    run(*compiler, *strict, "-c", source, "-o", tmp_path / "program.o")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks(page):
    """They parse, and fit a narrow window."""
    for language, text in BLOCK.findall(page.read_text()):
        assert language == "text" or [line for line in text.splitlines() if len(line) > 85] == []
        if language == "python":
            ast.parse(text)
        elif language == "sh":
            run("bash", "-n", input=text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links(page):
    """No link leaves the folder of cuda-sim."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
    for target in re.findall(r"\]\(([^)#]+)", prose):
        assert "://" in target or (page.parent / target).exists() and (page.parent / target).resolve().is_relative_to(SIM), target
    for file in re.findall(r"`((?:core|cli|driver|runtime|shadow|redirect|threads|tests|conformance)/[\w./-]+)`", page.read_text()):
        assert (SIM / file).exists() or (page.parent / file).exists(), file


def test_every_page_is_listed():
    listed = set(re.findall(r"\(docs/(\w+\.md)\)", (SIM / "README.md").read_text()))
    made = {"driver_rules.md", "entry_points.md"}  # by `make docs`, as files
    assert listed == {page.name for page in (SIM / "docs").glob("*.md")} - made
