"""A PyTorch backend for a device of your own.

``import torch`` alone makes the device known, since torch loads this package by its entry point. Import it by name for
what it adds to torch's own interface; what ``torch.cuda`` has is at ``torch.mydev``.
"""

from typing import TYPE_CHECKING

from torch_mydev._importing import imported_by_torch
from torch_mydev._version import __version__ as __version__
from torch_mydev._version import explain_mydev

if TYPE_CHECKING:
    from torch_mydev.custom_call import (
        ffi_call,
        kernel_info,
        kernels,
        load_custom_calls,
        register_ffi_target,
        reload_custom_calls,
        unregister_kernel,
    )
    from torch_mydev.headers import cmake_dir
    from torch_mydev.observe.compile_report import compile_report, reset_compile_report
    from torch_mydev.observe.fallback import FallbackCensus, fallback_census, fallback_mode, get_fallback_mode
    from torch_mydev.observe.trace import dispatch_trace

_problem = explain_mydev()
if _problem and not imported_by_torch():  # which warns of it
    raise ImportError(_problem, name=__name__)
if not _problem:
    from torch_mydev import _autoload
    from torch_mydev._device_name import DEVICE_NAME as device_name

__all__ = ["device_name"]

if not _problem and _autoload.register_on_import():
    from torch_mydev._first_use import at_first_use

    _HOMES = {
        "cmake_dir": "headers",
        "compile_report": "observe.compile_report",
        "dispatch_trace": "observe.trace",
        "FallbackCensus": "observe.fallback",
        "fallback_census": "observe.fallback",
        "fallback_mode": "observe.fallback",
        "ffi_call": "custom_call",
        "get_fallback_mode": "observe.fallback",
        "kernel_info": "custom_call",
        "kernels": "custom_call",
        "load_custom_calls": "custom_call",
        "register_ffi_target": "custom_call",
        "reload_custom_calls": "custom_call",
        "reset_compile_report": "observe.compile_report",
        "unregister_kernel": "custom_call",
    }
    if not TYPE_CHECKING:  # which would take any name for one that there is
        __getattr__ = at_first_use(__name__, _HOMES)
    __all__ += ["cmake_dir", "compile_report", "reset_compile_report"]
    __all__ += ["FallbackCensus", "dispatch_trace", "fallback_census", "fallback_mode", "get_fallback_mode"]
    __all__ += ["ffi_call", "kernel_info", "kernels", "load_custom_calls", "register_ffi_target"]
    __all__ += ["reload_custom_calls", "unregister_kernel"]
    _autoload.import_torch_module()


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
