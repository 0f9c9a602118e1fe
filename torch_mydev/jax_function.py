"""Functions of PyTorch as functions of JAX. ``torch_mydev.jax.function`` is the public part.

A function of PyTorch on flat lists of tensors is a *form*. Derivatives and batches of a form are forms as well, which
PyTorch makes when they are asked for. A form is one operation of JAX. When JAX compiles it, PyTorch traces the form
for these sizes and dtypes, and its kernels become a part of JAX's program. PyTorch runs nothing then. Only operators
that cannot be recorded are calls of the host.

A form and its tangents are operations, and the latter are linear in tangents. So JAX transposes them for gradients:
their transpose is PyTorch's own backward of the form. Gradients never make PyTorch compute tangents.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import torch

import pjrt_mydev
from pjrt_mydev import _callbacks
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.compile.program.pure_function import PureFunction, Shape, Step, as_array, shape_of
from torch_mydev.jax_arguments import Arguments, divide
from torch_mydev.jax_types import has_derivatives, jax_dtype, narrowed, torch_dtype

_PROGRAM = "mydev.program"  # the custom call of a program's text

_lock = threading.RLock()


class _Form:
    """A function of tensors, of any fixed number, that returns a list of tensors."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Sequence[torch.Tensor]],
        shapes: Callable[[Sequence[Shape]], list[Shape]] | None = None,
        tangents_of: tuple[_Form, tuple[int, ...]] | None = None,
    ) -> None:
        """``shapes``: those of the results, if they are known without a trace. ``tangents_of``: the form whose tangents
        it computes, and for tangents of which operands, which come behind the operands."""
        self.name = name
        self.function = function
        self.tangents_of = tangents_of
        self._shapes = shapes
        self._derived: dict[Hashable, _Form] = {}
        self._traced: dict[Hashable, PureFunction] = {}

    def __repr__(self) -> str:
        return self.name

    def traced(self, operands: Sequence[Shape]) -> PureFunction:
        import jax

        signature = bool(jax.config.jax_enable_x64), *operands
        with _lock:
            if signature not in self._traced:
                try:
                    self._traced[signature] = PureFunction(self.function, operands)
                except Exception as error:
                    raise _explained(self.name, error) from error
            return self._traced[signature]

    def steps(self, operands: Sequence[Shape]) -> tuple[PureFunction, list[Step]]:
        traced = self.traced(operands)
        with _lock:
            try:
                return traced, traced.steps
            except ValueError as error:
                raise _explained(self.name, error) from error

    def results(self, operands: Sequence[Shape]) -> list[Shape]:
        return self.traced(operands).results if self._shapes is None else self._shapes(operands)

    @functools.cached_property
    def jitted(self) -> Callable[..., Any]:
        import jax

        jitted: Callable[..., Any] = jax.jit(lambda *arrays: _operation().bind(*arrays, form=self))
        return jitted

    def _derive(self, how: Hashable, make: Callable[[], _Form]) -> _Form:
        with _lock:
            if how not in self._derived:
                self._derived[how] = make()
            return self._derived[how]

    def _as_function_of(self, wanted: Sequence[int], operands: Sequence[torch.Tensor]) -> Callable[..., Any]:
        """The results that have derivatives, as a function of some of the operands."""

        def function(*chosen: torch.Tensor) -> list[torch.Tensor]:
            filled = list(operands)
            for index, value in zip(wanted, chosen, strict=True):
                filled[index] = value
            return [result for result in self.function(*filled) if has_derivatives(result.dtype)]

        return function

    def vjp(self, wanted: tuple[int, ...], num_operands: int) -> _Form:
        """Gradients of these operands, from operands and gradients of results. PyTorch's are conjugates of JAX's."""

        def pull(*tensors: torch.Tensor) -> list[torch.Tensor]:
            operands, gradients = tensors[:num_operands], tensors[num_operands:]
            chosen = (operands[index] for index in wanted)
            back = torch.func.vjp(self._as_function_of(wanted, operands), *chosen)[1]
            return [gradient.conj() for gradient in back([gradient.conj() for gradient in gradients])]

        def make() -> _Form:
            return _Form(f"{self.name}.vjp", pull, lambda operands: [operands[index] for index in wanted])

        return self._derive(("vjp", wanted), make)

    def jvp(self, wanted: tuple[int, ...], num_operands: int) -> _Form:
        """Tangents of results, from operands and tangents of these."""

        def push(*tensors: torch.Tensor) -> list[torch.Tensor]:
            operands, tangents = tensors[:num_operands], tensors[num_operands:]
            points = tuple(operands[index] for index in wanted)
            return list(torch.func.jvp(self._as_function_of(wanted, operands), points, tangents)[1])

        def shapes(operands: Sequence[Shape]) -> list[Shape]:
            return [shape for shape in self.results(operands[:num_operands]) if has_derivatives(shape[1])]

        return self._derive(
            ("jvp", wanted), lambda: _Form(f"{self.name}.jvp", push, shapes, tangents_of=(self, wanted))
        )

    def vmap(self, axes: tuple[int | None, ...]) -> _Form:
        def shapes(operands: Sequence[Shape]) -> list[Shape]:
            size = next(sizes[axis] for (sizes, _), axis in zip(operands, axes, strict=True) if axis is not None)
            single = [
                (sizes if axis is None else (*sizes[:axis], *sizes[axis + 1 :]), dtype)
                for (sizes, dtype), axis in zip(operands, axes, strict=True)
            ]
            return [((size, *sizes), dtype) for sizes, dtype in self.results(single)]

        return self._derive(
            ("vmap", axes), lambda: _Form(f"{self.name}.vmap", torch.vmap(self.function, in_dims=axes), shapes)
        )


