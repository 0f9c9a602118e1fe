"""Memory that JAX shares with others in this process, by DLPack capsules and streams of the device's runtime.

JAX's own interface refuses DLPack on platforms that it does not know by name, in both directions. jaxlib takes a
capsule all the same; outward the plugin makes one, of the buffer that it is asked the address of.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from pjrt_mydev._library import device_name, library_path

_T = TypeVar("_T")

_UNIMPLEMENTED = 12  # of driver.h's codes: what type DLPack does not have
_CAPSULE = b"dltensor"  # for good: capsules borrow their name


class _ManagedTensor(ctypes.Structure):
    """Only the end of DLPack's struct is needed here: the function that releases it."""

    _fields_ = (("tensor", ctypes.c_uint64 * 6), ("owner", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


@cache
def _plugin() -> Any:
    library = ctypes.CDLL(str(library_path()))
    library.mydev_pjrt_want_buffer.restype = None
    library.mydev_pjrt_want_buffer.argtypes = [ctypes.c_bool]
    message = ctypes.POINTER(ctypes.c_char_p)
    library.mydev_pjrt_lend.argtypes = [ctypes.c_int64, ctypes.POINTER(ctypes.c_void_p), message]
    library.mydev_pjrt_wait_for_stream.argtypes = [ctypes.c_int64, ctypes.c_int64, message]
    return library


def _call(function: Any, *arguments: Any) -> None:
    message = ctypes.c_char_p()
    code = function(*arguments, ctypes.byref(message))
    if code:
        text = (message.value or b"").decode(errors="replace")
        raise TypeError(text) if code == _UNIMPLEMENTED else RuntimeError(text)


def devices() -> list[Any]:
    """JAX's devices of the platform, by their index. Raises RuntimeError where JAX was told to go without them."""
    import jax

    return sorted(jax.local_devices(backend=device_name()), key=lambda device: int(device.id))


def lend(array: Any, stream: int, consume: Callable[[Any], _T]) -> _T:
    """Returns the result of `consume` for a capsule over an array of one device. The stream waits for the array's work.

    Raises RuntimeError for an array that was deleted, is not in the device's own memory, or whose computation failed;
    TypeError for a type that DLPack does not have.
    """
    plugin = _plugin()
    managed = ctypes.c_void_p()
    plugin.mydev_pjrt_want_buffer(True)
    try:
        array.unsafe_buffer_pointer()
        _call(plugin.mydev_pjrt_lend, stream, ctypes.byref(managed))
    finally:
        plugin.mydev_pjrt_want_buffer(False)
    new, is_valid = ctypes.pythonapi.PyCapsule_New, ctypes.pythonapi.PyCapsule_IsValid
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    is_valid.restype, is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
    capsule = new(managed, _CAPSULE, None)
    try:
        return consume(capsule)
    finally:
        if is_valid(capsule, _CAPSULE):  # nobody took it, who would have changed its name
            release = _ManagedTensor.from_address(managed.value or 0).deleter
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(release or 0)(managed)


def borrow(capsule: Any, device: Any, stream: int) -> Any:
    """A JAX array over a capsule's memory, which is dense; the device waits for what the stream was given so far.

    Raises TypeError for a type that JAX does not have.
    """
    import jax

    _call(_plugin().mydev_pjrt_wait_for_stream, device.local_hardware_id, stream)
    jaxlib: Any = importlib.import_module("jax._src.lib")._jax
    try:
        return jaxlib.dlpack_managed_tensor_to_buffer(capsule, device, None)
    except jax.errors.JaxRuntimeError as error:
        raise (TypeError(str(error)) if "UNIMPLEMENTED" in str(error) else error) from None
