"""jax.ffi's terms: registering functions as kernels, and calling kernels whose results the caller describes."""

from torch_mydev.custom_call.ffi.call import ffi_call
from torch_mydev.custom_call.ffi.site import FfiCall
from torch_mydev.custom_call.ffi.targets import register_ffi_target

__all__ = ["FfiCall", "ffi_call", "register_ffi_target"]
