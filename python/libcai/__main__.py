"""`python -m libcai`: what is installed and found; where the package lies, for build systems; `inspect`."""

from __future__ import annotations

import argparse
import ast
import builtins
import difflib
import importlib
import io
import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import libcai

from ._ask import describe
from ._report import plain

FOLDERS: dict[str, tuple[Callable[[], str], str]] = {
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

USAGE = """\
%(prog)s [--json]
       %(prog)s OPTION...
       %(prog)s inspect [options] MODULE:EXPRESSION
       %(prog)s check [options] MODULE:EXPRESSION"""

DESCRIPTION = """\
Without arguments: what is installed, which driver and which libraries are found, and what the environment variables
say. With options: where the parts of the package are. `inspect`: how an object describes its array. `check`: whether
a type exchanges its arrays correctly."""

EPILOG = """\
examples:
  %(prog)s
  cc program.c $(%(prog)s --cflags --libs) -o program
  cmake -S . -B build -Dcai_DIR="$(%(prog)s --cmakedir)"
  %(prog)s inspect 'numpy:zeros(3)'

exit codes:
  0  success; without arguments, also if there is no driver
  1  a part of the package is missing, because it is not installed
  2  wrong arguments
`%(prog)s inspect --help` and `%(prog)s check --help` have theirs."""

INSPECT = """\
Shows how an object describes its array through each protocol, and what is wrong with it.

EXPRESSION IS EVALUATED as Python code, among the names of MODULE, which is imported. Names that MODULE lacks are
submodules of it, or other modules. Modules may be in the current folder. Only use expressions and modules that you
would run."""

INSPECT_EPILOG = """\
examples:
  %(prog)s 'numpy:zeros(3)'
  %(prog)s 'numpy:ma.array([1, 2], mask=[0, 1])'
  %(prog)s 'torch:from_numpy(numpy.ones(3))' --json

exit codes:
  0  no finding is an error
  1  at least one finding is an error
  2  wrong arguments, or an expression without a value"""


CHECK = """\
Checks that a type exports its arrays correctly: layouts, types, the arguments of __dlpack__, lifetime, captures and
threads; under `cuda-sim run` also the order of streams.

EXPRESSION IS EVALUATED as by `inspect`. Its value is a function `make(shape, dtype)` that returns a new array without
pending work, where dtype is a name such as "float32"; or one without parameters; or an array. With --consumer it is a function
`take(obj)` that returns an array over the memory of an object of another library."""

CHECK_EPILOG = """\
examples:
  %(prog)s mine:make_array
  cuda-sim run --print=exit --devices=2 %(prog)s mine:make_array --on=mine:stream_context
  cuda-sim run --print=exit %(prog)s --consumer mine:asarray --on=mine:stream_context
  %(prog)s mine:make_array --known='dlpack-host=copies are made by .get()'

exit codes:
  0  there is no fault
  1  there is a fault, or a check could not be run to its end
  2  wrong arguments, an expression without a value, or no array"""

_FUNCTIONS = {
    "on": "on(stream): a context, inside of which the library's current stream is that number",
    "work": "work(array): enqueues writes of the whole array on the current stream",
    "late": "late(): a new array with pending writes on a stream of its own, instead of --on and --work",
    "fresh": "fresh(): a context, inside of which a new stream of the library is current",
    "done": "with --consumer: done(array) ends the use",
    "device": "device(number): a context, inside of which arrays are made on that device",
}


def _libs(folder: str) -> str:
    # nodelete: a plug-in with owners stays mapped after dlclose(), as with the CMake and pkg-config packages.
    return shlex.join([f"-L{folder}", "-lcai", f"-Wl,-rpath,{folder}", "-Wl,-z,nodelete"])


def _static_libs(folder: str) -> str:
    # What the library needs, and what an extension that holds it needs, is in the pkg-config file.
    with open(os.path.join(libcai.pkgconfigdir(), "cai.pc")) as file:
        parts = (line.rstrip("\n").partition(": ") for line in file)
        fields = {name: value for name, _, value in parts}
    options = fields["Libs"].split() + fields["Libs.private"].split()
    at = options.index("-lcai")
    return shlex.join([f"{folder}/libcai.a", *options[at + 1 :]])


def main(arguments: Sequence[str] | None = None) -> int:
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m libcai", usage=USAGE, description=DESCRIPTION, epilog=EPILOG, formatter_class=as_written
    )
    parser.add_argument("--json", action="store_true", dest="report_json", help="the report without arguments, as JSON")
    for option, (_, text) in FOLDERS.items():
        # In the order in which they are asked for: --cflags --libs goes into a compiler's command line.
        parser.add_argument(option, action="append_const", dest="asked", const=option, help=text)
    parser.add_argument("--static", action="store_true", help="--libs of the static library")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    inspect = commands.add_parser(
        "inspect", prog=f"{parser.prog} inspect", help="shows how an object describes its array",
        description=INSPECT, epilog=INSPECT_EPILOG, formatter_class=as_written,
    )  # fmt: skip
    inspect.add_argument("object", metavar="MODULE:EXPRESSION", help="for example 'numpy:zeros(3)'")
    inspect.add_argument("--json", action="store_true", help="as JSON")
    inspect.add_argument("--library", dest="file", help="the library that reads it, instead of the package's")
    inspect.add_argument("--no-library", action="store_true", help="only which protocols it offers")
    check = commands.add_parser(
        "check", prog=f"{parser.prog} check", help="checks that a type exchanges arrays correctly",
        description=CHECK, epilog=CHECK_EPILOG, formatter_class=as_written,
    )  # fmt: skip
    check.add_argument("object", metavar="MODULE:EXPRESSION", nargs="?", help="for example mine:make_array")
    for name, text in _FUNCTIONS.items():
        check.add_argument(f"--{name}", metavar="MODULE:EXPRESSION", help=text)
    check.add_argument("--consumer", action="store_true", help="checks how arrays of others are taken")
    check.add_argument("--known", action="append", default=[], metavar="CHECK=REASON", help="a fault that is meant")
    check.add_argument("--json", action="store_true", help="as JSON")
    check.add_argument("--junit", metavar="FILE", help="also writes a report for JUnit")
    check.add_argument("--library", dest="file", help="the library that reads arrays, instead of the package's")
    check.add_argument("--rules", action="store_true", help="lists all checks, their rules and sources")
    said = list(sys.argv[1:] if arguments is None else arguments)
    near = difflib.get_close_matches(said[0], commands.choices, 1) if said and said[0] not in commands.choices else []
    if near:
        parser.error(f"there is no command {said[0]!r}; did you mean {near[0]!r}?")
    options = parser.parse_args(said)
    if options.report_json and (options.command or options.asked):
        parser.error("--json stands alone, or behind a command")
    if options.static and "--libs" not in (options.asked or ()):
        parser.error("--static is for --libs")
    if options.command:
        return _check(check, options) if options.command == "check" else _inspect(inspect, options)
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


