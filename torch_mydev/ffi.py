"""Calling kernels in jax.ffi's terms: for kernels without a signature, and for handlers compiled for XLA.

>>> register_ffi_target("rms_norm", ctypes.CDLL("/path/librms.so").RmsNorm)
>>> rms_norm = ffi_call("rms_norm", (x.shape, x.dtype))
>>> y = rms_norm(x, eps=np.float32(1e-5))

A call that PyTorch has to see (a compiler, a transformation, autograd, a profiler) goes through one operator,
``mydev_ffi::call``, that carries the call site as text.
"""

from __future__ import annotations

import base64
import ctypes
import functools
import json
import operator
from _ctypes import CFuncPtr  # ctypes gives it no public name
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import torch

from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.custom_operator import require_kernel

KernelKind = Literal[
    "original_host", "original_device", "status_host", "status_device", "unified_host", "unified_device"
]
VmapMethod = Literal["sequential", "expand_dims", "broadcast_all"]
FfiCall: TypeAlias = Callable[..., Any]
#: A tensor, or (shape, dtype); or a list or tuple of them, nested at will, for a tuple result.
ResultSpec: TypeAlias = Any

_KINDS = {
    "typed_ffi": 1,
    "original_host": 2,
    "original_device": 3,
    "status_host": 4,
    "status_device": 5,
    "unified_host": 6,
    "unified_device": 7,
}
_STAGES = ("execute", "instantiate", "prepare", "initialize")
_kept_alive: list[Any] = []  # functions that were registered


def register_ffi_target(
    name: str,
    fn: Any,
    platform: str = "cpu",
    api_version: int = 1,
    kind: KernelKind | None = None,
    traits: int = 0,
) -> None:
    """Registers a function as a kernel, under the terms of ``jax.ffi.register_ffi_target``.

    Args:
        name: letters, digits or any of ``_ . : -``.
        fn: a PyCapsule of any name, a ctypes function, an address, or a dict of those with the keys "instantiate",
            "prepare", "initialize" and "execute". It is kept alive for ever.
        platform: "cpu", or the device's name for a handler that enqueues its work on the device's stream.
        api_version: 1 for XLA's typed FFI, 0 for its older interfaces, which ``kind`` tells apart.
        kind: with ``api_version=0``: "original_host" (API version 1), "status_host" (2), "unified_host" (3), or their
            "…_device" forms.
        traits: bit 0: COMMAND_BUFFER_COMPATIBLE; bit 1: TUPLE_RESULT, see mydev/custom_call.h.

    Raises ValueError for a function that is no handler or speaks another version, and RuntimeError if another kernel
    has the name.
    """
    if api_version not in (0, 1):
        raise ValueError(f"{name}: api_version is {api_version!r}; give 1 for typed FFI, 0 for the older interfaces")
    if api_version == 1 and kind is not None:
        raise ValueError(f"{name}: kind={kind!r} is for api_version=0")
    if api_version == 0 and kind not in _KINDS:
        raise ValueError(f"{name}: with api_version=0 give kind=, one of {', '.join(list(_KINDS)[1:])}; got {kind!r}")
    if platform not in ("cpu", "Host", DEVICE_NAME):
        raise ValueError(f"{name}: platform {platform!r} is not one of this device: give 'cpu' or '{DEVICE_NAME}'")
    if not isinstance(traits, int) or not 0 <= traits < 1 << 32:
        raise ValueError(f"{name}: traits is {traits!r}; give bits, see mydev_trait in mydev/custom_call.h")
    stages = dict(fn) if isinstance(fn, Mapping) else {"execute": fn}
    if unknown := set(stages) - set(_STAGES):
        raise ValueError(f"{name}: no such stage: {', '.join(sorted(unknown))}; there are {', '.join(_STAGES)}")
    if "execute" not in stages:
        raise ValueError(f"{name}: the stage 'execute' is missing")
    addresses = [_address(name, stages.get(stage)) for stage in _STAGES]
    _C.register_ffi_target(
        name,
        DEVICE_NAME if platform == DEVICE_NAME else None,
        _KINDS[kind or "typed_ffi"],
        traits,
        *addresses,
    )
    _kept_alive.append(fn)


