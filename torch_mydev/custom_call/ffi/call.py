"""Calling kernels in jax.ffi's terms: for kernels without a signature, and for handlers compiled for XLA.

>>> register_ffi_target("rms_norm", ctypes.CDLL("/path/librms.so").RmsNorm)
>>> rms_norm = ffi_call("rms_norm", (x.shape, x.dtype))
>>> y = rms_norm(x, eps=np.float32(1e-5))

A call that PyTorch has to see (a compiler, a transformation, autograd, a profiler) goes through one operator,
``mydev_ffi::call``, that carries the call site as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch

from torch_mydev.custom_call.discovery import require_kernel
from torch_mydev.custom_call.ffi.attributes import encode_attributes
from torch_mydev.custom_call.ffi.operators import CALL, CALL_WITH_SIDE_EFFECT
from torch_mydev.custom_call.ffi.results import ResultSpec, build, dtype_name, flat_structure, parse_results
from torch_mydev.custom_call.ffi.site import FfiCall, make_site, options_text

VmapMethod = Literal["sequential", "expand_dims", "broadcast_all"]


def ffi_call(
    target_name: str,
    result_shape_dtypes: ResultSpec,
    *,
    has_side_effect: bool = False,
    vmap_method: VmapMethod | None = None,
    input_layouts: Sequence[Sequence[int] | None] | None = None,
    output_layouts: Sequence[Sequence[int] | None] | Sequence[int] | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    custom_call_api_version: int = 4,
    legacy_backend_config: str | bytes | None = None,
) -> FfiCall:
    """A function that calls a kernel by name, under the terms of ``jax.ffi.ffi_call``.

    The function takes tensors by position and the kernel's attributes by keyword, and returns what
    ``result_shape_dtypes`` describes: a tensor, or a list or tuple of them. Make it once and call it often.

    Attributes: bool is given to the handler as pred, int as s64, float as f64; numpy's scalars, 0-dimensional and other
    arrays keep their width (``np.float32(x)`` gives f32); str and bytes are strings, dicts dictionaries.

    Args:
        target_name: of a kernel that is registered.
        result_shape_dtypes: a tensor, or (shape, dtype), per result. A list or tuple of them is a tuple result, also
            if there is one.
        has_side_effect: compiled programs call it even if nobody uses the result.
        vmap_method: what torch.vmap does, as in JAX; None: an error.
        input_layouts, output_layouts: per operand or result the order of its dimensions in memory, major to minor;
            None is row-major. Sizes that the handler sees are the tensor's, whatever the layout.
        input_output_aliases: operand to result: the handler is given the same memory for both. The operand itself is
            not changed: the result begins as its copy.
        custom_call_api_version: 4 for typed FFI; 1, 2 or 3 for XLA's older interfaces.
        legacy_backend_config: the opaque bytes of versions 1 to 3.

    Differentiable through torch.autograd.Function only: without it, backward raises NotImplementedError. Works under
    torch.compile with the backends eager and aot_eager, with attributes that are Python constants there.
    """
    require_kernel(target_name)
    structure, specs = parse_results(target_name, result_shape_dtypes)
    text = options_text(
        target_name,
        [dtype_name(dtype) for _, dtype in specs],
        [len(shape) for shape, _ in specs],
        is_tuple=structure is not None,
        api_version=custom_call_api_version,
        opaque=legacy_backend_config,
        input_layouts=input_layouts,
        output_layouts=output_layouts,
        aliases=input_output_aliases,
        vmap_method=vmap_method,
    )
    sizes = [size for shape, _ in specs for size in shape]
    function = CALL_WITH_SIDE_EFFECT if has_side_effect else CALL

    def dispatch(*operands: torch.Tensor, **attributes: Any) -> Any:
        if _is_dynamo_compiling() and not _is_constant(attributes):
            torch._dynamo.graph_break(msg=_NO_CONSTANT)
        for i, operand in enumerate(operands):
            if not isinstance(operand, torch.Tensor):
                raise TypeError(
                    f"{target_name}: operand {i} is a {type(operand).__name__}; operands are tensors, attributes are "
                    "given by keyword"
                )
        results = function(list(operands), sizes, target_name, text, encode_attributes(attributes))
        return build(structure, iter(results))

    if _is_dynamo_compiling():
        return dispatch
    flat = flat_structure(structure)
    site = make_site(target_name, text, tuple(sizes), flat or "list", dispatch)
    if flat is None:
        return dispatch  # nested: its Python costs more than the dispatcher

    def call(*operands: torch.Tensor, **attributes: Any) -> Any:
        if _is_dynamo_compiling():
            return dispatch(*operands, **attributes)
        return site(*operands, **attributes)

    return call


_is_dynamo_compiling = torch.compiler.is_dynamo_compiling
_NO_CONSTANT = (
    "an attribute of ffi_call is no constant of Python; the compiler makes tensors of numpy's numbers and arrays. Give "
    "the handler a record with a signature, whose attributes have a width, or compile without fullgraph"
)


def _is_constant(value: Any) -> bool:
    """Whether a graph can carry an attribute, which the compiler sees as what it makes of it."""
    if isinstance(value, dict):
        return all(_is_constant(item) for item in value.values())
    return not hasattr(value, "dtype")
