"""The operators that an ffi_call goes through where PyTorch has to see it: ``mydev_ffi::call``, and
``mydev_ffi::call_with_side_effect``, which compiled programs do not leave out.

They carry the call site and its attributes as text.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.custom_call import batching
from torch_mydev.custom_call.ffi.attributes import decode_attributes
from torch_mydev.custom_call.ffi.site import FfiCall, make_site

NAMESPACE = "mydev_ffi"
_library = torch.library.Library(NAMESPACE, "DEF")  # type: ignore[no-untyped-call]
_SCHEMA = "(Tensor[] operands, SymInt[] sizes, str target, str options, str attributes) -> Tensor[]"


def _no_dispatch(*operands: torch.Tensor, **attributes: Any) -> Any:
    raise AssertionError("a call below the dispatcher does not go through it again")


@functools.lru_cache(maxsize=1024)
def _site_below_dispatcher(target: str, options: str, sizes: tuple[int, ...]) -> FfiCall:
    return make_site(target, options, sizes, "list", _no_dispatch)


def _run(
    operands: list[torch.Tensor], sizes: list[int], target: str, options: str, attributes: str
) -> list[torch.Tensor]:
    site = _site_below_dispatcher(target, options, tuple(sizes))
    results: list[torch.Tensor] = _C.run_ffi_call_site(site, operands, decode_attributes(attributes))
    return results


def _shapes(sizes: Sequence[Any], options: Mapping[str, Any]) -> list[list[Any]]:
    left = iter(sizes)
    return [[next(left) for _ in range(rank)] for rank in options["ranks"]]


def _fake(
    operands: list[torch.Tensor], sizes: list[Any], target: str, options: str, attributes: str
) -> list[torch.Tensor]:
    chosen = json.loads(options)
    device = operands[0].device if operands else torch.device(DEVICE_NAME)
    results = []
    for shape, name, layout in zip(_shapes(sizes, chosen), chosen["dtypes"], chosen["output_layouts"], strict=True):
        order = layout or range(len(shape))
        memory = torch.empty([shape[d] for d in order], dtype=getattr(torch, name), device=device)
        results.append(memory.permute([list(order).index(d) for d in range(len(shape))]) if layout else memory)
    return results


def _set_up_gradient(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.target = inputs[2]


def _refuse_gradient(ctx: Any, *grads: Any) -> Any:
    raise NotImplementedError(f"ffi_call('{ctx.target}') has no gradient; wrap the call in torch.autograd.Function")


def _autograd(record: Callable[..., Any], keys: Any, operands: list[torch.Tensor], *rest: Any) -> Any:
    """Does the same as torch's own autograd kernel, ``record``, but refuses tangents, which that would lose."""
    tangents = [torch.autograd.forward_ad.unpack_dual(x).tangent for x in operands]  # type: ignore[no-untyped-call]
    if any(tangent is not None for tangent in tangents):
        raise NotImplementedError(
            f"ffi_call('{rest[1]}') has no forward-mode derivative; wrap the call in torch.autograd.Function"
        )
    return record(keys, operands, *rest)


def _batch(
    function: Any,
    info: Any,
    in_dims: tuple[Any, ...],
    operands: list[torch.Tensor],
    sizes: list[Any],
    target: str,
    options: str,
    attributes: str,
) -> tuple[list[torch.Tensor], list[int]]:
    chosen = json.loads(options)
    method = chosen["vmap_method"]
    if method is None:
        raise NotImplementedError(
            f"ffi_call('{target}') has no vmap_method; give ffi_call 'sequential', 'expand_dims' or 'broadcast_all'"
        )
    in_order = [[0, *(d + 1 for d in layout)] if layout else [] for layout in chosen["output_layouts"]]
    larger = {
        **chosen,
        "ranks": [rank + 1 for rank in chosen["ranks"]],
        "output_layouts": in_order,
        "input_layouts": [[0, *(d + 1 for d in layout)] if layout else [] for layout in chosen["input_layouts"]],
    }
    all_sizes = [size for shape in _shapes(sizes, chosen) for size in (info.batch_size, *shape)]
    results, out_dims = batching.apply(
        method,
        info.batch_size,
        in_dims[:1],
        [operands],
        call=lambda element: function(element, sizes, target, options, attributes),
        call_batch=lambda batch: function(batch, all_sizes, target, json.dumps(larger, sort_keys=True), attributes),
        fake=lambda element: _fake(element, sizes, target, options, attributes),
    )
    return list(results), list(out_dims)


def _define(name: str) -> None:
    qualified = f"{NAMESPACE}::{name}"
    _library.define(name + _SCHEMA, tags=(torch.Tag.pt2_compliant_tag,))  # type: ignore[no-untyped-call]
    _library.impl(name, _run, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
    overload = getattr(torch.ops.mydev_ffi, name).default
    torch.library.register_fake(qualified, _fake, lib=_library)
    gradient = torch._library.autograd.Info(_refuse_gradient, _set_up_gradient)
    record = torch._library.autograd.make_autograd_impl(overload, gradient)
    _library.impl(name, functools.partial(_autograd, record), "Autograd", with_keyset=True)  # type: ignore[no-untyped-call]
    torch.library.register_vmap(qualified, functools.partial(_batch, overload), lib=_library)


_define("call")
_define("call_with_side_effect")
CALL, CALL_WITH_SIDE_EFFECT = torch.ops.mydev_ffi.call, torch.ops.mydev_ffi.call_with_side_effect
torch.fx.node.has_side_effect(CALL_WITH_SIDE_EFFECT.default)