def _explained(name: str, error: Exception) -> Exception:
    """The error of a function that is traced, in one line, with the function's name."""
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

    kind = type(error) if isinstance(error, (ValueError, TypeError, NotImplementedError)) else RuntimeError
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    if isinstance(error, DataDependentOutputException):
        kind = ValueError
        text = f"{text} asks for a number of a tensor, which has none before JAX's program runs; use torch.where"
    elif isinstance(error, DynamicOutputShapeException):
        kind = ValueError
        text = f"{text} gives a tensor whose sizes depend on values, and those of JAX's arrays do not"
    return kind(f"{name}: {text}")


def _shape_of_aval(aval: Any) -> Shape:
    return tuple(map(int, aval.shape)), torch_dtype(aval.dtype, "an argument")


# --- the operation of JAX --------------------------------------------------------------------------------------------


@functools.cache
def _operation() -> Any:
    import jax
    from jax.extend.core import Primitive
    from jax.interpreters import ad, batching, mlir

    def results_of(*avals: Any, form: _Form) -> list[Any]:
        return [jax.core.ShapedArray(sizes, jax_dtype(dtype)) for sizes, dtype in form.results(_shapes(avals))]

    operation = Primitive("torch_function")
    operation.multiple_results = True
    operation.def_impl(lambda *arrays, form: form.jitted(*arrays))
    operation.def_abstract_eval(results_of)
    ad.primitive_jvps[operation] = _push
    ad.primitive_transposes[operation] = _pull
    batching.primitive_batchers[operation] = _batch
    mlir.register_lowering(operation, _lower, platform=DEVICE_NAME)
    return operation


def _shapes(avals: Sequence[Any]) -> list[Shape]:
    return [_shape_of_aval(aval) for aval in avals]


def _push(primals: Sequence[Any], tangents: Sequence[Any], *, form: _Form) -> tuple[list[Any], list[Any]]:
    import jax
    import jax.numpy as jnp
    from jax.interpreters import ad

    results = _operation().bind(*primals, form=form)
    wanted = tuple(
        index
        for index, (primal, tangent) in enumerate(zip(primals, tangents, strict=True))
        if type(tangent) is not ad.Zero and jnp.issubdtype(primal.dtype, jnp.inexact)
    )
    pushed = iter(())
    if wanted:
        given = [tangents[index] for index in wanted]
        pushed = iter(_operation().bind(*primals, *given, form=form.jvp(wanted, len(primals))))
    moves = [bool(wanted) and jnp.issubdtype(result.dtype, jnp.inexact) for result in results]
    return results, [
        next(pushed) if moved else ad.Zero(jax.typeof(result).to_tangent_aval())
        for result, moved in zip(results, moves, strict=True)
    ]


def _pull(cotangents: Sequence[Any], *operands: Any, form: _Form) -> list[Any]:
    from jax.interpreters import ad

    if form.tangents_of is None:
        raise NotImplementedError(f"{form.name}: it is not known to be linear, so that JAX cannot transpose it")
    of, wanted = form.tangents_of
    count = len(operands) - len(wanted)
    places = [place for place, operand in enumerate(operands) if ad.is_undefined_primal(operand)]
    asked = tuple(wanted[place - count] for place in places)
    given = [ad.instantiate_zeros(cotangent) for cotangent in cotangents]
    gradients = _operation().bind(*operands[:count], *given, form=of.vjp(asked, count))
    results: list[Any] = [None] * len(operands)
    for place, gradient in zip(places, gradients, strict=True):
        results[place] = gradient
    return results


def _batch(operands: Sequence[Any], axes: Sequence[int | None], *, form: _Form) -> tuple[list[Any], list[int]]:
    from jax.interpreters import batching

    if form.tangents_of is None:
        results = _operation().bind(*operands, form=form.vmap(tuple(axes)))
        return results, [0] * len(results)
    # Tangents of a batch, which JAX can transpose as well: each operand with a tangent has the batch, and so has that.
    of, wanted = form.tangents_of
    count = len(operands) - len(wanted)
    size = next(operand.shape[axis] for operand, axis in zip(operands, axes, strict=True) if axis is not None)
    batched, places = list(operands), list(axes)
    for place in (*wanted, *range(count, len(operands))):
        batched[place], places[place] = batching.bdim_at_front(operands[place], axes[place], size), 0
    results = _operation().bind(*batched, form=of.vmap(tuple(places[:count])).jvp(wanted, count))
    return results, [0] * len(results)


