"""Functions of JAX as operators of PyTorch. ``torch_mydev.jax.operator`` is the public part.

A function of JAX on flat lists of arrays is a *form*. Derivatives and batches of a form are forms as well, which JAX
makes when they are asked for. A form runs as one call of ``torch_mydev::jax_function``: JAX compiles it once for each
list of sizes and dtypes, and the program of kernels that comes out runs on PyTorch's current stream, over tensors' own
memory. JAX runs nothing. So the operator can be captured in graphs, and torch.compile keeps it as one node.
"""

from __future__ import annotations

import functools
import itertools
import secrets
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch

import pjrt_mydev
from pjrt_mydev import _records, _sharing
from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.jax_arguments import Arguments, divide
from torch_mydev.jax_types import has_derivatives, jax_dtype, narrowed, torch_dtype

# In the keys of forms, which Inductor keeps in graphs on disk: another process has other forms.
_PROCESS = secrets.token_hex(4)
_numbers = itertools.count()
_lock = threading.RLock()
_forms: dict[str, _Form] = {}


class _Form:
    """A function of arrays, of any fixed number, that returns a list of arrays."""

    def __init__(self, name: str, function: Callable[..., Sequence[Any]]) -> None:
        self.key = f"{name} {_PROCESS}.{next(_numbers)}"
        self.function = function
        self._derived: dict[Hashable, _Form] = {}
        self._results: dict[Hashable, list[tuple[tuple[int, ...], torch.dtype]]] = {}
        self._programs: dict[Hashable, Any] = {}
        _forms[self.key] = self

    @property
    def name(self) -> str:
        return self.key.rsplit(" ", 1)[0]

    def results(self, operands: Sequence[torch.Tensor]) -> list[tuple[tuple[int, ...], torch.dtype]]:
        """Sizes and dtypes of the results."""
        import jax

        signature = _signature(operands)
        with _lock:
            if signature not in self._results:
                shapes = jax.eval_shape(self.function, *_avals(operands))
                self._results[signature] = [(shape.shape, torch_dtype(shape.dtype, "a result")) for shape in shapes]
            return self._results[signature]

    def run(self, operands: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        dense = [operand.resolve_conj().resolve_neg().contiguous() for operand in operands]
        signature = _signature(dense)
        with _lock:
            if signature not in self._programs:
                self._programs[signature] = self._compile(dense)
        results: list[torch.Tensor] = self._programs[signature].call(dense, dense[0].device.index)
        return results

    def _compile(self, operands: Sequence[torch.Tensor]) -> Any:
        import jax

        lowered = jax.jit(self.function, keep_unused=True).lower(*_avals(operands))
        compiled = lowered.compile()
        return _C.ProgramFunction(_records.take_program(_records.fingerprint(compiled)))

    def _derive(self, name: str, how: Hashable, function: Callable[..., Sequence[Any]]) -> _Form:
        with _lock:
            if (name, how) not in self._derived:
                self._derived[name, how] = _Form(f"{self.name}.{name}", function)
            return self._derived[name, how]

    def _as_function_of(self, wanted: Sequence[int], operands: Sequence[Any]) -> Callable[..., list[Any]]:
        """The results that have derivatives, as a function of some of the operands."""
        import jax.numpy as jnp

        def function(*chosen: Any) -> list[Any]:
            filled = list(operands)
            for index, value in zip(wanted, chosen, strict=True):
                filled[index] = value
            return [result for result in self.function(*filled) if jnp.issubdtype(result.dtype, jnp.inexact)]

        return function

    def vjp(self, wanted: tuple[int, ...], num_operands: int) -> _Form:
        """Gradients of these operands, from operands and gradients of results. JAX's are conjugates of PyTorch's."""

        def pull(*arrays: Any) -> list[Any]:
            import jax
            import jax.numpy as jnp

            operands, gradients = arrays[:num_operands], arrays[num_operands:]
            _, back = jax.vjp(self._as_function_of(wanted, operands), *(operands[index] for index in wanted))
            return [jnp.conj(gradient) for gradient in back([jnp.conj(gradient) for gradient in gradients])]

        return self._derive("vjp", wanted, pull)

    def jvp(self, wanted: tuple[int, ...], num_operands: int) -> _Form:
        """Tangents of results, from operands and tangents of these."""

        def push(*arrays: Any) -> list[Any]:
            import jax

            operands, tangents = arrays[:num_operands], arrays[num_operands:]
            points = [operands[index] for index in wanted]
            return list(jax.jvp(self._as_function_of(wanted, operands), points, list(tangents))[1])

        return self._derive("jvp", wanted, push)

    def vmap(self, axes: tuple[int | None, ...]) -> _Form:
        import jax

        return self._derive("vmap", axes, jax.vmap(self.function, in_axes=axes))


def _signature(operands: Sequence[torch.Tensor]) -> Hashable:
    import jax

    return bool(jax.config.jax_enable_x64), *((tuple(map(int, o.shape)), o.dtype) for o in operands)


def _avals(operands: Sequence[torch.Tensor]) -> list[Any]:
    import jax

    place = jax.sharding.SingleDeviceSharding(_sharing.devices()[0])
    return [
        jax.ShapeDtypeStruct(tuple(map(int, operand.shape)), jax_dtype(operand.dtype), sharding=place)
        for operand in operands
    ]


# --- the operator ----------------------------------------------------------------------------------------------------

_library: Any = torch.library.Library("torch_mydev", "FRAGMENT")  # type: ignore[no-untyped-call]
_library.define("jax_function(Tensor[] operands, str form) -> Tensor[]", tags=(torch.Tag.pt2_compliant_tag,))


def _run(operands: Sequence[torch.Tensor], form: str) -> list[torch.Tensor]:
    return _forms[form].run(operands)


def _fake(operands: Sequence[torch.Tensor], form: str) -> list[torch.Tensor]:
    return [operands[0].new_empty(sizes, dtype=dtype) for sizes, dtype in _forms[form].results(operands)]


_library.impl("jax_function", _run, "PrivateUse1")
torch.library.register_fake("torch_mydev::jax_function", _fake, lib=_library)


class _Apply(torch.autograd.Function):
    @staticmethod
    def forward(key: str, *operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(torch.ops.torch_mydev.jax_function(list(operands), key))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
        key, *operands = inputs
        ctx.key = key
        ctx.save_for_backward(*operands)
        ctx.save_for_forward(*operands)
        ctx.has_derivatives = [has_derivatives(result.dtype) for result in output]
        ctx.mark_non_differentiable(*(result for result in output if not has_derivatives(result.dtype)))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        operands = ctx.saved_tensors
        wanted = tuple(index for index, needed in enumerate(ctx.needs_input_grad[1:]) if needed)
        given = [gradient for gradient, has in zip(gradients, ctx.has_derivatives, strict=True) if has]
        results: list[torch.Tensor | None] = [None] * len(operands)
        for index, result in zip(
            wanted, _apply(_forms[ctx.key].vjp(wanted, len(operands)), [*operands, *given]), strict=True
        ):
            results[index] = result
        return None, *results

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: torch.Tensor | None) -> Any:
        operands = ctx.saved_tensors
        wanted = tuple(index for index, tangent in enumerate(tangents) if tangent is not None)
        given = [tangent for tangent in tangents if tangent is not None]
        found = iter(_apply(_forms[ctx.key].jvp(wanted, len(operands)), [*operands, *given]))
        return tuple(next(found) if has else None for has in ctx.has_derivatives)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], key: str, *operands: torch.Tensor) -> Any:
        results = _apply(_forms[key].vmap(tuple(in_dims[1:])), operands)
        return results, (0,) * len(results)


