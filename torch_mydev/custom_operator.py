"""The Python side of torch.ops.mydev_cc: finding kernels, fake kernels from shape rules, and batching rules.

What an operator does on the device and its gradient are in csrc/aten/custom_operator*.cpp.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import json
import threading
import warnings
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

import torch
from torch.utils._pytree import tree_map, tree_map_only

from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME

ENTRY_POINTS = "mydev.custom_calls"
NAMESPACE = "mydev_cc"
#: By the names that messages and descriptions give them, XLA's.
DTYPES = {
    "pred": torch.bool,
    "s8": torch.int8,
    "s16": torch.int16,
    "s32": torch.int32,
    "s64": torch.int64,
    "u8": torch.uint8,
    "u16": torch.uint16,
    "u32": torch.uint32,
    "u64": torch.uint64,
    "f16": torch.float16,
    "f32": torch.float32,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "c64": torch.complex64,
    "c128": torch.complex128,
    "f8e5m2": torch.float8_e5m2,
    "f8e4m3fn": torch.float8_e4m3fn,
}

_lock = threading.RLock()
_operators: set[str] = set()  # names in the namespace
_libraries: dict[str, torch.library.Library] = {}  # by operator: its fake kernel and batching rule
_asked_entry_points = False


# --- finding ---------------------------------------------------------------------------------------------------------


def discover() -> None:
    """Loads what MYDEV_CUSTOM_CALLS and entry points name and has not been loaded, and makes the operators."""
    _load_entry_points()
    _C.load_discovered_libraries(None)
    sync_operators()


def _load_entry_points() -> None:
    """Asks each entry point once; one that fails is a warning, since it may have nothing to do with the caller."""
    global _asked_entry_points
    with _lock:
        if _asked_entry_points:
            return
        _asked_entry_points = True
    for entry_point in metadata.entry_points(group=ENTRY_POINTS):
        _load_entry_point(entry_point)


def _load_entry_point(entry_point: metadata.EntryPoint) -> None:
    try:
        for path in entry_point.load()():
            _C.load_kernel_library(str(path))
    except Exception as error:
        warnings.warn(f"entry point {entry_point.name} = {entry_point.value}: {error}", stacklevel=2)


def has_kernel(name: str) -> bool:
    """Whether there is a kernel of this name; loads what may have it."""
    if not _C.has_kernel(name):
        discover()
    return bool(_C.has_kernel(name))


def require_kernel(name: str) -> None:
    """Raises ValueError, with names that are near, unless there is a kernel of this name."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a kernel is a str, not a {type(name).__name__}")
    if not has_kernel(name):
        near = difflib.get_close_matches(name, _C.kernel_names(), n=3)
        advice = f"did you mean {' or '.join(near)}?" if near else "torch_mydev.kernels() lists what there is"
        raise ValueError(f"there is no kernel '{name}'; {advice}")


require_kernel._dynamo_marked_constant = True  # type: ignore[attr-defined]  # torch.compile asks while it compiles


class _Namespace(torch._ops._OpNamespace):
    """torch.ops.mydev_cc: loads what can be discovered when it is asked for an operator that it does not have."""

    def __getattr__(self, name: str) -> Any:
        sync_operators()
        if name not in _operators and not name.startswith("_"):
            discover()
        if name not in _operators:  # torch may still know an operator whose kernel has gone
            near = difflib.get_close_matches(name, list(_operators), n=3)  # a copy: other threads may load
            advice = f"; did you mean {' or '.join(near)}?" if near else ""
            raise AttributeError(f"no kernel is the operator torch.ops.{NAMESPACE}.{name}{advice}")
        with _lock:
            if name not in self.__dict__:  # else another thread was first
                setattr(self, name, self._make_packet(name))
                self._dir.append(name)
            return self.__dict__[name]

    def _make_packet(self, name: str) -> torch._ops.OpOverloadPacket[..., Any]:
        """What torch would make, with functions that call the kernel directly where nothing else wants to see it."""
        qualified, module = f"{NAMESPACE}::{name}", f"torch.ops.{NAMESPACE}"
        ordinary, overloads = torch._ops._get_packet(qualified, module)  # type: ignore[no-untyped-call]
        function = _C.operator_function(name, ordinary)
        torch.jit._builtins._register_builtin(function, qualified)  # as _get_packet does for its own
        packet: torch._ops.OpOverloadPacket[..., Any] = torch._ops.OpOverloadPacket(
            qualified, name, function, overloads
        )
        packet.__module__ = module
        overload: torch._ops.OpOverload[..., Any] = packet.__getattr__("default")
        direct = _C.operator_function(name, overload._op)
        direct_overload = torch._ops.OpOverload(packet, direct, overload._op_dk, overload._schema, overload.tags)
        setattr(packet, "default", direct_overload)  # noqa: B010
        return packet


