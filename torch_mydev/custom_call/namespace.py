"""The namespaces torch.ops.mydev_cc and torch.ops.mydev_ffi, which find their operators when they are asked for."""

from __future__ import annotations

from typing import Any

import torch

from mydev.wording import did_you_mean
from torch_mydev import _C
from torch_mydev.custom_call import operators
from torch_mydev.custom_call.discovery import discover
from torch_mydev.custom_call.operators import NAMESPACE


class _Namespace(torch._ops._OpNamespace):
    """torch.ops.mydev_cc: loads what can be discovered when it is asked for an operator that it does not have."""

    def __getattr__(self, name: str) -> Any:
        operators.sync_operators()
        if name not in operators.defined and not name.startswith("_"):
            discover()
        if name not in operators.defined:  # torch may still know an operator whose kernel has gone
            with operators.lock:  # other threads may load
                advice = did_you_mean(name, operators.defined, otherwise=f"try `mydev kernels why {name}`")
            raise AttributeError(f"torch.ops.{NAMESPACE}.{name}: there is no kernel of this name; {advice}")
        with operators.lock:
            if name not in self.__dict__:  # else another thread was first
                setattr(self, name, self._make_packet(name))
                self._dir.append(name)
            return self.__dict__[name]

    def _make_packet(self, name: str) -> torch._ops.OpOverloadPacket[..., Any]:
        """Makes torch's packet, with functions that call the kernel directly if nothing else wants to see the call."""
        qualified, module = f"{NAMESPACE}::{name}", f"torch.ops.{NAMESPACE}"
        ordinary, overloads = torch._ops._get_packet(qualified, module)  # type: ignore[no-untyped-call]
        function = _C.operator_function(name, ordinary)
        torch.jit._builtins._register_builtin(function, qualified)  # as _get_packet does for its own
        packet: torch._ops.OpOverloadPacket[..., Any] = torch._ops.OpOverloadPacket(
            qualified, name, function, overloads
        )
        packet.__module__ = module
        overload: torch._ops.OpOverload[..., Any] = packet.__getattr__("default")
        direct = _C.operator_function(name, overload._op)
        direct_overload = torch._ops.OpOverload(packet, direct, overload._op_dk, overload._schema, overload.tags)
        setattr(packet, "default", direct_overload)  # noqa: B010
        return packet


class _FfiNamespace(torch._ops._OpNamespace):
    """torch.ops.mydev_ffi: the operators of ffi_call, which take as long to define as a tenth of the import."""

    def __getattr__(self, name: str) -> Any:
        import torch_mydev.custom_call.ffi.operators  # noqa: F401

        return super().__getattr__(name)


def install_namespaces() -> None:
    """Puts the namespaces where torch would make its own at first use."""
    for name, kind in ((NAMESPACE, _Namespace), ("mydev_ffi", _FfiNamespace)):
        setattr(torch.ops, name, kind(name))
