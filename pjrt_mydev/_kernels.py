"""Kernels of the registry as functions of JAX: shapes, gradients and batching are what their records say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import CustomVJPPrimal, SymbolicZero

from pjrt_mydev import _expressions
from pjrt_mydev._records import attribute_value, infer_results, kernel_info

_Operands = tuple[Any, ...]  # of the signature: an array, None where it is absent, a tuple of arrays for a variadic one
_Values = Mapping[str, Any]  # all attributes


class Kernel:
    """A kernel whose record has a signature, called like the operator of PyTorch that it becomes.

    ``kernel(*operands, **attributes)``: an optional operand may be None, a variadic one is a sequence of arrays;
    attributes have the defaults of the signature. One result is an array, several are a tuple. A result that is written
    in place of an operand is a new array, as everywhere in JAX.

    Reverse-mode differentiation calls the gradient kernel of the record, which may have a gradient of its own; without
    one, and for operands that it does not have, it raises. A kernel that computes element by element by an expression
    needs none, and is differentiated in both modes. `jax.vmap` does what the record's batching rule says.
    """

    def __init__(self, name: str) -> None:
        self.info = kernel_info(name)
        if self.info["signature"] is None:
            raise NotImplementedError(
                f"kernel '{name}' has no signature, so its results are not known; call it with jax.ffi.ffi_call"
            )
        self._specs: list[dict[str, Any]] = self.info["signature"]["operands"]
        self.__name__ = name
        self.__doc__ = self.info["doc"]

    def __repr__(self) -> str:
        return f"<kernel {self.info['schema']}>"

    def __call__(self, *operands: Any, **attributes: Any) -> Any:
        given, values = self._complete(operands), self._values(attributes)
        contract = self.info["contract"]
        if contract and contract["one_shape"]:
            given = _broadcast(given)
        if self.info["gradient"] is not None:
            results = self._differentiable(values)(given)
        elif contract and contract["pointwise"]:
            results = self._differentiable_by_expression(values)(given)
        else:
            results = self._call(given, values)
        return results[0] if len(results) == 1 else results

    # --- a call ---

    def _complete(self, operands: Sequence[Any]) -> _Operands:
        if len(operands) > len(self._specs):
            raise TypeError(f"{self.info['schema']}: {len(operands)} operands were given")
        absent = (None,) * (len(self._specs) - len(operands))
        return tuple(map(_as_arrays, self._specs, (*operands, *absent)))

    def _values(self, attributes: _Values) -> dict[str, Any]:
        specs = {spec["name"]: spec for spec in self.info["signature"]["attributes"]}
        if unknown := sorted(set(attributes) - set(specs)):
            raise TypeError(f"{self.info['schema']}: there is no attribute {', '.join(unknown)}")
        if missing := [name for name, spec in specs.items() if spec["required"] and name not in attributes]:
            raise TypeError(f"{self.info['schema']}: attribute {', '.join(missing)} is needed")
        return {
            name: attribute_value(spec, attributes[name] if name in attributes else spec["default"])
            for name, spec in specs.items()
        }

    def _call(self, operands: _Operands, values: _Values) -> tuple[Any, ...]:
        flat = [array for operand in operands for array in (operand if isinstance(operand, tuple) else (operand,))]
        shapes = [None if array is None else (array.dtype.name, array.shape) for array in flat]
        results = [
            jax.ShapeDtypeStruct(sizes, jnp.dtype(dtype)) for dtype, sizes in infer_results(self.info, shapes, values)
        ]
        # Programs have no operands that are absent: this says where they were.
        absent = np.array([i for i, array in enumerate(flat) if array is None], np.int64)
        marks = {"mydev.absent": absent} if absent.size else {}
        batching = self.info["batching"]
        call = jax.ffi.ffi_call(self.info["name"], results, vmap_method=None if batching == "none" else batching)
        arrays = call(*(array for array in flat if array is not None), **values, **marks)
        single = sum(not spec["variadic"] for spec in self.info["signature"]["results"])
        has_variadic = single < len(self.info["signature"]["results"])
        return (*arrays[:single], tuple(arrays[single:])) if has_variadic else tuple(arrays)

    # --- its gradient ---

    def _differentiable_by_expression(self, values: _Values) -> Any:
        names = [spec["name"] for spec in self._specs]
        results = self.info["signature"]["results"]

        def computed(operands: _Operands, dtypes: Sequence[Any]) -> tuple[Any, ...]:
            known = {name: 1 if operand is None else operand for name, operand in zip(names, operands, strict=True)}
            return tuple(
                _expressions.compute(self.info["contract"], known | dict(values), result["name"], dtype)
                for result, dtype in zip(results, dtypes, strict=True)
            )

        def with_tangents(primals: tuple[_Operands], tangents: tuple[_Operands]) -> tuple[Any, Any]:
            found = call(*primals)  # which may be differentiated again
            dtypes = [array.dtype for array in found]
            return found, jax.jvp(lambda operands: computed(operands, dtypes), primals, tangents)[1]

        call = jax.custom_jvp(lambda operands: self._call(operands, values))
        call.defjvp(with_tangents)
        return call

    def _differentiable(self, values: _Values) -> Any:
        def forward(marked: Any) -> tuple[tuple[Any, ...], Any]:
            self._check_derivatives(marked)
            operands = jax.tree.map(lambda primal: primal.value, marked, is_leaf=_is_primal)
            results = call(operands)  # which may be differentiated again
            return results, [operands[i] if i >= 0 else results[-1 - i] for i in self.info["gradient"]["saved"]]

        def backward(saved: list[Any], cotangents: Sequence[Any]) -> tuple[_Operands]:
            found = self._gradients(saved, cotangents, values)
            return (tuple(found.get(i) for i in range(len(self._specs))),)

        call = jax.custom_vjp(lambda operands: self._call(operands, values))
        call.defvjp(forward, backward, symbolic_zeros=True)
        return call

    def _check_derivatives(self, marked: Any) -> None:
        """Raises for an operand whose derivative is asked for and that the record does not have."""
        for i, (spec, operand) in enumerate(zip(self._specs, marked, strict=True)):
            primals = jax.tree.leaves(operand, is_leaf=_is_primal)
            asked = any(primal.perturbed and jnp.issubdtype(primal.value.dtype, jnp.inexact) for primal in primals)
            if asked and i not in self.info["differentiable"]:
                raise NotImplementedError(
                    f"kernel '{self.__name__}' has no gradient for operand '{spec['name']}'; use "
                    f"jax.lax.stop_gradient, or give the record one"
                )

    def _gradients(self, saved: Sequence[Any], cotangents: Sequence[Any], values: _Values) -> dict[int, Any]:
        """By operand, what the gradient kernel gives: it takes what is saved, a gradient for each result of floating
        type, and last the parts of a variadic operand.
        """
        wrt, into = self.info["gradient"]["wrt"], Kernel(self.info["gradient"]["kernel"])
        grads = [
            jnp.zeros(grad.shape, grad.dtype) if isinstance(grad, SymbolicZero) else grad
            for grad in cotangents
            if jnp.issubdtype(grad.dtype, jnp.inexact)
        ]
        single = [value for value in saved if not isinstance(value, tuple)]
        variadic = [value for value in saved if isinstance(value, tuple)]
        shared = set(values) & {spec["name"] for spec in into.info["signature"]["attributes"]}
        answer = into(*single, *grads, *variadic, **{name: values[name] for name in shared})
        gradients = answer if isinstance(answer, tuple) and len(into.info["signature"]["results"]) > 1 else (answer,)
        if len(gradients) != len(wrt):
            raise ValueError(
                f"kernel '{into.__name__}' has {len(gradients)} results, and as the gradient of '{self.__name__}' it "
                f"needs {len(wrt)}"
            )
        return dict(zip(wrt, gradients, strict=True))


def _as_arrays(spec: Mapping[str, Any], operand: Any) -> Any:
    if spec["variadic"]:
        return tuple(map(jnp.asarray, operand if operand is not None else ()))
    return None if operand is None else jnp.asarray(operand)


def _broadcast(operands: _Operands) -> _Operands:
    """Operands of one shape; those that are absent stay so."""
    arrays = iter(jnp.broadcast_arrays(*(operand for operand in operands if operand is not None)))
    return tuple(None if operand is None else next(arrays) for operand in operands)


def _is_primal(value: Any) -> bool:
    return isinstance(value, CustomVJPPrimal)
