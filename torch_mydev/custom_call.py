"""Kernels of your own: loading libraries of them, listing what there is, and calling handlers in jax.ffi's terms.

A library is a shared object built with one header, ``mydev/custom_call.h`` (docs/custom-calls.md is the guide). Each of
its kernels that has a signature becomes ``torch.ops.mydev_cc.<name>``, with a fake kernel, gradients and batching as
its record says. Kernels without a signature, and handlers compiled for XLA, are called with :func:`ffi_call`.

Loading runs the library's code with all the rights of this process. Files come from :func:`load_custom_calls`, from
``MYDEV_CUSTOM_CALLS`` (absolute files or directories, separated by colons), and from entry points of the group
``mydev.custom_calls`` (a callable that returns paths); the last two are loaded when a kernel is first looked up.

Errors of custom calls are ValueError (invalid argument), NotImplementedError (unimplemented), torch.OutOfMemoryError
(resource exhausted) or RuntimeError, and name the kernel, its library and its operands. On an asynchronous device an
error of the work itself is raised where the stream is waited for, and says which line launched it.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from torch_mydev import _C
from torch_mydev.custom_operator import discover, require_kernel, sync_operators
from torch_mydev.ffi import FfiCall, ffi_call, register_ffi_target

__all__ = [
    "FfiCall",
    "KernelInfo",
    "KernelLibrary",
    "ffi_call",
    "kernel_info",
    "kernels",
    "libraries",
    "load_custom_calls",
    "register_ffi_target",
    "reload_custom_calls",
    "unregister_kernel",
]


@dataclass(frozen=True)
class KernelLibrary:
    """A library that was loaded."""

    file: str
    name: str
    version: str  #: the library's own
    abi: tuple[int, int]  #: version of mydev/custom_call.h that it was built with
    kernels: tuple[str, ...]  #: that were registered


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
    """What a kernel takes and gives."""

    operands: list[OperandInfo]
    results: list[ResultInfo]
    attributes: list[AttributeInfo]


class GradientInfo(TypedDict):
    """Which kernel is the gradient, what it is given, and for which operands."""

    kernel: str
    saved: list[int]  #: i >= 0: operand i; i < 0: result -1 - i
    wrt: list[int]


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
    batching: Literal["none", "sequential", "expand_dims", "broadcast_all"]
    doc: str | None
    library: str  #: name and version, "built-in" or "register_ffi_target"
    file: str  #: path; "" where there is none
    dense_copies: int  #: operands that calls of the operator had to make contiguous, so far


def load_custom_calls(path: str | os.PathLike[str]) -> KernelLibrary:
    """Loads a library of kernels; those with a signature become ``torch.ops.mydev_cc.<name>``.

    The same file again is accepted and does nothing. Raises RuntimeError where there is no such file or it is for
    another ABI, and ValueError where it is no such library or one of its records is wrong; then none is registered.
    """
    library = KernelLibrary(*_C.load_kernel_library(os.path.abspath(path)))
    sync_operators()
    return library


def reload_custom_calls(path: str | os.PathLike[str]) -> KernelLibrary:
    """Loads a library anew and puts its kernels in the place of the old ones. For development: the old code stays."""
    library = KernelLibrary(*_C.reload_kernel_library(os.path.abspath(path)))
    sync_operators()
    return library


def libraries() -> list[KernelLibrary]:
    """The libraries that have been loaded, first to last."""
    return [KernelLibrary(*row) for row in _C.loaded_kernel_libraries()]


def kernels() -> list[str]:
    """Names of all kernels, built-in ones (``mydev.…``) and users', sorted. Loads what can be discovered."""
    discover()
    names: list[str] = _C.kernel_names()
    return names


def kernel_info(name: str) -> KernelInfo:
    """What the record of a kernel says. Raises ValueError, with names that are near, for one that there is not."""
    require_kernel(name)
    info: KernelInfo = json.loads(_C.describe_kernel(name))
    info["dense_copies"] = _C.dense_copies(name)
    return info


def unregister_kernel(name: str) -> None:
    """Takes a user's kernel out; launches under way are not disturbed, later calls of its operator are errors."""
    require_kernel(name)
    _C.unregister_kernel(name)
    sync_operators()
