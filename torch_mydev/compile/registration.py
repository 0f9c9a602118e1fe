"""Makes the device known to torch.compile, without importing it: torch._dynamo costs as much time as torch itself.

Dynamo's registries are filled at the moment someone else imports them, so before anybody can look into them.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import CodeType, ModuleType
from typing import Any

import torch

from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.compile import dynamo_functions


def register_with_compiler() -> None:
    """Registers the device with what has been imported of the compiler, and with the rest when it is."""
    when_imported("torch._dynamo.device_interface", _register_interface)
    when_imported("torch._dynamo.backends.registry", _register_backend)
    when_imported("torch._dynamo.trace_rules", dynamo_functions.register_names)
    when_imported("torch._dynamo.variables.torch", dynamo_functions.register_meaning)
    # Inductor calls it before it compiles, from torch 2.15 on; kernels/backend.py does for older ones.
    device_module: Any = getattr(torch, DEVICE_NAME)
    device_module._inductor_backend_init = _register_code_generator


def when_imported(name: str, action: Callable[[ModuleType], None]) -> None:
    """Gives the module of that name to ``action`` as soon as it has been imported. If it already is, that is now. If
    its import is under way, as when it is the first to import torch, it is at the end of the import. One action per
    module."""
    module = sys.modules.get(name)
    if module is None:
        _finder.wait_for(name, action)
    elif type(module.__spec__) is importlib.machinery.ModuleSpec and getattr(module.__spec__, "_initializing", False):
        _unfinished[name] = action
        module.__spec__.__class__ = _SpecOfUnfinished
    else:
        action(module)


# The modules that the device needs inside the compiler import the compiler, so only these actions import them.


def _register_interface(registry: ModuleType) -> None:
    from torch_mydev.compile.dynamo_interface import DynamoInterface

    registry.register_interface_for_device(DEVICE_NAME, DynamoInterface)


def _register_code_generator() -> None:
    from torch_mydev.compile.kernels import scheduling

    scheduling.register()


def _register_backend(registry: ModuleType) -> None:
    def backend(graph: object, example_inputs: object, **options: object) -> object:
        from torch_mydev.compile.backend import compile_graph

        return compile_graph(graph, example_inputs, **options)  # type: ignore[arg-type]

    def program_backend(graph: object, example_inputs: object, **options: object) -> object:
        from torch_mydev.compile.program.backend import compile_graph

        return compile_graph(graph, example_inputs, **options)  # type: ignore[arg-type]

    def kernel_backend(graph: object, example_inputs: object, **options: object) -> object:
        from torch_mydev.compile.backend import compile_graph_to_kernels

        return compile_graph_to_kernels(graph, example_inputs, **options)  # type: ignore[arg-type]

    registry.register_backend(backend, name=DEVICE_NAME)
    registry.register_backend(kernel_backend, name=f"{DEVICE_NAME}_kernels")
    registry.register_backend(program_backend, name=f"{DEVICE_NAME}_program")


class _SpecOfUnfinished(importlib.machinery.ModuleSpec):
    """The spec of a module that is being imported. Python marks the end of the import here; then the action gets it."""

    @property
    def _initializing(self) -> bool:
        return True

    @_initializing.setter
    def _initializing(self, unfinished: bool) -> None:
        if unfinished:
            return
        self.__class__ = importlib.machinery.ModuleSpec  # type: ignore[assignment]
        self._initializing = False
        action = _unfinished.pop(self.name)
        if self.name in sys.modules:  # it has not failed
            action(sys.modules[self.name])


class _ModuleFinder(importlib.abc.MetaPathFinder):
    """Finds the modules that are waited for, as Python would, and steps aside once all have been loaded."""

    def __init__(self) -> None:
        self._actions: dict[str, Callable[[ModuleType], None]] = {}

    def wait_for(self, name: str, action: Callable[[ModuleType], None]) -> None:
        if not self._actions:
            sys.meta_path.insert(0, self)
        self._actions[name] = action

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._actions:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _ModuleLoader(spec.loader)
                return spec
        return None

    def give(self, module: ModuleType) -> None:
        """Gives a loaded module to the action that waits for it, once: libraries look for modules that they may load
        later, and Python tries again after a failed import."""
        action = self._actions.pop(module.__name__, None)
        if action is None:
            return
        if not self._actions:
            sys.meta_path.remove(self)
        action(module)


class _ModuleLoader(importlib.abc.Loader):
    """Loads a module as its own loader would, then gives it to its action. All else is left to that loader."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _finder.give(module)

    def get_code(self, name: str) -> CodeType:
        """The code that ``python -m`` runs: the module's main function, once the action has been given the module."""
        spec = importlib.util.spec_from_loader(name, self)
        assert spec is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        self.exec_module(module)
        return compile(f"import sys\nfrom {name} import main\nsys.exit(main())", name, "exec")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


_finder = _ModuleFinder()
_unfinished: dict[str, Callable[[ModuleType], None]] = {}