def _lower(context: Any, *operands: Any, form: _Form) -> Any:
    import jax
    from jax.interpreters import mlir

    traced, steps = form.steps(_shapes(context.avals_in))
    # Steps may hand tensors of 64-bit types to each other in any case.
    with jax.enable_x64(True):
        compute = functools.partial(_compute, traced, steps, context.module_context.add_keepalive)
        return mlir.lower_fun(compute, multiple_results=True)(context, *operands)


def _compute(traced: PureFunction, steps: Sequence[Step], keep_alive: Callable[[Any], None], *arrays: Any) -> list[Any]:
    """The results, in terms of JAX: a custom call for each step."""
    import jax
    import jax.numpy as jnp

    def struct(node: torch.fx.Node) -> Any:
        sizes, dtype = shape_of(node)
        return jax.ShapeDtypeStruct(sizes, jax_dtype(dtype))

    def value(node: torch.fx.Node) -> Any:
        if node not in values:
            shape = struct(node)
            known = traced.constants.get(node)
            values[node] = jnp.zeros(shape.shape, shape.dtype) if known is None else jnp.asarray(as_array(known.cpu()))
        return values[node]

    values = dict(zip(traced.inputs, arrays, strict=True))
    for step in steps:
        given, shapes = [value(node) for node in step.arguments], [struct(node) for node in step.results]
        if step.program is not None:
            results = jax.ffi.ffi_call(_PROGRAM, shapes)(*given, program=step.program)
        else:
            number, kept = _callbacks.keep(step.run_on_host, [struct(node) for node in step.arguments], shapes)
            keep_alive(kept)
            results = jax.ffi.ffi_call(_callbacks.TARGET, shapes)(*given, callback=np.int64(number))
        values.update(zip(step.results, results, strict=True))
    return [value(node) for node in traced.outputs]


# --- functions of users ----------------------------------------------------------------------------------------------


class _Function:
    """A function of PyTorch over trees, and its forms by its constants."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function = function
        self.name = name
        self._forms: dict[Arguments, _Form] = {}
        self._structures: dict[Hashable, Any] = {}  # of results, by form and signature
        self._structure: Any = None  # of the results of the function's last trace

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import jax

        arguments, leaves = divide(self.name, (jax.Array, np.ndarray, np.generic), args, kwargs)
        arrays = [jax.numpy.asarray(leaf) for leaf in leaves]
        with _lock:
            if arguments not in self._forms:
                self._forms[arguments] = self._form(arguments)
            form = self._forms[arguments]
            shapes = [_shape_of_aval(array) for array in arrays]
            what = form, bool(jax.config.jax_enable_x64), *shapes
            if what not in self._structures:
                form.traced(shapes)
                self._structures[what] = self._structure
        return jax.tree.unflatten(self._structures[what], _operation().bind(*arrays, form=form))

    def _form(self, arguments: Arguments) -> _Form:
        def function(*tensors: torch.Tensor) -> list[torch.Tensor]:
            import jax

            args, kwargs = arguments.filled(tensors)
            leaves, self._structure = jax.tree.flatten(self.function(*args, **kwargs))
            return [self._result(leaf) for leaf in leaves]

        return _Form(self.name, function)

    def _result(self, leaf: Any) -> torch.Tensor:
        if isinstance(leaf, (bool, int, float, complex)):
            leaf = torch.full((), leaf, device=DEVICE_NAME)
        if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided or leaf.is_quantized:
            raise TypeError(f"it returns {type(leaf).__name__}, and JAX takes trees of dense tensors and numbers")
        return narrowed(leaf)


def function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function of tensors a function of JAX's arrays on the device. May be used as a decorator.

    Arguments and results are trees, as JAX has them. Arrays among the arguments are the function's tensors; all others
    are constants of the function, and need a hash. A ``torch.nn.Module`` becomes a function of its parameters and
    buffers, by their names, and of its arguments, as ``torch.func.functional_call`` has it.

    PyTorch traces the function for each list of sizes and dtypes. Its kernels become a part of the program that JAX
    compiles, so it works under ``jax.jit``, ``jax.lax.scan`` and the like, on each device. PyTorch computes on the host
    whatever cannot be recorded. The function has derivatives of every order in both modes, and ``jax.vmap``.
    Tensors of its surroundings are constants, as they were at the first call. Without ``jax_enable_x64``, results of
    64-bit types are converted, as everywhere in JAX.

    Raises, in one line with the function's name, what PyTorch raises while it is traced. Raises ValueError for a
    function that draws random numbers, writes its arguments, or asks for numbers of tensors. Raises TypeError for types
    that the other side does not have, constants without a hash, and results that are no tensors or numbers.
    """
    pjrt_mydev.initialize()
    if isinstance(function, torch.nn.Module):
        module = _Function(functools.partial(torch.func.functional_call, function), type(function).__name__)

        def call_module(state: Any, *args: Any, **kwargs: Any) -> Any:
            return module(state, args, kwargs)

        return call_module
    called = _Function(function, getattr(function, "__name__", type(function).__name__))

    @functools.wraps(function)
    def call_function(*args: Any, **kwargs: Any) -> Any:
        return called(*args, **kwargs)

    return call_function