def _apply(form: _Form, operands: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    results: tuple[torch.Tensor, ...] = _Apply.apply(form.key, *operands)  # type: ignore[no-untyped-call]
    return results


# --- functions of users ----------------------------------------------------------------------------------------------


class _Function:
    """A function of JAX over trees, and its forms by the structure of the arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)
        self._forms: dict[Hashable, _Form] = {}
        self._structures: dict[Hashable, Any] = {}  # of results, by form and signature
        self._structure: Any = None  # of the results of the function's last trace

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import jax

        arguments, tensors = divide(self.name, (torch.Tensor,), args, kwargs)
        self._check(tensors)
        form = self._form(arguments)
        operands = [narrowed(tensor) for tensor in tensors]
        structure = self._structure_of(form, operands)
        return jax.tree.unflatten(structure, _apply(form, operands))

    def _structure_of(self, form: _Form, operands: Sequence[torch.Tensor]) -> Any:
        what = form.key, _signature(operands)
        with _lock:
            if what not in self._structures:
                form.results(operands)
                self._structures[what] = self._structure
            return self._structures[what]

    def _check(self, tensors: Sequence[torch.Tensor]) -> None:
        if not tensors:
            raise ValueError(f"{self.name}: an operator of JAX needs a tensor among its arguments, and has none")
        for tensor in tensors:
            if tensor.device.type != DEVICE_NAME or tensor.device != tensors[0].device:
                raise ValueError(
                    f"{self.name}: an operator of JAX takes tensors on one {DEVICE_NAME} device, and is given tensors "
                    f"on {tensors[0].device} and {tensor.device}; move them with to()"
                )
            if tensor.layout != torch.strided or tensor.is_quantized:
                raise TypeError(
                    f"{self.name}: an operator of JAX takes dense tensors, and is given one of layout {tensor.layout}"
                )

    def _form(self, arguments: Arguments) -> _Form:
        import jax

        with _lock:
            if arguments not in self._forms:

                def function(*arrays: Any) -> list[Any]:
                    args, kwargs = arguments.filled(arrays)
                    leaves, self._structure = jax.tree.flatten(self.function(*args, **kwargs))
                    return [jax.numpy.asarray(leaf) for leaf in leaves]

                self._forms[arguments] = _Form(self.name, function)
            return self._forms[arguments]


def operator(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function of JAX a function of tensors on the device. May be used as a decorator.

    Arguments and results are trees, as JAX has them. Tensors among the arguments are the function's arrays, all on one
    device; all others are constants of the function, and need a hash. JAX compiles the function for each list of sizes
    and dtypes, as ``jax.jit`` does, and the kernels run on the current stream, in the tensors' own memory.

    The result has gradients of every order, tangents, ``torch.vmap``, and works inside ``torch.compile`` and captured
    graphs. Its random numbers are JAX's, of keys that are arguments. Without ``jax_enable_x64``, tensors of 64-bit
    types are converted, as everywhere in JAX.

    Raises ValueError where no argument is a tensor, or they are not on one device of the platform. Raises TypeError for
    sparse and quantized tensors, types that the other side does not have, and constants without a hash. Raises what JAX
    raises for the function. Functions with effects, and with loops whose end is computed, cannot be captured.
    """
    import torch._dynamo

    pjrt_mydev.initialize()
    called = _Function(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return called(*args, **kwargs)

    as_one_node: Callable[..., Any] = torch._dynamo.nonstrict_trace(call)
    return as_one_node
