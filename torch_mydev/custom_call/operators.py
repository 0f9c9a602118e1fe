"""The operators torch.ops.mydev_cc.<name>: kept as the registry of kernels is, each with its fake kernel and its
batching rule.

Its kernel on the device, the shapes of its results and its gradient are in csrc/aten/custom_call.
"""

from __future__ import annotations

import functools
import threading
import warnings
from typing import Any

import torch

from torch_mydev import _C
from torch_mydev.custom_call import batching

NAMESPACE = "mydev_cc"

lock = threading.RLock()  #: guards what the namespace and this module know of the operators
defined: set[str] = set()  #: names in the namespace
_libraries: dict[str, torch.library.Library] = {}  # by operator: its fake kernel and batching rule


def sync_operators() -> None:
    """Makes torch.ops.mydev_cc what the registry of kernels is."""
    with lock:
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
            defined.discard(operator)
            if change == "defined":
                defined.add(operator)  # before it is completed, which looks it up
                _libraries[operator] = _complete(kernel, operator)


def _complete(kernel: str, operator: str) -> torch.library.Library:
    """Gives an operator its fake kernel and its batching rule."""
    library = torch.library.Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]
    qualified = f"{NAMESPACE}::{operator}"
    torch.library.register_fake(qualified, functools.partial(_fake, operator), lib=library)
    torch.library.register_vmap(qualified, functools.partial(_batch, kernel, operator), lib=library)
    return library


def _fake(operator: str, /, *operands: Any, **attributes: Any) -> Any:
    """Tensors like the results, without the kernel."""
    return _C.fake_operator(operator, operands, attributes)


def _batch(
    kernel: str, operator: str, /, info: Any, in_dims: tuple[Any, ...], *operands: Any, **attributes: Any
) -> Any:
    """vmap by the record's rule."""
    record = _C.describe_kernel(kernel)
    method = record["batching"]
    if method == "none":
        raise NotImplementedError(f"kernel '{kernel}' cannot be batched by vmap: its record has no batching rule")
    if record["contract"] and record["contract"]["one_shape"]:
        operands, in_dims = batching.of_one_rank(operands, in_dims)
    call = functools.partial(getattr(getattr(torch.ops, NAMESPACE), operator), **attributes)
    fake = functools.partial(_fake, operator, **attributes)
    return batching.apply(method, info.batch_size, in_dims, operands, call=call, call_batch=call, fake=fake)
