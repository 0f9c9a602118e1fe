"""``kernels``: what custom calls there are, what they are like, and whether they work.

Every action is a row of ``ACTIONS``; torch_mydev has those that want kernels registered with PyTorch. Text is for
people, a table where there are columns; --json is for programs. Exit code: 0 fine, 1 a problem was found, 2 the command
line cannot be understood.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from mydev.cli import added
from mydev.cli.arguments import above_zero, check_command
from mydev.cli.conform.suite import ConformError, Result
from mydev.cli.kernels import ahead, check, new_library
from mydev.cli.kernels.errors import Failure, UsageError
from mydev.cli.output import console, print_findings, print_json

_OPERANDS = "f32[2,3]=1,2,3,4,5,6, f32[4]=random|zeros|ones|arange, file.npy, none; attributes as name=value"


def _check(options: argparse.Namespace) -> int:
    return print_findings(check.check(Path(options.file).absolute(), options.timeout), as_json=options.json)


def _compile(options: argparse.Namespace) -> int:
    """A line for each kernel as it ends: how many forms are compiled, or why none is."""
    try:
        results = ahead.compile_kernels(options.names, options.timeout)
        rows = [_compiled(result, print_it=not options.json) for result in results]
    except ConformError as error:
        raise Failure(str(error)) from error
    if options.json:
        print_json(rows)
    return int(not rows or any(row["status"] == "failed" for row in rows))


def _compiled(result: Result, *, print_it: bool) -> dict[str, Any]:
    planned, declined = (int(result.reported.get(name, 0)) for name in ("planned", "declined"))
    row = {"kernel": result.case.name, "status": result.status, "compiled": planned, "declined": declined}
    if print_it and not result.case.prerequisite:
        forms = f"{planned} forms, {declined} declined, {result.seconds:.1f} s"
        said = forms if result.status == "passed" else "; ".join(result.messages)
        console().print(Text(f"{result.case.name:<36} {result.status:<8} {said}"), soft_wrap=True)
    elif print_it and result.status != "passed":  # nothing else is tried
        console().print(Text("; ".join(result.messages)), soft_wrap=True)
    return {**row, "seconds": result.seconds, "messages": result.messages}


def _new(options: argparse.Namespace) -> int:
    directory = Path(options.directory)
    try:
        name = options.name or re.sub(r"[-. ]", "_", directory.resolve().name)
        files = new_library.write(options.template, directory, name)
    except (OSError, ValueError) as error:
        raise Failure(str(error)) from error
    if options.json:
        print_json([str(file) for file in files])
    else:
        print("\n".join(map(str, files)))
        source, build = (shlex.quote(str(path)) for path in (directory, directory / "build"))
        python = shlex.quote(f"-DPython_EXECUTABLE={sys.executable}")  # else CMake may find one without the package
        print(f"cmake -S {source} -B {build} {python} && cmake --build {build} && ctest --test-dir {build}")
    return 0


# --- the command line -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Argument:
    """Arguments of ArgumentParser.add_argument."""

    flags: tuple[str, ...]
    settings: dict[str, Any]


def _argument(*flags: str, **settings: Any) -> _Argument:
    return _Argument(flags, settings)


@dataclass(frozen=True)
class _Action:
    name: str
    help: str
    run: Callable[[argparse.Namespace], int] | None  #: None: torch_mydev has it
    arguments: tuple[_Argument, ...]


_LOAD = _argument("--load", action="append", default=[], metavar="FILE", help="load this library first")
_NAME = _argument("name", metavar="NAME", help="of a kernel")
_CALL = (
    _NAME,
    _LOAD,
    _argument("operands", nargs="*", metavar="OPERAND", help=_OPERANDS),
    _argument("--seed", type=int, default=0, help="of random operands"),
)
_RESULT = _argument(
    "--result",
    action="append",
    default=[],
    metavar="SHAPE",
    help="f32[2,3]: of each result, if there is no signature",
)

ACTIONS = (
    _Action(
        "list",
        "the kernels that there are, and those that the driver brings",
        None,
        (
            _argument("pattern", nargs="?", default="", metavar="TEXT", help="those with this in their name"),
            _argument("--all", action="store_true", help="built-in kernels too"),
            _LOAD,
        ),
    ),
    _Action(
        "compile",
        "compile the portable kernels for the driver's device, so that nobody waits for them later",
        _compile,
        (
            _argument("names", nargs="*", metavar="TEXT", help="those with this in their name; without it all"),
            _argument(
                "--timeout", type=above_zero(float), default=ahead.TIMEOUT, metavar="SECONDS", help="for each kernel"
            ),
        ),
    ),
    _Action("info", "everything that a kernel's record says", None, (_NAME, _LOAD)),
    _Action(
        "check",
        "whether a file is a library that will load, tried in a child process",
        _check,
        (
            _argument("file", metavar="FILE", help="of a library"),
            _argument(
                "--timeout",
                type=above_zero(float),
                default=check.TIMEOUT,
                metavar="SECONDS",
                help="for each child process",
            ),
        ),
    ),
    _Action("call", "call a kernel once and print its results", None, (*_CALL, _RESULT)),
    _Action(
        "bench",
        "time a kernel",
        None,
        (*_CALL, _RESULT, _argument("--rounds", type=above_zero(int), default=25, help="of a fiftieth of a second")),
    ),
    _Action("opcheck", "PyTorch's own checks of the operator, and of its gradient", None, _CALL),
    _Action(
        "new",
        "start a library: a CMake project that builds and tests a kernel",
        _new,
        (
            _argument("template", choices=new_library.TEMPLATES, help="the kernel's kind"),
            _argument("directory", metavar="DIRECTORY", help="to make"),
            _argument("--name", help="of the library; the directory's by default"),
        ),
    ),
    _Action("why", "why a kernel is found or not, and what shadows it", None, (_NAME, _LOAD)),
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mydev kernels", description="Custom calls: kernels of your own.")
    subparsers = parser.add_subparsers(dest="action", metavar="action", required=True)
    for action in ACTIONS:
        sub = subparsers.add_parser(
            action.name, help=action.help, description=f"{action.help[0].upper()}{action.help[1:]}."
        )
        for argument in action.arguments:
            sub.add_argument(*argument.flags, **argument.settings)
        sub.add_argument("--json", action="store_true", help="print JSON")
        sub.set_defaults(chosen=action)
    return parser


def _added(name: str) -> Callable[[argparse.Namespace], int]:
    run: Callable[[argparse.Namespace], int] = added.load(f"kernels.{name}")
    return run


def run(arguments: Sequence[str]) -> int:
    """The subcommand; returns its exit code."""
    parser = _parser()
    check_command(parser, arguments, [action.name for action in ACTIONS])
    options, rest = parser.parse_known_args(arguments)
    if rest and (any(word.startswith("-") for word in rest) or not hasattr(options, "operands")):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:  # operands behind an option, which argparse does not take
        options.operands += rest
    action: _Action = options.chosen
    try:
        return (action.run or _added(action.name))(options)
    except added.Unavailable as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except ImportError as error:
        print(f"error: {error}\n'mydev doctor' explains the installation", file=sys.stderr)
        return 1
    except Failure as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # nobody reads on: the command ends quietly
        raise
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
