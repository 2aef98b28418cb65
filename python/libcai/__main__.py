"""`python -m libcai`: what is installed and found; where the package lies, for build systems; `inspect`."""

import argparse
import importlib
import json
import os
import shlex
import sys

import libcai

from ._ask import describe, plain

FOLDERS = {
    "--cmakedir": (libcai.cmakedir, "folder of the CMake package: -Dcai_DIR=..."),
    "--pkgconfigdir": (libcai.pkgconfigdir, "folder of the pkg-config file: PKG_CONFIG_PATH=..."),
    "--includedir": (libcai.includedir, "folder of the headers"),
    "--libdir": (libcai.libdir, "folder of the libraries"),
    "--library": (libcai.library, "file of the shared library"),
    "--cflags": (lambda: "-I" + shlex.quote(libcai.includedir()), "options for the compiler"),
    "--libs": (
        lambda: _libs(libcai.libdir()),
        "options for the linker; the program finds the library where it is now. With --static: it holds the library",
    ),
    "--version": (lambda: libcai.__version__, "version of the package"),
}

INSPECT = """\
Shows how an object describes its array through each protocol, and what is wrong with it.

EXPRESSION IS EVALUATED as Python code, among the names of MODULE, which is imported. MODULE may be in the current
folder. Only use expressions and modules that you would run."""


def _libs(folder):
    # nodelete: a plug-in with owners stays mapped after dlclose(), as with the CMake and pkg-config packages.
    return shlex.join([f"-L{folder}", "-lcai", f"-Wl,-rpath,{folder}", "-Wl,-z,nodelete"])


def _static_libs(folder):
    # What the library needs, and what an extension that holds it needs, is in the pkg-config file.
    with open(os.path.join(libcai.pkgconfigdir(), "cai.pc")) as file:
        fields = dict(line.rstrip("\n").partition(": ")[::2] for line in file)
    options = fields["Libs"].split() + fields["Libs.private"].split()
    at = options.index("-lcai")
    return shlex.join([f"{folder}/libcai.a", *options[at + 1 :]])


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m libcai", description=libcai.__doc__.partition("\n")[0],
        epilog="Without arguments: what is installed, which driver and which libraries are found, and what the "
        "environment variables say. The exit code is then 0, also without a driver.",
    )  # fmt: skip
    parser.add_argument(
        "--json", action="store_true", dest="report_json", help="without other arguments: as JSON"
    )
    for option, (_, text) in FOLDERS.items():
        # In the order in which they are asked for: --cflags --libs goes into a compiler's command line.
        parser.add_argument(option, action="append_const", dest="asked", const=option, help=text)
    parser.add_argument("--static", action="store_true", help="--libs of the static library")
    commands = parser.add_subparsers(dest="command", metavar="inspect")
    inspect = commands.add_parser(
        "inspect", help="how an object describes its array",
        description=INSPECT, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit code: 0 without errors among the findings, 1 with some, 2 where there is no object.",
    )  # fmt: skip
    inspect.add_argument("object", metavar="MODULE:EXPRESSION", help="for example 'numpy:zeros(3)'")
    inspect.add_argument("--json", action="store_true", help="as JSON")
    inspect.add_argument("--library", dest="file", help="the library that reads it, instead of the package's")
    inspect.add_argument("--no-library", action="store_true", help="only which protocols it offers")
    options = parser.parse_args(arguments)
    if options.report_json and (options.command or options.asked):
        parser.error("--json stands alone, or behind inspect")
    if options.static and "--libs" not in (options.asked or ()):
        parser.error("--static is for --libs")
    if options.command:
        return _inspect(inspect, options)
    if not options.asked:
        return _system(options.report_json)
    try:
        answers = {option: answer for option, (answer, _) in FOLDERS.items()}
        if options.static:
            answers["--libs"] = lambda: _static_libs(libcai.libdir())
        print(*(answers[option]() for option in options.asked))
    except FileNotFoundError as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    return 0


def _system(as_json):
    from . import _system

    found = _system.collect()
    # Paths and variables may hold what the terminal cannot show.
    sys.stdout.reconfigure(errors="backslashreplace")
    print(json.dumps(found, indent=2) if as_json else _system.text(found))
    return 0


def _inspect(parser, options):
    module, colon, expression = options.object.partition(":")
    if not module or not colon or not expression:
        parser.error(f"{options.object!r} is not MODULE:EXPRESSION")
    try:
        names = dict(vars(importlib.import_module(module)))
        obj = eval(expression, names)
    except Exception as error:  # whatever the code raises
        parser.exit(2, f"{parser.prog}: {plain(options.object)}: {describe(error)}\n")
    result = libcai.inspect(obj, library=False if options.no_library else options.file)
    print(result.to_json() if options.json else result)
    return 1 if any(finding.severity == "error" for finding in result.findings) else 0


if __name__ == "__main__":
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has closed its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)
