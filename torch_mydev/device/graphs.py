"""Graphs, with the names and meaning of ``torch.cuda``'s: work that is captured once and replayed.

While a stream captures, nothing that it is given runs; a replay runs it all, on the same memory. So inputs and outputs
are tensors that keep their places: copy new values into the inputs, replay, read the outputs. Memory of the capture
comes from a pool that graphs can share. Random numbers follow the generator from replay to replay. Calls that
cannot be captured (``item()``, copies from and to the host, operators that run on the CPU) raise at once.

    graph = MyDevGraph()
    with torch.mydev.graph(graph):
        static_output = model(static_input)
    static_input.copy_(batch)
    graph.replay()

``torch.accelerator.Graph`` is the same for programs that do not name a device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar

import torch
from torch.utils import _pytree as pytree

from torch_mydev import _C
from torch_mydev.device import memory
from torch_mydev.device import stream as streams
from torch_mydev.device.captured_steps import StepCheck
from torch_mydev.device.devices import synchronize
from torch_mydev.device.memory_pool import MemPool

PoolId = tuple[int, int]
Pool = PoolId | MemPool
_MODES = ("default", "global", "thread_local", "relaxed")  # as at::GraphCaptureMode counts them


def graph_pool_handle() -> PoolId:
    """The name of a memory pool for graphs to share; no two calls give the same."""
    first, second = _C.graph_pool_handle()
    return first, second


class MyDevGraph(_C.Graph):  # type: ignore[misc]
    """Captured work of the current device: ``MyDevGraph(keep_graph=False)``.

    With ``keep_graph`` the graph is made ready by :meth:`instantiate` or the first replay, and not at the end of the
    capture. ``register_generator_state(generator)``, before a capture, lets another generator than the device's default
    one be drawn from. One thread at a time.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        super().__init__(keep_graph)
        self._step_check = StepCheck()

    def capture_begin(self, pool: Pool | None = None, capture_error_mode: str = "global") -> None:
        """Begins to capture the current stream.

        ``pool``: that of another graph, one of :func:`graph_pool_handle`, or a :class:`MemPool`. In each mode, calls
        that wait are forbidden on the streams that capture, and everything is allowed on others. A host
        function (``Stream.launch_host_func``) becomes a step with ``"relaxed"`` and raises with the other modes.
        Most programs use :class:`graph`.
        """
        if capture_error_mode not in _MODES:
            raise ValueError(f"capture_error_mode is one of {', '.join(_MODES)}, not {capture_error_mode!r}")
        pool_id = pool.id if isinstance(pool, MemPool) else pool
        super().capture_begin(pool_id or (0, 0), _MODES.index(capture_error_mode))
        self._step_check.begin()

    def capture_end(self) -> None:
        """Ends the capture."""
        self._step_check.end()
        super().capture_end()

    def reset(self) -> None:
        """Releases what was captured, or a capture that is under way."""
        self._step_check.end()
        super().reset()


class graph:
    """Captures what is done inside: ``with torch.mydev.graph(graph, pool=None, stream=None):``.

    The capture runs on ``stream``, by default a side stream of this class. If something raises inside, the capture is
    dropped, the streams are as before, and the graph can be captured anew.
    """

    _side_streams: ClassVar[dict[int, streams.Stream]] = {}

    def __init__(
        self,
        mydev_graph: MyDevGraph,
        pool: Pool | None = None,
        stream: torch.Stream | None = None,
        capture_error_mode: str = "global",
    ) -> None:
        self._graph = mydev_graph
        self._pool = pool
        self._mode = capture_error_mode
        if stream is None:
            device = torch.accelerator.current_device_index()
            if device not in self._side_streams:
                self._side_streams[device] = streams.Stream(device)
            stream = self._side_streams[device]
        self._on_stream = streams.stream(stream)

    def __enter__(self) -> None:
        synchronize()
        memory.empty_cache()
        self._on_stream.__enter__()
        try:
            self._graph.capture_begin(self._pool, self._mode)
        except BaseException:
            self._on_stream.__exit__(None, None, None)
            raise

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if exc_type is None:
                self._graph.capture_end()
            else:
                self._graph.reset()
        finally:
            self._on_stream.__exit__(exc_type, exc, traceback)


@dataclass
class _Captured:
    """A callable as graphs: what they read and write."""

    inputs: list[torch.Tensor]  #: the callable's own, then its parameters
    num_arguments: int
    outputs: list[torch.Tensor]
    structure: pytree.TreeSpec  #: of the outputs
    forward: MyDevGraph
    backward: MyDevGraph | None = None
    grad_outputs: list[torch.Tensor | None] | None = None
    grad_inputs: list[torch.Tensor | None] | None = None


