"""``kernels call``, ``bench`` and ``opcheck``: one call of a kernel from text, its time, and PyTorch's own checks."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from mydev.cli.finding import Finding
from mydev.cli.kernels.errors import UsageError
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.cli.kernels.operands import Operands, parse_shape, random_tensor
from torch_mydev.custom_call import KernelInfo, SignatureInfo, ffi_call
from torch_mydev.custom_call.dtypes import DTYPES

_API_VERSIONS = {"original": 1, "status": 2, "unified": 3}
_TURN_SECONDS = 0.02
_CHECKS = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
# opcheck asks it of CPU, CUDA and XPU only; an operator's registration is the same for all devices.
_CHECK_ON_CPU = "test_autograd_registration"
# How far opcheck's own operands go: the size that each name of a shape rule has, and what "..." stands for.
_SIZE, _ELLIPSIS = 4, (2,)


def bind(info: KernelInfo, operands: Operands, results: Sequence[str]) -> Callable[[], Any]:
    """A function that calls the kernel: its operator, or ffi_call where ``results`` gives the results' shapes."""
    if info["operator"] is not None and not results:
        operator = getattr(torch.ops.mydev_cc, info["operator"])
        arguments = _group_variadic(info["signature"], operands.tensors)
        return lambda: operator(*arguments, **_texts(operands.attributes))
    if not results:
        advice = "say what its results are: --result f32[2,3], once per result"
        raise UsageError(f"{info['name']} has no signature, so {advice}")
    shapes = [parse_shape(text) for text in results]
    version = _API_VERSIONS.get(info["kind"].partition("_")[0], 4)
    attributes = dict(operands.attributes)
    opaque = attributes.pop("opaque", None) if version < 4 else None
    call = ffi_call(
        info["name"],
        shapes[0] if len(shapes) == 1 else shapes,
        custom_call_api_version=version,
        legacy_backend_config=None if opaque is None else opaque if isinstance(opaque, bytes) else str(opaque),
    )
    return lambda: call(*operands.tensors, **attributes)


def _texts(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes of an operator: bytes are strings there, one character each."""
    return {name: value.decode("latin-1") if isinstance(value, bytes) else value for name, value in attributes.items()}


def _group_variadic(signature: SignatureInfo | None, tensors: list[torch.Tensor | None]) -> list[Any]:
    if signature is None or not signature["operands"] or not signature["operands"][-1]["variadic"]:
        return list(tensors)
    fixed = len(signature["operands"]) - 1
    return [*tensors[:fixed], tensors[fixed:]]


def results_of(value: Any) -> list[torch.Tensor]:
    """The tensors that a call returned."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for part in value or () for tensor in results_of(part)]


@dataclass(frozen=True)
class Timing:
    """Seconds per call, the wait for the device included."""

    fastest: float
    median: float
    calls: int
    bytes: int  #: of operands and results


def bench(call: Callable[[], Any], tensors: Sequence[torch.Tensor | None], rounds: int) -> Timing:
    """Times calls in rounds of a fiftieth of a second."""
    results = results_of(call())
    torch.accelerator.synchronize()
    repeats = max(1, int(_TURN_SECONDS / max(_seconds(call, 3), 1e-9)))
    turns = [_seconds(call, repeats) for _ in range(rounds)]
    moved = sum(tensor.nbytes for tensor in (*tensors, *results) if tensor is not None)
    return Timing(min(turns), statistics.median(turns), repeats * rounds, moved)


def _seconds(call: Callable[[], Any], repeats: int) -> float:
    begin = time.perf_counter()
    for _ in range(repeats):
        call()
    torch.accelerator.synchronize()
    return (time.perf_counter() - begin) / repeats


# --- opcheck ----------------------------------------------------------------------------------------------------------


def opcheck(info: KernelInfo, operands: Operands) -> list[Finding]:
    """Runs torch.library.opcheck, and gradcheck in f64 where the kernel has a gradient and takes f64."""
    signature = info["signature"]
    if signature is None or info["operator"] is None:
        raise UsageError(f"{info['name']} has no signature, so it is no operator")
    made = not operands.tensors
    tensors = _sample(info, signature, "f32") if made else operands.tensors
    attributes = _texts(operands.attributes)
    operator = getattr(torch.ops.mydev_cc, info["operator"]).default
    wanted = set(info["differentiable"])
    if wanted and signature["operands"][max(wanted)]["variadic"]:
        wanted |= set(range(max(wanted), len(tensors)))
    leaves = _leaves(tensors, wanted)
    arguments = tuple(_group_variadic(signature, leaves))
    findings = [
        _outcome(test, partial(torch.library.opcheck, operator, arguments, attributes, test_utils=test))
        for test in _CHECKS
    ]
    on_cpu = tuple(_group_variadic(signature, _leaves([x if x is None else x.cpu() for x in tensors], wanted)))
    registration = partial(torch.library.opcheck, operator, on_cpu, attributes, test_utils=_CHECK_ON_CPU)
    findings.append(_outcome(_CHECK_ON_CPU, registration))
    if not wanted:
        return [*findings, Finding("note", "gradcheck", "it has no gradient")]
    if "f64" not in signature["operands"][min(wanted)]["dtypes"]:
        return [*findings, Finding("note", "gradcheck", "needs a kernel that takes f64")]
    if made:
        wide = _sample(info, signature, "f64")
    else:
        wide = [t.double() if t is not None and t.dtype.is_floating_point else t for t in tensors]

    inputs: Any = tuple(_leaves(wide, wanted))

    def function(*leaves: torch.Tensor | None) -> Any:
        return operator(*_group_variadic(signature, list(leaves)), **attributes)

    return [*findings, _outcome("gradcheck", lambda: torch.autograd.gradcheck(function, inputs))]


def _leaves(tensors: Sequence[torch.Tensor | None], wanted: set[int]) -> list[torch.Tensor | None]:
    return [
        tensor.detach().requires_grad_() if index in wanted and tensor is not None else tensor
        for index, tensor in enumerate(tensors)
    ]


def _outcome(name: str, run: Callable[[], object]) -> Finding:
    try:
        run()
    except Exception as error:  # whatever a kernel or a check may raise is the finding
        return Finding("problem", name, f"{type(error).__name__}: {str(error).strip()}")
    return Finding("ok", name, "passed")


def _sample(info: KernelInfo, signature: SignatureInfo, floating: str) -> list[torch.Tensor | None]:
    """Operands that fit the signature: every size of the shape rule is 4, "..." is one dimension of 2."""
    if info["shapes"] is None:
        raise UsageError(f"{info['name']} computes its shapes in code, so say what its operands are")
    lists = re.findall(r"\(([^)]*)\)", info["shapes"].partition("->")[0])
    generator = torch.Generator().manual_seed(0)
    result: list[torch.Tensor | None] = []
    for operand, sizes in zip(signature["operands"], lists, strict=True):
        dtype = floating if floating in operand["dtypes"] else operand["dtypes"][0]
        tensor = random_tensor(_sizes(sizes), DTYPES[dtype], generator)
        result.append(tensor.to(DEVICE_NAME))
    return result


def _sizes(text: str) -> tuple[int, ...]:
    sizes: list[int] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        if part == "...":
            sizes += _ELLIPSIS
        elif part.startswith("@"):
            raise UsageError(f"the size {part} is an attribute's value, so say what the operands are")
        else:
            sizes.append(int(part) if part.isdigit() else _SIZE)
    return tuple(sizes)