def install_namespace() -> None:
    """Puts the namespace where torch would make one of its own at first use."""
    setattr(torch.ops, NAMESPACE, _Namespace(NAMESPACE))


# --- operators -------------------------------------------------------------------------------------------------------


def sync_operators() -> None:
    """Makes torch.ops.mydev_cc what the registry of kernels is."""
    with _lock:
        for change, kernel, operator in _C.sync_operators():
            if change == "collision":
                warnings.warn(
                    f"kernel '{kernel}' has no operator: torch.ops.{NAMESPACE}.{operator} is that of another kernel",
                    stacklevel=3,
                )
                continue
            if (library := _libraries.pop(operator, None)) is not None:
                library._destroy()  # type: ignore[no-untyped-call]
            namespace = getattr(torch.ops, NAMESPACE)
            if operator in namespace.__dict__:
                delattr(namespace, operator)
                namespace._dir.remove(operator)
            _operators.discard(operator)
            if change == "defined":
                _operators.add(operator)  # before it is completed, which looks it up
                _libraries[operator] = _complete(kernel, operator)


def _complete(kernel: str, operator: str) -> torch.library.Library:
    """Gives an operator its fake kernel and its batching rule."""
    library = torch.library.Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]
    call = _Call(kernel)
    qualified = f"{NAMESPACE}::{operator}"
    torch.library.register_fake(qualified, call.fake, lib=library)
    torch.library.register_vmap(qualified, functools.partial(_batch, kernel, operator), lib=library)
    return library


class _Call:
    """What a signature says of one call, in terms of the operator's arguments. Parsed at first use."""

    def __init__(self, kernel: str) -> None:
        self._kernel = kernel

    @functools.cached_property
    def _description(self) -> dict[str, Any]:
        description: dict[str, Any] = json.loads(_C.describe_kernel(self._kernel))
        return description

    @functools.cached_property
    def _rule(self) -> tuple[list[Any], list[Any]] | None:
        rule: tuple[list[Any], list[Any]] | None = _C.shape_rule(self._kernel)
        return rule

    def fake(self, *arguments: Any, **attributes: Any) -> Any:
        """The results' shapes, without the kernel."""
        signature = self._description["signature"]
        given = list(arguments) + [None] * (len(signature["operands"]) - len(arguments))
        for i, operand in enumerate(signature["operands"]):
            if i >= len(arguments):
                given[i] = attributes.pop(operand["name"], None)
        operands: list[torch.Tensor | None] = []
        for value in given:
            operands += value if isinstance(value, (list, tuple)) else [value]
        values = [attributes.get(spec["name"]) for spec in signature["attributes"]]
        shapes = self._shapes(operands, values)
        device = next((x.device for x in operands if x is not None), torch.device(DEVICE_NAME))
        names = [operand["name"] for operand in signature["operands"]]
        if [result["alias"] for result in signature["results"]] == names[:1]:
            return given[0]  # in place
        results: list[Any] = []
        for i, result in enumerate(signature["results"]):
            if result["alias"] is not None:
                continue  # the caller has it
            if result["variadic"]:
                results.append([torch.empty(x.shape, dtype=x.dtype, device=device) for x in given[-1]])
                continue
            dtype = DTYPES[result["dtypes"][0]] if result["dtypes"] else given[names.index(result["like"])].dtype
            results.append(torch.empty(shapes[i], dtype=dtype, device=device))
        return results[0] if len(results) == 1 else tuple(results) or None

    def _shapes(self, operands: Sequence[torch.Tensor | None], values: list[Any]) -> list[Sequence[Any]]:
        concrete = all(isinstance(size, int) for x in operands if x is not None for size in x.shape)
        symbolic = self._rule is not None and not concrete
        described = [
            None if x is None else (x.dtype, [0] * x.dim() if symbolic else [int(size) for size in x.shape])
            for x in operands
        ]
        shapes: list[Sequence[Any]] = _C.check_fake_operands(self._kernel, described, values, not symbolic)
        if not symbolic:
            return shapes
        assert self._rule is not None
        return _apply_rule(self._kernel, self._description, self._rule, operands, values)