def _address(name: str, function: Any) -> int:
    """Of a function in one of the forms that register_ffi_target takes; 0 for None. Registering it will call it."""
    if function is None:
        return 0
    address = _pointer(name, function)
    if not _is_code(address):
        raise ValueError(f"{name}: at {address:#x} there is no code")
    return address


def _is_code(address: int) -> bool:
    """Whether the address lies in memory that may be run."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            span, permissions = line.split(maxsplit=2)[:2]
            begin, end = (int(bound, 16) for bound in span.split("-"))
            if begin <= address < end:
                return "x" in permissions
    return False


def _pointer(name: str, function: Any) -> int:
    if isinstance(function, int) and not isinstance(function, bool):
        if function <= 0:
            raise ValueError(f"{name}: {function} is not the address of a function")
        return function
    if isinstance(function, CFuncPtr):
        address = ctypes.cast(function, ctypes.c_void_p).value
        if not address:
            raise ValueError(f"{name}: the ctypes function is NULL")
        return address
    if type(function).__name__ == "PyCapsule":
        address = _C.capsule_address(function)
        return int(address)
    raise TypeError(
        f"{name}: a {type(function).__name__} is no function; give a PyCapsule, a ctypes function, an address, or a "
        "dict of them by stage"
    )


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
    structure, specs = _parse_results(target_name, result_shape_dtypes)
    text = _options_text(
        target_name,
        [_dtype_name(dtype) for _, dtype in specs],
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
    function = torch.ops.mydev_ffi.call_with_side_effect if has_side_effect else torch.ops.mydev_ffi.call

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
        return _build(structure, iter(results))

    if _is_dynamo_compiling():
        return dispatch
    site = _make_site(target_name, text, tuple(sizes), _STRUCTURES.get(_flat_type(structure), _FLAT_LIST), dispatch)
    if _flat_type(structure) is None:
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


# --- results ---------------------------------------------------------------------------------------------------------

#: None for a tensor; else the type of the sequence and what is in it.
Structure: TypeAlias = "tuple[type, tuple[Structure, ...]] | None"


def _parse_results(target: str, spec: ResultSpec) -> tuple[Structure, list[tuple[Any, Any]]]:
    """The nesting of results, and (shape, dtype) of each."""
    if hasattr(spec, "shape") and hasattr(spec, "dtype"):
        return None, [(tuple(spec.shape), spec.dtype)]
    if not isinstance(spec, (list, tuple)):
        raise TypeError(
            f"{target}: result_shape_dtypes has a {type(spec).__name__}; give tensors, (shape, dtype), or lists of them"
        )
    if isinstance(spec, tuple) and len(spec) == 2 and _is_dtype(spec[1]):
        shape = (spec[0],) if isinstance(spec[0], int) else tuple(spec[0])
        return None, [(shape, spec[1])]
    parsed = [_parse_results(target, item) for item in spec]
    kind = list if isinstance(spec, list) else tuple
    return (kind, tuple(structure for structure, _ in parsed)), [leaf for _, leaves in parsed for leaf in leaves]


def _is_dtype(value: Any) -> bool:
    return isinstance(value, (torch.dtype, str, type)) or hasattr(value, "kind")


def _dtype_name(dtype: Any) -> str:
    """Of a dtype of torch or numpy: the name that both give it."""
    if isinstance(dtype, str):
        return dtype
    if isinstance(dtype, torch.dtype):
        return str(dtype).removeprefix("torch.")
    return str(getattr(dtype, "name", None) or dtype.__name__).removesuffix("_")


def _build(structure: Structure, leaves: Any) -> Any:
    if structure is None:
        return next(leaves)
    kind, items = structure
    return kind([_build(item, leaves) for item in items])


def _flat_type(structure: Structure) -> type | Literal["single"] | None:
    """What a call site can build itself; None for nested results."""
    if structure is None:
        return "single"
    kind, items = structure
    return kind if all(item is None for item in items) else None


# --- the call site as text -------------------------------------------------------------------------------------------


def _constant_in_graphs(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes torch.compile evaluate the function, on constants, while it compiles: torch.compiler.
    assume_constant_result, which would import the compiler."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@_constant_in_graphs
def _options_text(
    target: str,
    dtypes: list[str],
    ranks: list[int],
    *,
    is_tuple: bool,
    api_version: int,
    opaque: str | bytes | None,
    input_layouts: Any,
    output_layouts: Any,
    aliases: Mapping[int, int] | None,
    vmap_method: str | None,
) -> str:
    """All that is constant about a call site."""
    if vmap_method not in (None, "sequential", "expand_dims", "broadcast_all"):
        raise ValueError(
            f"{target}: vmap_method is {vmap_method!r}; give 'sequential', 'expand_dims' or 'broadcast_all'"
        )
    if not isinstance(api_version, int):
        raise TypeError(f"{target}: custom_call_api_version is {api_version!r}; give 1, 2, 3 or 4")
    if not isinstance(opaque, (str, bytes, type(None))):
        raise TypeError(f"{target}: legacy_backend_config is a {type(opaque).__name__}; give str or bytes")
    if output_layouts is not None and not is_tuple:
        output_layouts = [output_layouts]
    if output_layouts is not None and len(output_layouts) != len(dtypes):
        raise ValueError(f"{target}: {len(output_layouts)} output_layouts for {len(dtypes)} results")
    opaque = opaque.encode() if isinstance(opaque, str) else opaque
    options = {
        "dtypes": dtypes,
        "ranks": ranks,
        "tuple": is_tuple,
        "api_version": api_version,
        "opaque": None if opaque is None else base64.b64encode(opaque).decode(),
        "input_layouts": _layouts(target, "input_layouts", input_layouts or ()),
        "output_layouts": _layouts(target, "output_layouts", output_layouts or [()] * len(dtypes)),
        "aliases": _alias_pairs(target, aliases or {}),
        "vmap_method": vmap_method,
    }
    return json.dumps(options, sort_keys=True)


def _layouts(target: str, what: str, layouts: Any) -> list[list[int]]:
    try:
        return [[operator.index(dimension) for dimension in layout or ()] for layout in layouts]
    except TypeError:
        raise TypeError(
            f"{target}: {what} is {layouts!r}; give the order of its dimensions in memory, as (1, 0), for each, or None"
        ) from None


def _alias_pairs(target: str, aliases: Any) -> list[list[int]]:
    pairs = list(aliases.items()) if isinstance(aliases, Mapping) else None
    if pairs is None or not all(isinstance(index, int) and index >= 0 for pair in pairs for index in pair):
        raise TypeError(
            f"{target}: input_output_aliases is {aliases!r}; give a dict from indices of operands to those of results"
        )
    return [list(pair) for pair in pairs]


def _make_site(target: str, text: str, sizes: tuple[int, ...], structure: int, dispatch: FfiCall) -> FfiCall:
    options = json.loads(text)
    left = iter(sizes)
    results = []
    for name, rank, layout in zip(options["dtypes"], options["ranks"], options["output_layouts"], strict=True):
        dtype = getattr(torch, name, None)
        if not isinstance(dtype, torch.dtype):
            raise ValueError(f"{target}: result_shape_dtypes has dtype {name!r}, which torch does not know")
        shape = [next(left) for _ in range(rank)]
        if not all(isinstance(size, int) and size >= 0 for size in shape):
            raise ValueError(f"{target}: result_shape_dtypes has shape {tuple(shape)}; sizes are integers of 0 or more")
        results.append((dtype, shape, layout))
    opaque = options["opaque"]
    site: FfiCall = _C.ffi_call_site(
        target,
        results,
        structure,
        options["tuple"],
        options["api_version"],
        None if opaque is None else base64.b64decode(opaque),
        options["input_layouts"],
        [tuple(pair) for pair in options["aliases"]],
        dispatch,
    )
    return site


_SINGLE, _FLAT_TUPLE, _FLAT_LIST = 0, 1, 2
_STRUCTURES: dict[Any, int] = {"single": _SINGLE, tuple: _FLAT_TUPLE, list: _FLAT_LIST}


@_constant_in_graphs
def encode_attributes(attributes: Mapping[str, Any]) -> str:
    """Attributes as JSON, each with its type, so that a graph can carry them."""
    return json.dumps({name: _encode(name, value) for name, value in attributes.items()}) if attributes else ""


def _encode(name: str, value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        raise TypeError(f"attribute '{name}' is a tensor; tensors are operands: give them by position")
    if isinstance(value, bytes):
        return ["bytes", base64.b64encode(value).decode()]
    if isinstance(value, Mapping):
        return ["dict", {key: _encode(key, item) for key, item in value.items()}]
    if hasattr(value, "dtype") and hasattr(value, "tobytes"):
        return ["numpy", value.dtype.name, list(value.shape), base64.b64encode(value.tobytes()).decode()]
    if isinstance(value, complex):
        return ["complex", value.real, value.imag]
    if isinstance(value, (bool, int, float, str)):
        return ["python", value]
    raise TypeError(
        f"attribute '{name}' is a {type(value).__name__}; give bool, int, float, str, bytes, a dict, or numpy's "
        "scalars and arrays (np.array(x) for a list)"
    )


@functools.lru_cache(maxsize=1024)
def _decode_attributes(text: str) -> dict[str, Any]:
    return {name: _decode(value) for name, value in json.loads(text).items()} if text else {}


def _decode(encoded: list[Any]) -> Any:
    kind, *rest = encoded
    if kind == "bytes":
        return base64.b64decode(rest[0])
    if kind == "dict":
        return {name: _decode(value) for name, value in rest[0].items()}
    if kind == "numpy":
        import numpy as np

        name, shape, data = rest
        return np.frombuffer(base64.b64decode(data), _numpy_dtype(name)).reshape(shape)
    return complex(*rest) if kind == "complex" else rest[0]


def _numpy_dtype(name: str) -> Any:
    import numpy as np

    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes  # type: ignore[import-not-found, unused-ignore]  # the attribute came from it

        return np.dtype(getattr(ml_dtypes, name))


# --- the operator ----------------------------------------------------------------------------------------------------

NAMESPACE = "mydev_ffi"
_library = torch.library.Library(NAMESPACE, "DEF")  # type: ignore[no-untyped-call]
_SCHEMA = "(Tensor[] operands, SymInt[] sizes, str target, str options, str attributes) -> Tensor[]"


def _no_dispatch(*operands: torch.Tensor, **attributes: Any) -> Any:
    raise AssertionError("a call below the dispatcher does not go through it again")


@functools.lru_cache(maxsize=1024)
def _site_below_dispatcher(target: str, options: str, sizes: tuple[int, ...]) -> FfiCall:
    return _make_site(target, options, sizes, _FLAT_LIST, _no_dispatch)


def _run(
    operands: list[torch.Tensor], sizes: list[int], target: str, options: str, attributes: str
) -> list[torch.Tensor]:
    site = _site_below_dispatcher(target, options, tuple(sizes))
    results: list[torch.Tensor] = _C.run_ffi_call_site(site, operands, _decode_attributes(attributes))
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
    """What torch's own autograd kernel, ``record``, does, but for tangents, which it would lose."""
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
    count = info.batch_size
    if count == 0:  # there is nothing to call it with
        elements = _fake(operands, sizes, target, options, attributes)
        return [x.new_empty(0, *x.shape) for x in elements], [0] * len(elements)
    batched = [x if dim is None else x.movedim(dim, 0) for x, dim in zip(operands, in_dims[0], strict=True)]
    has_batch = [dim is not None for dim in in_dims[0]]
    if method == "sequential":
        each = [
            function(
                [x[i] if own else x for x, own in zip(batched, has_batch, strict=True)],
                sizes,
                target,
                options,
                attributes,
            )
            for i in range(count)
        ]
        results = [torch.stack(parts) for parts in zip(*each, strict=True)]
        return results, [0] * len(results)
    full = count if method == "broadcast_all" else 1
    batched = [x if own else x.expand(full, *x.shape) for x, own in zip(batched, has_batch, strict=True)]
    shift = [[0, *(d + 1 for d in layout)] if layout else [] for layout in chosen["output_layouts"]]
    inputs = [[0, *(d + 1 for d in layout)] if layout else [] for layout in chosen["input_layouts"]]
    larger = {
        **chosen,
        "ranks": [rank + 1 for rank in chosen["ranks"]],
        "output_layouts": shift,
        "input_layouts": inputs,
    }
    all_sizes = [size for shape in _shapes(sizes, chosen) for size in (count, *shape)]
    results = function(batched, all_sizes, target, json.dumps(larger, sort_keys=True), attributes)
    return results, [0] * len(results)


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
torch.fx.node.has_side_effect(torch.ops.mydev_ffi.call_with_side_effect.default)
