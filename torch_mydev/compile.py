"""Makes the device known to torch.compile, without importing it: torch._dynamo costs as much time as torch itself.

Dynamo's registry of devices is filled at the moment someone else imports it, so before anybody can look into it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

_REGISTRY = "torch._dynamo.device_interface"


def register_when_dynamo_is_imported() -> None:
    """Registers the device with Dynamo: now, if Dynamo has been imported, else when it is."""
    if _REGISTRY in sys.modules:
        _register()
    else:
        sys.meta_path.insert(0, _RegistryFinder())


def _register() -> None:
    from torch._dynamo.device_interface import register_interface_for_device

    from torch_mydev._device_name import DEVICE_NAME
    from torch_mydev.dynamo_interface import DynamoInterface

    register_interface_for_device(DEVICE_NAME, DynamoInterface)


class _RegistryFinder(importlib.abc.MetaPathFinder):
    """Finds one module, the registry, as Python would, and steps aside once it has been found."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _REGISTRY:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _RegisteringLoader(spec.loader)
        return spec


class _RegisteringLoader(importlib.abc.Loader):
    """Loads the registry as its own loader would, then registers the device in it."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _register()
