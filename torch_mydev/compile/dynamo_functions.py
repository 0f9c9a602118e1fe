"""Has Dynamo turn ``torch.mydev``'s functions into constants or nodes of the graph, instead of graph breaks.

Dynamo does the same with ``torch.cuda``'s. Functions that set or return the random state break graphs, since a graph
would not keep their order with draws of random numbers. The current device, whether a device was used yet and whether
the stream is capturing are guarded; the other constants are the same for the whole process. The functions are
registered with Dynamo's tables, which have no public interface for other devices. If the tables of a torch are not as
expected, they are left alone, and these functions break graphs.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.device import amp, devices, random
from torch_mydev.device import stream as streams

_CONSTANT = (
    devices.is_available,
    devices.device_count,
    devices.get_device_name,
    devices.get_device_capability,
    devices.can_device_access_peer,
    amp.is_bf16_supported,
)
_GUARDED = (devices.current_device, devices.is_initialized, streams.is_current_stream_capturing)
_SKIPPED = (random.manual_seed, random.manual_seed_all, random.get_rng_state, random.set_rng_state)
_HANDLED = (streams.current_stream, streams.stream, devices.synchronize, devices._exchange_device)


def register_names(trace_rules: ModuleType) -> None:
    """Tells ``torch._dynamo.trace_rules`` which functions are handled as a whole instead of traced."""
    table = getattr(trace_rules, "manual_torch_name_rule_map", None)
    in_graph = getattr(trace_rules, "TorchInGraphFunctionVariable", None)
    if isinstance(table, dict) and in_graph is not None:
        for function in (*_CONSTANT, *_GUARDED, *_HANDLED):
            table[f"{function.__module__}.{function.__name__}"] = in_graph
    skipped = getattr(trace_rules, "SkipFunctionVariable", None)
    if isinstance(table, dict) and skipped is not None:
        for skip in _SKIPPED:
            table[f"{skip.__module__}.{skip.__name__}"] = skipped


def register_meaning(variables: ModuleType) -> None:
    """Tells ``torch._dynamo.variables.torch`` what these functions become."""
    constant = getattr(variables, "constant_fold_functions", None)
    guarded = getattr(variables, "constant_fold_functions_need_guards", None)
    in_graph: Any = getattr(variables, "TorchInGraphFunctionVariable", None)
    if not (isinstance(constant, dict) and isinstance(guarded, dict) and hasattr(in_graph, "_get_handlers")):
        return
    constant.update(dict.fromkeys((*_CONSTANT, *_GUARDED)))
    guarded.update(dict.fromkeys(_GUARDED))
    original = in_graph._get_handlers

    def handlers() -> dict[Any, Any]:
        table: dict[Any, Any] = original()
        if devices.synchronize not in table:
            import torch

            table[devices.synchronize] = _synchronize
            table[devices._exchange_device] = _exchange_device
            table[streams.current_stream] = table[torch.accelerator.current_stream]
        return table

    in_graph._get_handlers = staticmethod(handlers)


def _synchronize(variable: Any, tx: Any, *args: Any, **kwargs: Any) -> Any:
    """A node of the graph that waits for the device."""
    import torch
    from torch._dynamo.variables.constant import ConstantVariable

    given = [*args, *kwargs.values()]
    device = devices.device_index(given[0].as_python_constant() if given else None)
    tx.output.create_proxy("call_function", torch.ops.streams.synchronize_device, (DEVICE_NAME, device), {})
    return ConstantVariable.create(None)


def _exchange_device(variable: Any, tx: Any, *args: Any, **kwargs: Any) -> Any:
    """Does nothing if the device is current already, which is guarded. Another device breaks the graph: in a graph, a
    device without an index is the one that is current when it runs."""
    from torch._dynamo.exc import unimplemented
    from torch._dynamo.guards import GuardBuilder, install_guard
    from torch._dynamo.source import AttrSource, CallFunctionNoArgsSource, ImportSource
    from torch._dynamo.variables.constant import ConstantVariable

    source = CallFunctionNoArgsSource(AttrSource(AttrSource(ImportSource("torch"), DEVICE_NAME), "current_device"))
    install_guard(source.make_guard(GuardBuilder.EQUALS_MATCH))
    index, current = args[0].as_python_constant(), devices.current_device()
    if index >= 0 and index != current:
        unimplemented(
            gb_type=f"torch.{DEVICE_NAME}.device changes the current device",
            context=f"{current} to {index}",
            explanation="Which device a graph makes tensors on is not recorded in it.",
            hints=["Name the device where tensors are made, or enter it outside of the compiled function."],
        )
    return ConstantVariable.create(current)
