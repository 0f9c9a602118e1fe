"""``kernels``: what custom calls there are, what they are like, and whether they work.

Every action is a row of ``ACTIONS``. Text is for people, a table where there are columns; --json is for programs. Exit
code: 0 fine, 1 a problem was found, 2 the command line cannot be understood.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from torch_mydev import _autoload
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.cli.arguments import above_zero, check_command
from torch_mydev.cli.conform.suite import ConformError, Result
from torch_mydev.cli.finding import Finding, describe
from torch_mydev.cli.kernels import ahead, check, new_library
from torch_mydev.cli.output import console, print_json, print_table
from torch_mydev.wording import counted

_BUILT_IN = "mydev."
_OPERANDS = "f32[2,3]=1,2,3,4,5,6, f32[4]=random|zeros|ones|arange, file.npy, none; attributes as name=value"


class _Failure(Exception):
    """Ends the command with a message and exit code 1."""


def _report(findings: Sequence[Finding], options: argparse.Namespace) -> int:
    """Prints findings; 1 if one is a problem."""
    if options.json:
        print_json([asdict(finding) for finding in findings])
    else:
        styles = {"ok": "green", "note": "yellow", "problem": "bold red"}
        out = console()
        for finding, text in zip(findings, describe(findings), strict=True):
            out.print(Text(text[:4], styles[finding.state]), Text(text[4:]), sep="", soft_wrap=True)
    return int(any(finding.state == "problem" for finding in findings))


def _load(options: argparse.Namespace) -> None:
    from torch_mydev import custom_call

    for file in options.load:
        custom_call.load_custom_calls(file)


def _info(options: argparse.Namespace) -> Any:
    from torch_mydev import custom_call

    _load(options)
    try:
        return custom_call.kernel_info(options.name)
    except ValueError as error:
        raise _Failure(f"{error}\n'mydev kernels why {options.name}' says where it was looked for") from error


# --- actions ----------------------------------------------------------------------------------------------------------


def _list(options: argparse.Namespace) -> int:
    from torch_mydev import custom_call

    _load(options)
    names = [name for name in custom_call.kernels() if options.pattern in name]
    hidden = 0 if options.all else sum(name.startswith(_BUILT_IN) for name in names)
    shown = names if options.all else [name for name in names if not name.startswith(_BUILT_IN)]
    infos: list[Any] = [info for info in custom_call.drivers_kernels() if options.pattern in info["name"]]
    infos += [custom_call.kernel_info(name) for name in shown]
    if options.json:
        print_json(infos)
        return 0
    if infos:
        rows = [(info["name"], info["kind"], info["platform"], info["library"], _summary(info)) for info in infos]
        print_table(("kernel", "kind", "platform", "library", ""), rows)
    else:
        print("no kernels" + (f" with '{options.pattern}' in the name" if options.pattern else ""))
    if hidden:
        print(f"{counted(hidden, 'built-in kernel')} not shown; --all shows them")
    return 0


def _summary(info: Any) -> str:
    """A line about a kernel: the dtypes that a driver's takes, its own words, or what its contract says."""
    limits = info.get("limits")
    if limits and (limits["dtypes"] or limits["operands"]):
        own = [f"{name}: {' '.join(of['dtypes'])}" for name, of in limits["operands"].items() if of["dtypes"]]
        return "; ".join(filter(None, [" ".join(limits["dtypes"] or ()), *own]))
    return str(info["doc"] or (info["contract"] or {}).get("operands", ""))


def _describe(options: argparse.Namespace) -> int:
    info = _info(options)
    if options.json:
        print_json(info)
        return 0
    gradient, signature, contract = info["gradient"], info["signature"], info["contract"] or {}
    facts = {
        "kernel": info["name"],
        "": info["doc"],
        "takes": contract.get("operands"),
        "types": contract.get("types"),
        "computes": contract.get("expression"),
        "notes": contract.get("notes"),
        "library": info["library"],
        "file": info["file"],
        "kind": f"{info['kind']}, on {info['platform']}",
        "traits": ", ".join(info["traits"]),
        "stages": ", ".join(info["stages"]) if info["stages"] != ["execute"] else "",
        "operator": f"torch.ops.mydev_cc.{info['schema']}" if info["schema"] else "none, for want of a signature",
        "shapes": info["shapes"] or ("computed by the kernel" if signature else ""),
        "gradient": f"{gradient['kernel']}, for operands {gradient['wrt']}"
        if gradient
        else "of the expression"
        if info["differentiable"]
        else "",
        "batching": info["batching"] if signature else "",
        "dense copies": str(info["dense_copies"]) if info["dense_copies"] else "",
    }
    print_table(("", ""), [(name, text) for name, text in facts.items() if text])
    if signature:
        print_table(("", "name", "type", "rank", ""), _signature_rows(signature))
    return 0


def _signature_rows(signature: Any) -> Iterable[tuple[str, str, str, str, str]]:
    for operand in signature["operands"]:
        low, high = operand["rank_min"], operand["rank_max"]
        rank = str(low) if low == high else f"{low} to {high}" if high is not None else f"{low} or more"
        flags = [flag for flag in ("optional", "variadic", "strided") if operand[flag]]
        like = [f"like {operand['like']}"] if operand["like"] else []
        notes = ", ".join(filter(None, [*like, *flags, operand["doc"]]))
        yield "operand", operand["name"], "|".join(operand["dtypes"]), rank, notes
    for attribute in signature["attributes"]:
        default = "required" if attribute["required"] else f"default {attribute['default']!r}"
        kind = attribute["kind"] + (f" ({attribute['dtype']})" if attribute["dtype"] else "")
        yield "attribute", attribute["name"], kind, "", ", ".join(filter(None, [default, attribute["doc"]]))
    for result in signature["results"]:
        dtype = "|".join(result["dtypes"]) or f"like {result['like']}"
        alias = f"is operand {result['alias']}" if result["alias"] else "variadic" if result["variadic"] else ""
        yield "result", result["name"], dtype, "", ", ".join(filter(None, [alias, result["doc"]]))


