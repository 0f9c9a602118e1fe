"""Makes the device known to torch.compile, without importing it: torch._dynamo costs as much time as torch itself.

Dynamo's registries are filled, and Inductor is patched (../patches.py), at the moment someone else imports them, so
before anybody can look into them.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType


def register_with_compiler() -> None:
    """Registers the device with what has been imported of the compiler, and with the rest when it is."""
    waiting = {}
    for name, register in _REGISTRATIONS.items():
        if name in sys.modules:
            register(sys.modules[name])
        else:
            waiting[name] = register
    if waiting:
        sys.meta_path.insert(0, _RegisteringFinder(waiting))


def _register_interface(registry: ModuleType) -> None:
    from torch_mydev._device_name import DEVICE_NAME
    from torch_mydev.compile.dynamo_interface import DynamoInterface

    registry.register_interface_for_device(DEVICE_NAME, DynamoInterface)


def _register_backend(registry: ModuleType) -> None:
    from torch_mydev._device_name import DEVICE_NAME

    def backend(graph: object, example_inputs: object, **options: object) -> object:
        from torch_mydev.compile.backend import compile_graph

        return compile_graph(graph, example_inputs, **options)  # type: ignore[arg-type]

    registry.register_backend(backend, name=DEVICE_NAME)


def _patch_inductor(compile_fx: ModuleType) -> None:
    from torch_mydev import patches

    patches.patch_inductor(compile_fx)


_REGISTRATIONS: dict[str, Callable[[ModuleType], None]] = {
    "torch._dynamo.device_interface": _register_interface,
    "torch._dynamo.backends.registry": _register_backend,
    "torch._inductor.compile_fx": _patch_inductor,
}


class _RegisteringFinder(importlib.abc.MetaPathFinder):
    """Finds the modules that wait, as Python would, and steps aside once all have been found."""

    def __init__(self, waiting: dict[str, Callable[[ModuleType], None]]) -> None:
        self._waiting = waiting

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        register = self._waiting.pop(fullname, None)
        if register is None:
            return None
        if not self._waiting:
            sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _RegisteringLoader(spec.loader, register)
        return spec


class _RegisteringLoader(importlib.abc.Loader):
    """Loads a module as its own loader would, then registers the device in it."""

    def __init__(self, loader: importlib.abc.Loader, register: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._register = register

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._register(module)