def make_graphed_callables(
    callables: Any,
    sample_args: tuple[Any, ...],
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Pool | None = None,
) -> Any:
    """Modules or functions whose forward and backward passes replay graphs, for use in an autograd program.

    ``callables`` is one, with ``sample_args`` its arguments, or a tuple of some, with a tuple of arguments for each, in
    the order of the program. Arguments are tensors, in any structure, with the sizes, dtypes, strides and
    ``requires_grad`` of later calls. A module is changed in place: it replays while its ``training`` is what it is now.
    Modules must have no hooks yet, and buffers that need no gradient. The same as
    torch.cuda.make_graphed_callables.
    """
    single = not isinstance(callables, tuple)
    functions: tuple[Callable[..., Any], ...] = (callables,) if single else callables
    samples: tuple[Any, ...] = (sample_args,) if single else sample_args
    if len(functions) != len(samples):
        raise ValueError(f"make_graphed_callables: {len(functions)} callables, but {len(samples)} tuples of arguments")
    for function in functions:
        _check_module(function)
    shared_pool = pool or graph_pool_handle()
    inputs = [_inputs_of(function, sample) for function, sample in zip(functions, samples, strict=True)]
    _warm_up(functions, samples, inputs, num_warmup_iters, allow_unused_input)
    captured = [
        _capture_forward(function, sample, tensors, shared_pool)
        for function, sample, tensors in zip(functions, samples, inputs, strict=True)
    ]
    for entry in reversed(captured):
        _capture_backward(entry, shared_pool, allow_unused_input)
    graphed = tuple(_replaying(function, entry) for function, entry in zip(functions, captured, strict=True))
    return graphed[0] if single else graphed


def _check_module(function: Any) -> None:
    if not isinstance(function, torch.nn.Module):
        return
    if function._forward_hooks or function._forward_pre_hooks or function._backward_hooks:
        raise RuntimeError("make_graphed_callables: the module has hooks; register them on what it returns")
    if any(buffer.requires_grad for buffer in function.buffers()):
        raise RuntimeError("make_graphed_callables: a buffer of the module requires a gradient; make it a parameter")


def _inputs_of(function: Any, sample: tuple[Any, ...]) -> tuple[int, list[torch.Tensor]]:
    """The number of arguments, and those with the parameters behind them."""
    arguments = pytree.tree_leaves(sample)
    if not all(isinstance(argument, torch.Tensor) for argument in arguments):
        found = next(type(argument).__name__ for argument in arguments if not isinstance(argument, torch.Tensor))
        raise TypeError(f"make_graphed_callables: sample_args may hold tensors only, not {found}")
    parameters = list(function.parameters()) if isinstance(function, torch.nn.Module) else []
    return len(arguments), arguments + parameters


def _with_gradient(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor for tensor in tensors if tensor.requires_grad]


def _warm_up(
    functions: Sequence[Callable[..., Any]],
    samples: Sequence[Any],
    inputs: Sequence[tuple[int, list[torch.Tensor]]],
    iterations: int,
    allow_unused: bool,
) -> None:
    """Runs all forwards and backwards on a side stream, so that what is made at first use is there."""
    synchronize()
    with streams.stream(streams.Stream()):
        for function, sample, (_, tensors) in zip(functions, samples, inputs, strict=True):
            for _ in range(iterations):
                outputs = _with_gradient(pytree.tree_leaves(function(*sample)))
                if outputs:
                    torch.autograd.grad(
                        outputs,
                        _with_gradient(tensors),
                        [torch.empty_like(output) for output in outputs],
                        allow_unused=allow_unused,
                    )
    synchronize()


def _capture_forward(
    function: Callable[..., Any], sample: Any, inputs: tuple[int, list[torch.Tensor]], pool: Pool
) -> _Captured:
    forward = MyDevGraph()
    with graph(forward, pool=pool):
        outputs, structure = pytree.tree_flatten(function(*sample))
    return _Captured(inputs[1], inputs[0], outputs, structure, forward)


def _capture_backward(entry: _Captured, pool: Pool, allow_unused: bool) -> None:
    wanted, differentiable = _with_gradient(entry.inputs), _with_gradient(entry.outputs)
    if not differentiable or not wanted:
        return
    entry.grad_outputs = [torch.empty_like(output) if output.requires_grad else None for output in entry.outputs]
    entry.backward = MyDevGraph()
    with graph(entry.backward, pool=pool):
        gradients = iter(
            torch.autograd.grad(
                differentiable,
                wanted,
                [gradient for gradient in entry.grad_outputs if gradient is not None],
                allow_unused=allow_unused,
            )
        )
    entry.grad_inputs = [next(gradients) if tensor.requires_grad else None for tensor in entry.inputs]


def _fill_in(places: Iterator[tuple[torch.Tensor, torch.Tensor]]) -> None:
    for place, value in places:
        if place.data_ptr() != value.data_ptr():
            place.copy_(value)


def _replaying(function: Callable[..., Any], entry: _Captured) -> Callable[..., Any]:
    class Replay(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            count = entry.num_arguments
            _fill_in(zip(entry.inputs[:count], inputs[:count], strict=True))
            entry.forward.replay()
            outputs = tuple(output.detach() for output in entry.outputs)
            without = (new for new, old in zip(outputs, entry.outputs, strict=True) if not old.requires_grad)
            ctx.mark_non_differentiable(*without)
            return outputs

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
            assert entry.backward is not None
            assert entry.grad_outputs is not None
            assert entry.grad_inputs is not None
            _fill_in(
                (place, value) for place, value in zip(entry.grad_outputs, gradients, strict=True) if place is not None
            )
            entry.backward.replay()
            return tuple(None if gradient is None else gradient.detach() for gradient in entry.grad_inputs)

    parameters = entry.inputs[entry.num_arguments :]
    apply: Callable[..., Any] = Replay.apply

    def replay(*arguments: Any) -> Any:
        outputs = apply(*pytree.tree_leaves(arguments), *parameters)
        return pytree.tree_unflatten(outputs, entry.structure)

    if not isinstance(function, torch.nn.Module):
        return replay
    training, original = function.training, function.forward
    function.forward = lambda *arguments, **named: (
        replay(*arguments) if function.training == training and not named else original(*arguments, **named)
    )
    return function
