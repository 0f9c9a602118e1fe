"""Small models, each trained for two steps on the device and on the CPU: which operators they call, on what, and how
the device computed them.

A process runs one model (``main``) and prints one JSON object. The parameters after the steps are compared with the
CPU's, within ten times assert_close's tolerances for float32: a step is many operators in a row.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.conform.operators.row import WAYS, Way
from torch_mydev.conform.ways import ways_of
from torch_mydev.device.statistics import launch_statistics
from torch_mydev.observe.fallback import fallback_census

_RTOL, _ATOL = 1.3e-5, 1e-4


# --- models -----------------------------------------------------------------------------------------------------------


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32, 16)
        self.lstm = nn.LSTM(16, 16, num_layers=2, batch_first=True)
        self.head = nn.Linear(16, 32)

    def forward(self, tokens: Tensor) -> Tensor:
        output: Tensor = self.head(self.lstm(self.embedding(tokens))[0])
        return output.flatten(0, 1)


class _Transformer(nn.Module):
    """A causal one, with positions and tied embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32, 16)
        self.positions = nn.Parameter(torch.zeros(8, 16))
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(16)

    def forward(self, tokens: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(8, device=tokens.device)
        hidden = self.layers(self.embedding(tokens) + self.positions, mask=mask, is_causal=True)
        logits: Tensor = self.norm(hidden) @ self.embedding.weight.T
        return logits.flatten(0, 1)


class _Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.block = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 8, 1))
        self.head = nn.Linear(8, 10)

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.stem(images)
        hidden = (hidden + self.block(hidden)).mean((2, 3))
        logits: Tensor = self.head(hidden)
        return logits


def _perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 10))


def _tokens() -> Tensor:
    return torch.randint(0, 32, (4, 8))


@dataclass(frozen=True)
class _Model:
    make: Callable[[], nn.Module]
    inputs: Callable[[], Tensor]
    targets: Callable[[], Tensor]
    optimizer: Callable[[Any], torch.optim.Optimizer]


MODELS = {
    "perceptron": _Model(
        _perceptron,
        lambda: torch.randn(8, 16),
        lambda: torch.randint(0, 10, (8,)),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    ),
    "convolutional": _Model(
        _Residual,
        lambda: torch.randn(4, 3, 8, 8),
        lambda: torch.randint(0, 10, (4,)),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-4),
    ),
    "recurrent": _Model(
        _Recurrent, _tokens, lambda: _tokens().flatten(), lambda p: torch.optim.Adam(p, lr=1e-3, eps=1e-3)
    ),
    "transformer": _Model(
        _Transformer, _tokens, lambda: _tokens().flatten(), lambda p: torch.optim.AdamW(p, lr=1e-3, eps=1e-3)
    ),
}


# --- calls of operators -----------------------------------------------------------------------------------------------


@dataclass
class Call:
    """All calls of one operator on operands of one form."""

    operator: str
    operands: str  #: "float32[8,16], float32[16,32]"; numbers are left out
    calls: int = 0
    ways: tuple[Way, ...] = ()  #: how they were computed; empty: nothing was launched
    declined: tuple[str, ...] = ()  #: why kernels of the device did not take the operands


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes each call of an operator, its backward passes' too, and waits for it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: dict[tuple[str, str], Call] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with launch_statistics() as statistics, fallback_census() as census:
            result = func(*args, **(kwargs or {}))
            torch.accelerator.synchronize()
        tensors = [value for value in tree_flatten((args, kwargs))[0] if isinstance(value, Tensor)]
        operands = ", ".join(map(_form, tensors[:8])) + (", …" if len(tensors) > 8 else "")
        name = f"{func.namespace}::{func.overloadpacket.__name__}"
        call = self.calls.setdefault((name, operands), Call(name, operands))
        call.calls += 1
        ways = {*call.ways, *ways_of(statistics, census)}
        call.ways = tuple(way for way in WAYS if way in ways)
        call.declined = tuple(sorted({*call.declined, *(row.declined for row in census.rows if row.declined)}))
        return result


def _form(tensor: Tensor) -> str:
    where = "" if tensor.device.type == DEVICE_NAME else f" on {tensor.device.type}"
    return f"{str(tensor.dtype).removeprefix('torch.')}[{','.join(map(str, tensor.shape))}]{where}"


# --- steps ------------------------------------------------------------------------------------------------------------


def _train(entry: _Model, model: nn.Module, inputs: Tensor, targets: Tensor) -> list[Tensor]:
    optimizer = entry.optimizer(model.parameters())
    for _ in range(2):  # the second meets an optimizer that has a state
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return [loss.detach(), *(parameter.detach() for parameter in model.parameters())]


def run_model(name: str) -> dict[str, Any]:
    """Trains the model on the CPU and on the device; the outcome as JSON has it."""
    entry = MODELS[name]
    torch.manual_seed(0)
    on_cpu, inputs, targets = entry.make(), entry.inputs(), entry.targets()
    on_device = copy.deepcopy(on_cpu).to(DEVICE_NAME)
    expected = _train(entry, on_cpu, inputs, targets)
    status, detail = "passed", ""
    recorder = _Recorder()
    try:
        moved = inputs.to(DEVICE_NAME), targets.to(DEVICE_NAME)
        with recorder:
            actual = _train(entry, on_device, *moved)
        torch.testing.assert_close([value.cpu() for value in actual], expected, rtol=_RTOL, atol=_ATOL)
    except AssertionError as error:
        status, detail = "differs", str(error)
    except Exception as error:
        status, detail = "raised", f"{type(error).__name__}: {error}"
    calls = [asdict(call) for call in recorder.calls.values()]
    detail = "; ".join(line.strip() for line in detail.splitlines() if line.strip())
    return {"model": name, "status": status, "detail": detail, "operators": calls}


def describe() -> dict[str, Any]:
    """The models that there are, and the device that they would run on."""
    torch.ones(2, device=DEVICE_NAME).cpu()
    kept = ("name", "driver", "driver_version", "architecture", "total_memory", "host_accessible", "asynchronous")
    properties = _C.device_properties(0)
    device = {"count": _C.device_count(), **{name: properties[name] for name in kept}}
    return {"models": list(MODELS), "device": device, "torch": torch.__version__}


def main() -> None:
    """Runs the model that the first argument names, and prints the outcome; without one, what ``describe`` says. The
    output of libraries goes to stderr.
    """
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    print(json.dumps(run_model(sys.argv[1]) if len(sys.argv) > 1 else describe()), file=out)