def _apply_rule(
    kernel: str,
    description: dict[str, Any],
    rule: tuple[list[Any], list[Any]],
    operands: Sequence[torch.Tensor | None],
    values: list[Any],
) -> list[Sequence[Any]]:
    """The rule on sizes that are symbols; ShapeRule::apply is its twin on numbers."""
    operand_lists, result_lists = rule
    attributes = description["signature"]["attributes"]
    bound: dict[int, Any] = {}
    leading: list[Sequence[Any]] = []

    def attribute(index: int) -> Any:
        return values[index] if values[index] is not None else attributes[index].get("default")

    for i, operand in enumerate(operands):
        if operand is None:
            continue
        ellipsis, sizes = operand_lists[min(i, len(operand_lists) - 1)]
        count = operand.dim() - len(sizes)
        torch._check_value(  # type: ignore[no-untyped-call]
            count == 0 or (ellipsis and count > 0),
            lambda i=i: f"{kernel}: operand {i} has a rank that does not fit {description['shapes']}",
        )
        leading.append(operand.shape[:count])
        for size, (kind, value) in zip(operand.shape[count:], sizes, strict=True):
            if kind == "name" and value not in bound:
                bound[value] = size
                continue
            expected = bound[value] if kind == "name" else value if kind == "number" else attribute(value)
            torch._check_value(  # type: ignore[no-untyped-call]
                size == expected,
                lambda i=i, size=size, expected=expected: (
                    f"{kernel}: operand {i} has size {size} where {expected} is expected: {description['shapes']}"
                ),
            )
    batch = list(torch.broadcast_shapes(*leading)) if leading else []  # type: ignore[no-untyped-call]
    results: list[Sequence[Any]] = []
    for ellipsis, sizes in result_lists:
        shape = list(batch) if ellipsis else []
        for kind, value in sizes:
            shape.append(bound[value] if kind == "name" else value if kind == "number" else attribute(value))
        results.append(shape)
    return results


# --- batching --------------------------------------------------------------------------------------------------------


def _batch(kernel: str, operator: str, info: Any, in_dims: tuple[Any, ...], *arguments: Any, **attributes: Any) -> Any:
    """vmap by the record's rule."""
    method = json.loads(_C.describe_kernel(kernel))["batching"]
    if method == "none":
        raise NotImplementedError(f"kernel '{kernel}' cannot be batched by vmap: its record has no batching rule")
    call: Callable[..., Any] = getattr(getattr(torch.ops, NAMESPACE), operator)
    size = info.batch_size

    def batch_first(value: Any, dim: Any) -> Any:
        """With the batch as its first dimension; None where there is none."""
        if isinstance(value, (list, tuple)):
            return [batch_first(x, d) for x, d in zip(value, dim, strict=True)]
        return None if dim is None else value.movedim(dim, 0)

    def pick(value: Any, batched: Any, i: int) -> Any:
        if isinstance(value, (list, tuple)):
            return [pick(x, b, i) for x, b in zip(value, batched, strict=True)]
        return value if batched is None else batched[i]

    def widen(value: Any, batched: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [widen(x, b) for x, b in zip(value, batched, strict=True)]
        if batched is not None or value is None:
            return batched
        return value.expand(size if method == "broadcast_all" else 1, *value.shape)

    def element(value: Any, batched: Any) -> Any:
        """One without values: what a batch of none would have."""
        if isinstance(value, (list, tuple)):
            return [element(x, b) for x, b in zip(value, batched, strict=True)]
        return value if batched is None else batched.new_empty(batched.shape[1:])

    batched = [batch_first(value, dim) for value, dim in zip(arguments, in_dims, strict=True)]
    pairs = list(zip(arguments, batched, strict=True))
    if size == 0:  # there is nothing to call it with
        results = _Call(kernel).fake(*itertools.starmap(element, pairs), **attributes)
        results = tree_map_only(torch.Tensor, lambda x: x.new_empty(0, *x.shape), results)
    elif method == "sequential":
        each = [call(*(pick(value, own, i) for value, own in pairs), **attributes) for i in range(size)]
        results = None if each[0] is None else tree_map(lambda *parts: torch.stack(parts), *each)
    else:
        results = call(*itertools.starmap(widen, pairs), **attributes)
    return results, None if results is None else tree_map(lambda _: 0, results)
