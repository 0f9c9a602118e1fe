"""Callbacks: Python functions that programs call, of `jax.pure_callback`, `jax.experimental.io_callback`, `jax.debug`.

JAX emits them for platforms that it knows by name. For this one they become custom calls of one kernel, with a number
by which this module finds the function. If the host cannot reach the device's memory, the plugin copies.
"""

from __future__ import annotations

import ctypes
import importlib
import logging
import secrets
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pjrt_mydev._library import library_path

logger = logging.getLogger(__name__)

TARGET = "pjrt.python_callback"
_MOST_NUMBERS = 2**62

_Function = Callable[[Any, Any], None]  # of the operands' and the results' addresses
_functions: dict[int, _Function] = {}
# At most so many functions are kept of programs that Python has released, since these may still be running.
_MOST_RETIRED = 256
_retired: deque[int] = deque()


class Kept:
    """Keeps a function: while this object lives, the function can be called by its number."""


def _array(address: int, aval: Any) -> np.ndarray[Any, Any]:
    """The tensor that lies there, as an array over its memory."""
    dtype = np.dtype(aval.dtype)
    count = int(np.prod(aval.shape))
    if count == 0:
        return np.empty(aval.shape, dtype)
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(memory, dtype=dtype).reshape(aval.shape)


def _check(index: int, array: np.ndarray[Any, Any], aval: Any) -> None:
    fits = array.dtype == aval.dtype or np.can_cast(array.dtype, aval.dtype, "same_kind")
    if array.shape != aval.shape or not fits:
        raise RuntimeError(
            f"result {index} of the callback is {array.dtype}{list(array.shape)}, and "
            f"{aval.dtype}{list(aval.shape)} was expected"
        )


def _retire(number: int) -> None:
    _retired.append(number)
    if len(_retired) > _MOST_RETIRED:
        _functions.pop(_retired.popleft(), None)


def keep(
    callback: Callable[..., Sequence[Any]], operand_avals: Sequence[Any], result_avals: Sequence[Any]
) -> tuple[int, Kept]:
    """The attribute ``callback`` of a custom call of TARGET that calls the function, and what keeps it.

    The function takes and gives arrays of NumPy of these shapes and types. It must ask no device for anything.
    """

    def call(operands: Any, results: Any) -> None:
        values = callback(*(_array(operands[i], aval).copy() for i, aval in enumerate(operand_avals)))
        if len(values) != len(result_avals):
            raise RuntimeError(f"the callback gave {len(values)} results, and {len(result_avals)} were expected")
        for i, (value, aval) in enumerate(zip(values, result_avals, strict=True)):
            array = np.asarray(value)
            _check(i, array, aval)
            if array.size:
                _array(results[i], aval)[...] = array

    # The number is random, so that a program of another process, from a cache, never finds a function here.
    number = secrets.randbelow(_MOST_NUMBERS)
    _functions[number] = call
    kept = Kept()
    weakref.finalize(kept, _retire, number)
    return number, kept


def _call(number: int, operands: Any, results: Any, message: int, size: int) -> int:
    """0, or 1 and a message of at most so many bytes. Called by the plugin, on threads of its own too."""
    function = _functions.get(number)
    try:
        if function is None:
            raise RuntimeError("the Python function is gone, or was of another process; compile the program again")
        function(operands, results)
    except BaseException as error:
        text = f"{type(error).__name__}: {error}".encode()[: size - 1] + b"\0"
        ctypes.memmove(message, text, len(text))
        return 1
    return 0


_pointers = ctypes.POINTER(ctypes.c_void_p)
_called_by_the_plugin = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int64, _pointers, _pointers, ctypes.c_void_p, ctypes.c_size_t
)(_call)


def enable_callbacks(platform: str) -> None:
    """Lets JAX emit callbacks for the platform."""
    callback: Any = importlib.import_module("jax._src.callback")
    from jax._src import ffi

    original = getattr(callback, "emit_python_callback", None)
    if original is None:
        logger.warning("this version of JAX emits callbacks elsewhere; they are not supported")
        return
    ctypes.CDLL(str(library_path())).mydev_pjrt_set_callback(_called_by_the_plugin)

    def emit(
        ctx: Any, function: Any, token: Any, operands: Any, operand_avals: Any, result_avals: Any, **options: Any
    ) -> Any:
        if tuple(ctx.module_context.platforms) != (platform,):
            return original(ctx, function, token, operands, operand_avals, result_avals, **options)
        number, kept = keep(function, operand_avals, result_avals)
        ctx.module_context.add_keepalive(kept)
        lowered = ffi.build_ffi_lowering_function(TARGET, has_side_effect=options["has_side_effect"])
        inner = ctx.replace(avals_in=list(operand_avals), avals_out=list(result_avals))
        # Programs run in their order, so that tokens have nothing to say.
        results = lowered(inner, *operands, callback=np.int64(number)).results
        return list(results), token, None

    callback.emit_python_callback = emit