def _check(options: argparse.Namespace) -> int:
    return _report(check.check(Path(options.file).absolute(), options.timeout), options)


def _call(options: argparse.Namespace) -> int:
    from torch_mydev.cli.kernels.call import bind, results_of
    from torch_mydev.cli.kernels.operands import describe, parse

    info = _info(options)
    operands = parse(options.operands, DEVICE_NAME, options.seed)
    results = [tensor.cpu() for tensor in results_of(bind(info, operands, options.result)())]
    if options.json:
        rows = [{"type": describe(t), "values": _plain(t)} for t in results]
        print_json(rows)
    else:
        for tensor in results:
            print(f"{describe(tensor)}\n{str(tensor).removeprefix('tensor(').removesuffix(')')}")
    return 0


def _plain(tensor: Any) -> Any:
    if tensor.is_complex():
        return _plain(tensor.view(tensor.real.dtype).reshape(*tensor.shape, 2))
    return tensor.float().tolist() if tensor.dtype.is_floating_point and tensor.dtype.itemsize < 4 else tensor.tolist()


def _bench(options: argparse.Namespace) -> int:
    from torch_mydev.cli.kernels.call import bench, bind
    from torch_mydev.cli.kernels.operands import parse

    info = _info(options)
    operands = parse(options.operands, DEVICE_NAME, options.seed)
    call = bind(info, operands, options.result)
    timing = bench(call, operands.tensors, options.rounds)
    if options.json:
        print_json(asdict(timing))
    else:
        rate = timing.bytes / timing.median / 1e9
        print(
            f"{info['name']}: median {timing.median * 1e6:.2f} us per call, fastest {timing.fastest * 1e6:.2f} us, "
            f"{timing.calls} calls, {rate:.2f} GB/s of operands and results"
        )
    return 0


def _opcheck(options: argparse.Namespace) -> int:
    from torch_mydev.cli.kernels.call import opcheck
    from torch_mydev.cli.kernels.operands import parse

    info = _info(options)
    operands = parse(options.operands, DEVICE_NAME, options.seed)
    return _report(opcheck(info, operands), options)


def _compile(options: argparse.Namespace) -> int:
    """A line for each kernel as it ends: how many forms are compiled, or why none is."""
    try:
        results = ahead.compile_kernels(options.names, options.timeout)
        rows = [_compiled(result, print_it=not options.json) for result in results]
    except ConformError as error:
        raise _Failure(str(error)) from error
    if options.json:
        print_json(rows)
    return int(not rows or any(row["status"] == "failed" for row in rows))


def _compiled(result: Result, *, print_it: bool) -> dict[str, Any]:
    planned, declined = (int(result.told.get(name, 0)) for name in ("planned", "declined"))
    row = {"kernel": result.case.name, "status": result.status, "compiled": planned, "declined": declined}
    if print_it and not result.case.prerequisite:
        forms = f"{planned} forms, {declined} declined, {result.seconds:.1f} s"
        said = forms if result.status == "passed" else "; ".join(result.messages)
        console().print(Text(f"{result.case.name:<36} {result.status:<8} {said}"), soft_wrap=True)
    elif print_it and result.status != "passed":  # nothing else is tried
        console().print(Text("; ".join(result.messages)), soft_wrap=True)
    return {**row, "seconds": result.seconds, "messages": result.messages}


def _why(options: argparse.Namespace) -> int:
    from torch_mydev.cli.kernels import search

    _load(options)
    return _report(search.why(options.name), options)


def _new(options: argparse.Namespace) -> int:
    directory = Path(options.directory)
    try:
        name = options.name or re.sub(r"[-. ]", "_", directory.resolve().name)
        files = new_library.write(options.template, directory, name)
    except (OSError, ValueError) as error:
        raise _Failure(str(error)) from error
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
    run: Callable[[argparse.Namespace], int]
    arguments: tuple[_Argument, ...]
    needs_device: bool = True


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
        _list,
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
        needs_device=False,
    ),
    _Action("info", "everything that a kernel's record says", _describe, (_NAME, _LOAD)),
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
        needs_device=False,
    ),
    _Action("call", "call a kernel once and print its results", _call, (*_CALL, _RESULT)),
    _Action(
        "bench",
        "time a kernel",
        _bench,
        (*_CALL, _RESULT, _argument("--rounds", type=above_zero(int), default=25, help="of a fiftieth of a second")),
    ),
    _Action("opcheck", "PyTorch's own checks of the operator, and of its gradient", _opcheck, _CALL),
    _Action(
        "new",
        "start a library: a CMake project that builds and tests a kernel",
        _new,
        (
            _argument("template", choices=new_library.TEMPLATES, help="the kernel's kind"),
            _argument("directory", metavar="DIRECTORY", help="to make"),
            _argument("--name", help="of the library; the directory's by default"),
        ),
        needs_device=False,
    ),
    _Action("why", "why a kernel is found or not, and what shadows it", _why, (_NAME, _LOAD)),
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
        if action.needs_device:
            _autoload.register_for_program()
        return action.run(options)
    except ImportError as error:
        print(f"error: {error}\n'mydev doctor' explains the installation", file=sys.stderr)
        return 1
    except _Failure as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        from torch_mydev.cli.kernels.operands import UsageError

        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