def _system(as_json: bool) -> int:
    from . import _system

    found = _system.collect()
    # Paths and variables may hold what the terminal cannot show.
    output: object = sys.stdout
    if isinstance(output, io.TextIOWrapper):
        output.reconfigure(errors="backslashreplace")
    print(json.dumps(found, indent=2) if as_json else _system.text(found))
    return 0


def _inspect(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    obj = _value(parser, options.object)
    result = libcai.inspect(obj, library=False if options.no_library else options.file)
    print(result.to_json() if options.json else result)
    return 1 if any(finding.severity == "error" for finding in result.findings) else 0


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    if options.rules:
        from ._rules import table

        print(table())
        return 0
    if not options.object:
        parser.error("MODULE:EXPRESSION is missing")
    import faulthandler

    from .testing._consumer import consumer_report
    from .testing._producer import producer_report

    if sys.__stderr__ is not None:
        faulthandler.enable(sys.__stderr__)  # some faults crash: it says in which check
    made = _value(parser, options.object)
    functions = {name: _value(parser, said) for name in _FUNCTIONS if (said := getattr(options, name))}
    known = {name: reason for name, _, reason in (said.partition("=") for said in options.known)}
    if not all(known.values()):
        parser.error("--known: the reason is missing")
    if set(functions) - {"on", "done"} if options.consumer else "done" in functions:
        parser.error("--consumer goes with --on and --done, and --done with --consumer")
    functions.update(known=known, library=options.file, name=options.object)
    try:
        if options.consumer:
            report = consumer_report(made, **functions)
        else:
            report = producer_report(made if callable(made) else lambda: made, **functions)
    except Exception as error:  # whatever the first array raises
        parser.exit(2, f"{parser.prog}: {plain(options.object)}: {describe(error)}\n")
    if options.junit:
        with open(options.junit, "w", encoding="utf-8") as file:
            file.write(report.to_junit())
    print(report.to_json() if options.json else report)
    return 0 if report.passed else 1


def _value(parser: argparse.ArgumentParser, said: str) -> Any:
    """The value of MODULE:EXPRESSION. Without one, the program ends."""
    module, colon, expression = said.partition(":")
    if not module or not colon or not expression:
        parser.error(f"{said!r} is not MODULE:EXPRESSION")
    if os.getcwd() not in sys.path:  # the command `libcai` has its own folder there
        sys.path.insert(0, os.getcwd())
    try:
        return _evaluate(importlib.import_module(module), expression)
    except Exception as error:  # whatever the code raises
        parser.exit(2, f"{parser.prog}: {plain(said)}: {describe(error)}\n")


def _evaluate(module: ModuleType, expression: str) -> Any:
    """The value of an expression among the names of a module."""
    tree = ast.parse(expression.strip(), "<expression>", "eval")
    names = dict(vars(module))
    used = [node for node in ast.walk(tree) if isinstance(node, (ast.Name, ast.Attribute))]
    own = {node.id for node in used if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for node in used:
        path = ast.unparse(node).split(".")
        if all(map(str.isidentifier, path)) and path[0] not in own:
            _import(module, names, path)
    return eval(compile(tree, "<expression>", "eval"), names)


def _import(module: ModuleType, names: dict[str, Any], path: list[str]) -> None:
    """Imports what an expression such as `a.b.c` needs, and adds the first name to those of the module."""
    first, *others = path
    if first not in names:
        found = _part(module, first)
        if found is None:
            if hasattr(builtins, first):
                return
            found = _module(first)
        if found is None:
            return  # the expression raises NameError
        names[first] = found
    found = names[first]
    for name in others:
        if not isinstance(found, ModuleType):
            return
        found = _part(found, name)


def _part(module: ModuleType, name: str) -> Any:
    """An attribute of a module, or a submodule."""
    try:
        return getattr(module, name)  # packages import some of their modules then
    except AttributeError:
        return _module(f"{module.__name__}.{name}") if hasattr(module, "__path__") else None


def _module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None


def _run() -> int:
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has closed its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    return code


if __name__ == "__main__":
    sys.exit(_run())
