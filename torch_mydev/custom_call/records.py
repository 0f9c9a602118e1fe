"""The contents of kernels' records, and the removal of records from the registry."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from torch_mydev import _C
from torch_mydev.custom_call.discovery import discover, require_kernel
from torch_mydev.custom_call.operators import sync_operators
from torch_mydev.device.devices import DeviceLike, device_index


class OperandInfo(TypedDict):
    """An operand of a signature. ``dtypes`` are named as in messages: "f32", "s64", "pred", ..."""

    name: str
    dtypes: list[str]
    like: str | None  #: the operand that must have the same dtype
    rank_min: int
    rank_max: int | None  #: None: any
    optional: bool
    variadic: bool
    strided: bool
    doc: str | None


class ResultInfo(TypedDict):
    """A result of a signature."""

    name: str
    dtypes: list[str]  #: the one that it has; empty: that of ``like``
    like: str | None
    alias: str | None  #: the operand that is written in place
    variadic: bool  #: as many as ``like``, which is variadic, and each of the shape of one of them
    doc: str | None


class AttributeInfo(TypedDict):
    """An attribute of a signature; ``default`` is there unless ``required``."""

    name: str
    kind: str
    dtype: str | None
    required: bool
    default: Any
    doc: str | None


class SignatureInfo(TypedDict):
    """The operands, results and attributes of a kernel."""

    operands: list[OperandInfo]
    results: list[ResultInfo]
    attributes: list[AttributeInfo]


class GradientInfo(TypedDict):
    """Which kernel is the gradient, what it is given, and for which operands."""

    kernel: str
    saved: list[int]  #: i >= 0: operand i; i < 0: result -1 - i
    wrt: list[int]


class ContractInfo(TypedDict):
    """A contract as text: the operands, types and expression of a kernel (docs/reference/kernels.md)."""

    kernel: str
    group: str
    operands: str  #: "(out T) <- (a T, b T; alpha: number = 1)"
    types: str  #: "T: ints floats"
    dtypes: dict[str, list[str]]  #: of each variable in ``types``
    expression: str  #: "" where there is none
    notes: str
    one_shape: bool  #: the operands are broadcast against each other, and the results have their shape
    pointwise: bool  #: computed element by element by the expression
    computes: dict[str, Any]  #: the expression as a tree, by result, "" for the only one


class KernelInfo(TypedDict):
    """Everything that a kernel's record says; see ``mydev_kernel`` in mydev/custom_call.h."""

    name: str
    kind: str  #: "frame", "typed_ffi", "original_host", "original_device", "status_host", ...
    platform: str  #: "Host" or the device's name
    traits: list[str]  #: "command_buffer_compatible", "tuple_result"
    stages: list[str]  #: "instantiate", "prepare", "initialize", "execute"
    signature: SignatureInfo | None
    operator: str | None  #: its name in torch.ops.mydev_cc
    schema: str | None
    shapes: str | None
    gradient: GradientInfo | None
    differentiable: list[int]  #: operands that have derivatives: by ``gradient``, or by the expression of the contract
    batching: Literal["none", "sequential", "expand_dims", "broadcast_all"]
    doc: str | None
    contract: ContractInfo | None  #: of built-in kernels, and of others whose signature is a contract
    library: str  #: name and version, "built-in" or "register_ffi_target"
    file: str  #: path; "" where there is none
    dense_copies: int  #: operands that calls of the operator had to make contiguous, so far


class LimitsInfo(TypedDict):
    """The limits of a driver's record; see ``mydev_limits`` in mydev/custom_call.h."""

    dtypes: list[str] | None  #: None: all that the kernel's name allows
    rank_max: int | None
    dense: bool
    numbers: bool  #: operands may be one number


class RecordLimitsInfo(LimitsInfo):
    """The limits of all results and operands, and those of single ones, by name."""

    operands: dict[str, LimitsInfo]


class DriversKernelInfo(KernelInfo):
    """A record that a device's driver lists."""

    limits: RecordLimitsInfo


def drivers_kernels(device: DeviceLike = None) -> list[DriversKernelInfo]:
    """The kernels that the device's driver brings, if it lists them (``list_kernels`` in mydev/driver.h), by name."""
    infos: list[DriversKernelInfo] = _C.drivers_kernels(device_index(device))
    return infos


def kernels() -> list[str]:
    """Names of all kernels, built-in ones (``mydev.…``) and users', sorted. Loads what can be discovered."""
    discover()
    names: list[str] = _C.kernel_names()
    return names


def kernel_info(name: str) -> KernelInfo:
    """The contents of a kernel's record. If there is no such kernel, raises ValueError, with similar names."""
    require_kernel(name)
    info: KernelInfo = _C.describe_kernel(name)
    info["dense_copies"] = _C.dense_copies(name)
    return info


def unregister_kernel(name: str) -> None:
    """Takes a user's kernel out; launches under way are not disturbed, later calls of its operator are errors."""
    require_kernel(name)
    _C.unregister_kernel(name)
    sync_operators()
