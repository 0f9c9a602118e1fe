"""Makes the device known to torch, once per process, whoever asks first: torch itself or ``import torch_mydev``.

Policy. No library is loaded before the versions are compared, and nothing is done beyond registration: the driver is
loaded by the first use of the device. Failures never break ``import torch``: when torch loads the package by its entry
point, they become one warning. ``import torch_mydev`` by name raises ImportError with the same explanation. Running
the package (``python -m mydev doctor``) works either way, since that is what explains a broken installation.
If only an environment variable or a driver's package is wrong, both imports warn, and the first use of the device
raises the explanation.

Re-entrant and thread-safe. ``import torch_mydev`` imports torch, which calls autoload() in the middle of it; and two
threads may be at it at once, one from each side.
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
import threading
import warnings
from pathlib import Path

from mydev import COMMAND
from mydev.drivers import chosen
from mydev.libraries import build_info
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev._importing import forget_package, imported_by_torch
from torch_mydev._native_part import NativePart, native_part

_PACKAGE = __name__.rpartition(".")[0]
_PACKAGE_DIR = Path(__file__).parent

_lock = threading.RLock()
_registered = False
_running = False
_failure: ImportError | None = None
_refusal = ""  # what is wrong with the environment, and why the device refuses its first use
_broken = ""  # why registration broke off halfway; what torch was told by then cannot be taken back, nor told again
_importing = threading.local()


def autoload() -> None:
    """Called by the entry point ``torch.backends``, at the end of ``import torch``. Never raises."""
    failure = _failure
    if failure is None:
        try:
            _register()
        except ImportError as error:
            failure = error
    # `import torch_mydev` is under way on this thread and brought torch in: it raises the same error in a moment.
    if failure is None or getattr(_importing, "by_name", False):
        return
    warnings.warn(f"the device '{DEVICE_NAME}' is not available in this process: {failure}", stacklevel=3)
    forget_package(__name__)  # this module knows what was begun


def register_on_import() -> bool:
    """Called while the package is imported. True when the device is registered and the public names can be defined.

    Raises ImportError, unless torch imports the package (autoload() warns instead) or Python runs it as a program
    (the program decides whether it needs the device).
    """
    global _failure
    if _run_as_program():
        return False
    by_torch = imported_by_torch()
    _importing.by_name = not by_torch
    try:
        import torch  # noqa: F401  (calls autoload(), unless that is switched off)

        _register()
    except ImportError as error:
        if not by_torch:
            raise
        _failure = error
        return False
    finally:
        _importing.by_name = False
    return True


def import_torch_module() -> None:
    """Imports what the driver's package adds to torch, once the device and this package's names are there. Warns if it
    fails: the device works without it."""
    choice = chosen()
    if not choice.torch_module or _refusal:
        return
    try:
        importlib.import_module(choice.torch_module)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        text = f"{choice.package}: its module '{choice.torch_module}' fails, and '{DEVICE_NAME}' goes without: {reason}"
        warnings.warn(text, stacklevel=2)


def register_for_program() -> None:
    """Registers the device for a command that needs it. Raises an ImportError that explains what is wrong."""
    import torch  # noqa: F401

    _register()
    if _refusal:
        raise ImportError(_refusal, name=_PACKAGE)


def _run_as_program() -> bool:
    """Whether this process is the command: installed, or ``python -m mydev``."""
    program = Path(sys.argv[0]) if sys.argv else Path()
    return program.name == COMMAND or program.parts[-2:] == (COMMAND, "__main__.py")


def _register() -> None:
    """Registers the device, once. Raises ImportError that explains what is wrong and what to do."""
    global _registered, _running, _broken
    with _lock:
        # Registration imports modules that import torch, which may call autoload() again on this thread.
        if _registered or _running:
            return
        if _broken:
            raise ImportError(_broken, name=_PACKAGE)
        _running = True
        try:
            part = _check_installation()
            sys.modules[_PACKAGE].__path__.insert(0, str(part.directory))  # where Python finds `_C`
            _register_with_torch()
            doubts = _apply_settings()
        except ImportError:
            raise
        except Exception as error:
            _broken = f"{_PACKAGE} could not be set up: {error!r}"
            raise ImportError(_broken, name=_PACKAGE) from error
        finally:
            _running = False
        _registered = True
    for doubt in doubts:
        warnings.warn(doubt, stacklevel=2)


def _check_installation() -> NativePart:
    """The build for this torch. Raises ImportError where nothing can run here. Loads no library."""
    import torch

    try:
        build_info()
    except RuntimeError as error:
        raise ImportError(str(error), name=_PACKAGE) from error
    part = native_part(torch.version.__version__)
    problem = ""
    if not part.extension_files():
        problem = (
            f"the native part of {_PACKAGE} was built for Python {part.build_info['python']}, but this is Python "
            f"{sys.version.split()[0]}; rebuild it (pip install --no-build-isolation .)"
        )
    owner = torch._C._get_privateuse1_backend_name()
    if not problem and owner not in ("privateuseone", DEVICE_NAME):
        problem = (
            f"another backend, '{owner}', holds torch's one slot for external devices in this process; "
            f"uninstall it, or run with TORCH_DEVICE_BACKEND_AUTOLOAD=0 and import the backend you want"
        )
    if not problem and (hasattr(torch, DEVICE_NAME) or hasattr(torch.Tensor, DEVICE_NAME)):
        problem = (
            f"torch or torch.Tensor has an attribute '{DEVICE_NAME}' already; {chosen().package or 'another library'} "
            f"must call it otherwise"
        )
    if problem:
        raise ImportError(problem, name=_PACKAGE)
    return part


def _register_with_torch() -> None:
    import torch
    from torch.utils.backend_registration import generate_methods_for_privateuse1_backend, rename_privateuse1_backend

    if not chosen().problem:
        try:
            chosen().tell_runtime()
        except RuntimeError as error:
            raise ImportError(str(error), name=_PACKAGE) from error
    try:
        from torch_mydev import _C
    except ImportError as error:
        raise ImportError(
            f"the native part of {_PACKAGE} cannot be loaded: {error}; rebuild or reinstall it", name=_PACKAGE
        ) from error

    rename_privateuse1_backend(DEVICE_NAME)
    from torch_mydev import patches
    from torch_mydev.compile import registration
    from torch_mydev.custom_call.namespace import install_namespaces
    from torch_mydev.device import device_module, sharing
    from torch_mydev.distributed import backend

    torch._register_device_module(DEVICE_NAME, device_module)  # type: ignore[no-untyped-call]
    for name in ("amp", "memory", "random"):  # so that they are imported as torch.cuda's are
        sys.modules[f"torch.{DEVICE_NAME}.{name}"] = getattr(device_module, name)
    generate_methods_for_privateuse1_backend(for_storage=True)
    patches.apply()
    sharing.register_reductions()
    install_namespaces()
    registration.register_with_compiler()
    backend.register()
    _C.set_internal_directories([f"{os.path.dirname(torch.__file__)}{os.sep}", f"{_PACKAGE_DIR}{os.sep}"])
    atexit.register(_C.close_log)
    # Streams run host functions, which need the interpreter, and code of libraries that are taken away after it.
    atexit.register(_C.wait_for_streams)
    atexit.register(_C.stop_autograd_threads)


def _apply_settings() -> list[str]:
    """Applies what the environment chooses, and returns what to warn of. If a variable is wrong, nothing is applied,
    and the device refuses its use."""
    global _refusal
    from torch_mydev import _C
    from torch_mydev.custom_call.discovery import refused_libraries
    from torch_mydev.integrations import registry as integrations
    from torch_mydev.observe import fallback, trace

    _refusal = chosen().problem or _C.config_problem() or integrations.environment_problem()
    _refusal = _refusal or fallback._apply_environment()
    if _refusal:
        _C.refuse_driver(_refusal)
        return [f"the device '{DEVICE_NAME}' is not available in this process: {_refusal}"]
    trace.start_from_environment()
    integrations.apply()
    return [*_C.config_warnings(), *refused_libraries()]
