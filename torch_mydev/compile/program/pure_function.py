"""A pure function of tensors, traced for fixed sizes, as steps that JAX runs (torch_mydev/jax_function.py).

A step is a program, as text, or calls that the CPU makes, of operators that cannot be recorded. Tensors go from step to
step dense and row-major. No Python runs in a program. Random numbers and writes of arguments are refused: they are no
part of a pure function.
"""

from __future__ import annotations

import functools
import logging
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.compile.program import schedule
from torch_mydev.compile.program.recording import Unrecordable, Values, record_calls, split, with_decompositions

Shape = tuple[tuple[int, ...], torch.dtype]  # sizes and dtype of a tensor

_DEVICE = torch.device(DEVICE_NAME, 0)  # which the function is traced on; its programs are for any
_CPU = torch.device("cpu")


class Step:
    """Calls of the function, which run together."""

    def __init__(self, nodes: Sequence[Node], needed: set[Node], program: bool) -> None:
        """Records the calls if they are to be a program. Raises Unrecordable where they cannot be one, and ValueError
        for those that draw random numbers."""
        inside = set(nodes)
        given = {source: None for node in nodes for source in node.all_input_nodes if source not in inside}
        self._nodes = nodes
        self.arguments = [node for node in given if has_elements(node)]
        self.results = [node for node in nodes if node in needed and has_elements(node)]
        decomposed: set[Node] = set()
        #: The program's text. None: the CPU makes the calls.
        self.program: str | None = None
        if program:
            self.program = with_decompositions(lambda: self._record(list(given), decomposed), decomposed)
        else:
            _refuse_draws(nodes)

    def _record(self, given: Sequence[Node], decomposed: set[Node]) -> str:
        recorder = _C.FunctionRecorder(_DEVICE.index)
        try:
            values: Values = {}
            inputs: list[torch.Tensor] = []
            for node in given:
                traced = schedule.tensors_of(node)[0]
                inputs.append(recorder.add_input(torch.empty(traced.shape, dtype=traced.dtype, device=_DEVICE), False))
                values[node] = _laid_out(inputs[-1], traced)
            record_calls(self._nodes, values, decomposed)
            taken = {tensor.untyped_storage()._cdata for tensor in inputs}
            function = recorder.finish([_alone(values[node], taken) for node in self.results])
        except RuntimeError as error:  # what it reads was never written, as of torch.empty
            raise Unrecordable(None, str(error)) from error
        finally:
            recorder.cancel()
        if function.draws:
            _refuse_draws(self._nodes)
        if function.num_others or function.num_written_results != len(self.results):
            raise Unrecordable(None, "it has memory that is no argument, or results that are not written")
        text: str = function.text()
        return text

    def run_on_host(self, *arrays: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        """Makes the calls on the CPU."""
        given = dict(zip(self.arguments, arrays, strict=True))
        with torch.no_grad():
            values: Values = {}
            for source in {source: None for node in self._nodes for source in node.all_input_nodes}:
                if source in given or source not in self._nodes:
                    traced = schedule.tensors_of(source)[0]
                    tensor = _tensor(given[source], traced.dtype) if source in given else torch.empty_like(traced)
                    values[source] = _laid_out(tensor, traced)
            for node in self._nodes:
                values[node] = schedule.evaluate(node, values, functools.partial(_call_on_host, node))
            return [as_array(values[node]) for node in self.results]


class PureFunction:
    """A function that gives a list of tensors for tensors of some sizes and dtypes."""

    def __init__(self, function: Callable[..., Sequence[torch.Tensor]], operands: Sequence[Shape]) -> None:
        """Traces it. Raises what the function raises, and ValueError where it is not pure."""
        graph = _trace(function, operands)
        self.inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
        self.outputs: list[Node] = list(graph.graph.output_node().args[0])  # type: ignore[arg-type]
        self.constants: Values = {
            node: functools.reduce(getattr, str(node.target).split("."), graph)
            for node in graph.graph.nodes
            if node.op == "get_attr"
        }
        self._calls = [node for node in graph.graph.nodes if node.op == "call_function"]
        for node in self._calls:
            _check_pure(node)
        self._compute_constants()

    @property
    def results(self) -> list[Shape]:
        return [shape_of(node) for node in self.outputs]

    @functools.cached_property
    def steps(self) -> list[Step]:
        """The steps, in the order in which they run. Raises ValueError for random numbers."""
        recordable: set[Node] = set()
        for node in self._calls:
            is_part = node.target is operator.getitem and node.all_input_nodes[0] in recordable
            if is_part or (node.target is not operator.getitem and _may_be_recorded(node)):
                recordable.add(node)
        partitions = list(schedule.schedule(self._calls, recordable))
        needed = {*self.outputs}
        steps: list[Step] = []
        with _disable_current_modes(), torch.no_grad():
            while partitions:
                recorded, nodes = partitions.pop()
                try:
                    step = Step(nodes, needed, recorded)
                except Unrecordable as problem:
                    partitions += split(nodes, problem)
                    continue
                if step.results:
                    steps.append(step)
                    needed.update(step.arguments)
        return steps[::-1]

    def _compute_constants(self) -> None:
        """Calls operators on constants alone, once and for all."""
        for node in self._calls:
            sources = node.all_input_nodes
            if sources and all(source in self.constants for source in sources):
                with torch.no_grad():
                    self.constants[node] = schedule.evaluate(node, self.constants)
        self._calls = [node for node in self._calls if node not in self.constants]
        for node, value in self.constants.items():
            self.constants[node] = node.meta["val"] = value.detach().to(_DEVICE)


def shape_of(node: Node) -> Shape:
    traced = schedule.tensors_of(node)[0]
    return tuple(map(int, traced.shape)), traced.dtype


def has_elements(node: Node) -> bool:
    return math.prod(shape_of(node)[0]) != 0


def _trace(function: Callable[..., Sequence[torch.Tensor]], operands: Sequence[Shape]) -> GraphModule:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    log = logging.getLogger("torch._subclasses.fake_tensor")  # of the errors that are raised here
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with _disable_current_modes():
            with FakeTensorMode(allow_non_fake_inputs=True):
                fakes = [torch.empty(sizes, dtype=dtype, device=_DEVICE) for sizes, dtype in operands]
            functional = torch.func.functionalize(lambda *tensors: list(function(*tensors)))
            return make_fx(functional, tracing_mode="fake", _allow_non_fake_inputs=True)(*fakes)
    finally:
        log.setLevel(level)


def _refuse_draws(nodes: Sequence[Node]) -> None:
    """Raises ValueError if an operator says that it draws random numbers, as attention does even without dropout."""
    for node in nodes:
        if isinstance(node.target, OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags:
            raise ValueError(
                f"{node.target} draws random numbers, and a function of JAX has none of its own; pass them as an "
                f"argument"
            )


def _check_pure(node: Node) -> None:
    if any(source.op in ("placeholder", "get_attr") for source in schedule.written_by(node)):
        raise ValueError(
            f"{node.target} writes an argument or a tensor of its surroundings, and arrays of JAX do not change; "
            f"return the new values"
        )


def _may_be_recorded(node: Node) -> bool:
    if isinstance(node.target, HigherOrderOperator):
        return False
    tensors = [tensor for each in (node, *node.all_input_nodes) for tensor in schedule.tensors_of(each)]
    return all(tensor.device == _DEVICE or schedule.is_host_number(tensor) for tensor in tensors)


# --- tensors between steps -------------------------------------------------------------------------------------------


def _laid_out(tensor: torch.Tensor, traced: torch.Tensor) -> torch.Tensor:
    """The tensor with the strides that it had when the function was traced."""
    if tensor.stride() == traced.stride() or not tensor.numel():
        return tensor
    strided = torch.empty_strided(traced.shape, traced.stride(), dtype=tensor.dtype, device=tensor.device)
    return strided.copy_(tensor)


def _alone(tensor: torch.Tensor, taken: set[int]) -> torch.Tensor:
    """The tensor, dense and row-major, in memory that nobody has taken."""
    dense = tensor.resolve_conj().resolve_neg().contiguous()
    storage = dense.untyped_storage()
    if storage._cdata in taken or storage.nbytes() != dense.nbytes:
        dense = dense.clone()
    taken.add(dense.untyped_storage()._cdata)
    return dense


def _call_on_host(node: Node, *args: Any, **kwargs: Any) -> Any:
    args, kwargs = pytree.tree_map_only(torch.device, lambda _: _CPU, (args, kwargs))
    try:
        return node.target(*args, **kwargs)  # type: ignore[operator]
    except Exception as error:
        raise RuntimeError(f"{node.target}: {error}".splitlines()[0]) from error


def _integers(dtype: torch.dtype) -> torch.dtype | None:
    """Integers of the size of a type that NumPy does not have; None for others."""
    is_known = hasattr(np, str(dtype).removeprefix("torch."))
    return None if is_known else {1: torch.int8, 2: torch.int16}[dtype.itemsize]


def _tensor(array: np.ndarray[Any, Any], dtype: torch.dtype) -> torch.Tensor:
    integers = _integers(dtype)
    bits = array if integers is None else array.view(str(integers).removeprefix("torch."))
    return torch.from_numpy(bits).view(dtype)


def as_array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """The elements of a tensor of the CPU, in a type of NumPy or of JAX."""
    dense = tensor.resolve_conj().resolve_neg().contiguous()
    integers = _integers(dense.dtype)
    if integers is None:
        return np.asarray(dense.numpy())
    import ml_dtypes  # which JAX brings

    return np.asarray(dense.view(integers).numpy().view(getattr(ml_dtypes, str(dense.dtype).removeprefix("torch."))))
