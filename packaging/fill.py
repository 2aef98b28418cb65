#!/usr/bin/env python3
"""Writes the recipes of a release: fill.py --url URL --source ARCHIVE [--binary ARCHIVE] FOLDER

The recipes beside this file are templates. They name the version, the folder of the release's files (URL) and the sums of
its archives: @VERSION@, @URL@, @SHA256@, @BINARY@, @BINARY_SHA256@. The filled ones are written to FOLDER.
"""

import argparse
import hashlib
import pathlib
import re
import shutil

HERE = pathlib.Path(__file__).resolve().parent
RECIPES = ("cmake", "conan", "meson")
# What stands in a recipe that needs the binary archive, where none was given.
MISSING = "0" * 64


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def version():
    return re.search(r'^version = "([\d.]+)"$', (HERE.parent / "Cargo.toml").read_text(), re.M)[1]


def fill(folder, url, source, binary=None):
    values = {
        "VERSION": version(),
        "URL": url.rstrip("/"),
        "SHA256": digest(source),
        "BINARY": binary.name if binary else f"libcai-{version()}-x86_64-linux-gnu.tar.xz",
        "BINARY_SHA256": digest(binary) if binary else MISSING,
    }
    if source.name != f"libcai-{version()}.tar.xz":
        raise SystemExit(f"fill.py: found {source.name}, expected libcai-{version()}.tar.xz")
    for recipe in RECIPES:
        for path in sorted((HERE / recipe).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                text = re.sub(f"@({'|'.join(values)})@", lambda match: values[match[1]], path.read_text())
                target = folder / path.relative_to(HERE)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text)
    shutil.copy(HERE / "cmake/mine.c", folder / "conan/test_package/test_package.c")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="where the release's files can be downloaded")
    parser.add_argument("--source", required=True, type=pathlib.Path, help="dist/libcai-VERSION.tar.xz")
    parser.add_argument("--binary", type=pathlib.Path, help="dist/libcai-VERSION-x86_64-linux-gnu.tar.xz")
    parser.add_argument("folder", type=pathlib.Path)
    options = parser.parse_args()
    fill(options.folder, options.url, options.source, options.binary)


if __name__ == "__main__":
    main()
