"""Kernels of your own: loading libraries of them, listing what there is, and calling handlers in jax.ffi's terms.

A library is a shared object built with one header, ``mydev/custom_call.h`` (docs/custom-calls.md is the guide). Each of
its kernels that has a signature becomes ``torch.ops.mydev_cc.<name>``, with a fake kernel, gradients and batching as
its record says. Kernels without a signature, and handlers compiled for XLA, are called with :func:`ffi_call`.

Loading runs the library's code with all the rights of this process. Files come from :func:`load_custom_calls`, from
``MYDEV_CUSTOM_CALLS`` (absolute files or directories, separated by colons), and from entry points of the group
``mydev.custom_calls`` (a callable that returns paths); the last two are loaded when a kernel is first looked up.

Errors of custom calls are ValueError (invalid argument), NotImplementedError (unimplemented), torch.OutOfMemoryError
(resource exhausted) or RuntimeError, and name the kernel, its library and its operands. On an asynchronous device an
error of the work itself is raised where the stream is waited for, and says which line launched it.
"""

from typing import TYPE_CHECKING

from torch_mydev._first_use import at_first_use

if TYPE_CHECKING:
    from torch_mydev.custom_call.ffi import FfiCall, ffi_call, register_ffi_target
    from torch_mydev.custom_call.loading import KernelLibrary, libraries, load_custom_calls, reload_custom_calls
    from torch_mydev.custom_call.records import (
        DriversKernelInfo,
        KernelInfo,
        SignatureInfo,
        drivers_kernels,
        kernel_info,
        kernels,
        unregister_kernel,
    )

_HOMES = {
    "drivers_kernels": "records",
    "DriversKernelInfo": "records",
    "ffi_call": "ffi",
    "FfiCall": "ffi",
    "kernel_info": "records",
    "KernelInfo": "records",
    "KernelLibrary": "loading",
    "kernels": "records",
    "libraries": "loading",
    "load_custom_calls": "loading",
    "register_ffi_target": "ffi",
    "reload_custom_calls": "loading",
    "SignatureInfo": "records",
    "unregister_kernel": "records",
}
if not TYPE_CHECKING:  # which would take any name for one that there is
    __getattr__ = at_first_use(__name__, _HOMES)

__all__ = [
    "DriversKernelInfo",
    "FfiCall",
    "KernelInfo",
    "KernelLibrary",
    "SignatureInfo",
    "drivers_kernels",
    "ffi_call",
    "kernel_info",
    "kernels",
    "libraries",
    "load_custom_calls",
    "register_ffi_target",
    "reload_custom_calls",
    "unregister_kernel",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
