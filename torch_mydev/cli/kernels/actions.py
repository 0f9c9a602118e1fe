"""The actions of ``mydev kernels`` that want kernels registered with PyTorch; mydev.cli.kernels says what they take."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import wraps
from typing import Any

from mydev.cli.kernels.errors import Failure
from mydev.cli.output import print_findings, print_json, print_table
from mydev.wording import counted
from torch_mydev import _autoload
from torch_mydev._device_name import DEVICE_NAME

_BUILT_IN = "mydev."


def _with_device(action: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Registers the device before the action."""

    @wraps(action)
    def run(options: argparse.Namespace) -> int:
        _autoload.register_for_program()
        return action(options)

    return run


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
        raise Failure(f"{error}\n'mydev kernels why {options.name}' says where it was looked for") from error


@_with_device
def list_kernels(options: argparse.Namespace) -> int:
    """Lists the kernels that there are, and those that the driver brings."""
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


def _drivers_own(name: str) -> str:
    """Says that the driver has a record of that name, with its dtypes. A contract is shown without a device too."""
    from torch_mydev import custom_call
    from torch_mydev.device.devices import is_available

    own = [info for info in custom_call.drivers_kernels() if info["name"] == name] if is_available() else []
    return "".join(f"{info['library']} has its own, which takes {_summary(info)}" for info in own)


def _summary(info: Any) -> str:
    """A line about a kernel: the dtypes that a driver's takes, its own words, or what its contract says."""
    limits = info.get("limits")
    if limits and (limits["dtypes"] or limits["operands"]):
        own = [f"{name}: {' '.join(of['dtypes'])}" for name, of in limits["operands"].items() if of["dtypes"]]
        return "; ".join(filter(None, [" ".join(limits["dtypes"] or ()), *own]))
    return str(info["doc"] or (info["contract"] or {}).get("operands", ""))


@_with_device
def describe_kernel(options: argparse.Namespace) -> int:
    """Prints everything that a kernel's record says, and what the driver's own record of that name takes."""
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
        "device": _drivers_own(info["name"]),
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


@_with_device
def call_kernel(options: argparse.Namespace) -> int:
    """Calls a kernel once and prints its results."""
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


@_with_device
def bench_kernel(options: argparse.Namespace) -> int:
    """Times a kernel."""
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


@_with_device
def check_operator(options: argparse.Namespace) -> int:
    """PyTorch's own checks of the operator, and of its gradient."""
    from torch_mydev.cli.kernels.call import opcheck
    from torch_mydev.cli.kernels.operands import parse

    info = _info(options)
    operands = parse(options.operands, DEVICE_NAME, options.seed)
    return print_findings(opcheck(info, operands), as_json=options.json)


@_with_device
def explain_kernel(options: argparse.Namespace) -> int:
    """Says why a kernel is found or not, and what shadows it."""
    from torch_mydev.cli.kernels import search

    _load(options)
    return print_findings(search.why(options.name), as_json=options.json)
