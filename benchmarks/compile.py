"""torch.compile on mydev: against the same on the CPU, and against mydev without it; models of tests/support/models.py.

python benchmarks/compile.py [part of a row's name] [--rounds N]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from interleaved import Benchmark, Row
from torch import Tensor, nn

import torch_mydev

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from support.models import MODELS, Example, build  # noqa: E402

CPU = torch.device("cpu")
DEVICE = torch.device(torch_mydev.device_name)
Module = Callable[..., object]

COLD_MODEL = "resnet"
COLD_ROUNDS = 3
COLD_COMPILE = """
import sys, time
import torch, torch_mydev
import torch._inductor.compile_fx
sys.path.insert(0, sys.argv[1])
from support.models import build
example = build(sys.argv[2]).to(sys.argv[3])
torch.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(2))  # Dynamo is imported and warm
compiled = torch.compile(example.module, backend=sys.argv[4])
begin = time.perf_counter()
example.loss(compiled).backward()
torch.accelerator.synchronize()
print(time.perf_counter() - begin)
"""


def eager(example: Example) -> Module:
    return example.module


def compiled(example: Example) -> Module:
    return torch.compile(example.module)


def training_step(name: str, device: torch.device, way: Callable[[Example], Module]) -> Callable[[], object]:
    example = build(name).to(device)
    module = way(example)
    optimizer = example.make_optimizer(example.module.parameters())

    def step() -> None:
        loss = example.loss(module)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.accelerator.synchronize()

    return step


def inference(name: str, device: torch.device, way: Callable[[Example], Module]) -> Callable[[], object]:
    example = build(name).to(device)
    example.module.eval()
    module = way(example)

    def predict() -> None:
        example.predict(module)
        torch.accelerator.synchronize()

    return predict


WORK = {"train": training_step, "infer": inference}


def models_against_cpu() -> None:
    benchmark = Benchmark("compiled models")
    for kind, work in WORK.items():
        for name in MODELS:
            torch._dynamo.reset()
            benchmark.row(f"{kind} {name}", work(name, CPU, compiled), work(name, DEVICE, compiled))
    benchmark.print_mean()


def models_against_eager() -> None:
    benchmark = Benchmark("models on mydev", lanes=("eager", "compiled"))
    for kind, work in WORK.items():
        for name in MODELS:
            torch._dynamo.reset()
            benchmark.row(f"{kind} {name}", work(name, DEVICE, eager), work(name, DEVICE, compiled))
    benchmark.print_mean()


def chain(x: Tensor) -> Tensor:
    return ((x * 2 + 1).relu() * x).sigmoid()


def pointwise_chain() -> None:
    torch._dynamo.reset()
    x = torch.randn(16 * 2**20)
    y = x.to(DEVICE)
    run = torch.compile(chain)
    benchmark = Benchmark("five pointwise operators", lanes=("cpu eager", "mydev"))
    benchmark.row("chain of 64 MiB", lambda: chain(x), lambda: run(y))
    benchmark = Benchmark("five pointwise operators", lanes=("cpu compiled", "mydev"))
    benchmark.row("chain of 64 MiB", lambda: run(x), lambda: run(y))


def call_overhead() -> None:
    benchmark = Benchmark("compiled operators, 16x16")
    functions: dict[str, Callable[..., object]] = {
        "x + 1": lambda x: x + 1,
        "x + 1, x * 2, x - 3, x / 4": lambda x: (x + 1, x * 2, x - 3, x / 4),
        "linear of a parameter": nn.Linear(16, 16).requires_grad_(False),
    }
    for name, function in functions.items():
        torch._dynamo.reset()
        x = torch.randn(16, 16)
        on_cpu = torch.compile(function)
        on_device = torch.compile(copy_to_device(function))
        y = x.to(DEVICE)
        benchmark.row(f"call {name}", lambda run=on_cpu, x=x: run(x), lambda run=on_device, y=y: run(y))
    for row in benchmark.rows:
        print(f"{row.name}: {(row.device_seconds - row.rival_seconds) * 1e6:+.2f} us per call over the CPU's")


def copy_to_device(function: Callable[..., object]) -> Callable[..., object]:
    if not isinstance(function, nn.Module):
        return function
    moved = nn.Linear(16, 16).requires_grad_(False)
    moved.load_state_dict(function.state_dict())
    return moved.to(DEVICE)


def in_fresh_process(code: str, *arguments: str) -> str:
    """The output of a process whose caches are empty."""
    with tempfile.TemporaryDirectory() as cache:
        result = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT), "TORCHINDUCTOR_CACHE_DIR": cache},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return result.stdout


def seconds_to_compile(name: str, device: torch.device, backend: str = "inductor") -> float:
    """The seconds of the first forward and backward pass of a model in a fresh process."""
    return float(in_fresh_process(COLD_COMPILE, str(ROOT / "tests"), name, device.type, backend))


def cold_compile() -> None:
    """Forward and backward compiled in fresh processes with empty caches, in turns."""
    benchmark = Benchmark("compile, nothing cached")
    if not benchmark.wants(name := f"cold compile of {COLD_MODEL}"):
        return
    turns = [tuple(seconds_to_compile(COLD_MODEL, device) for device in (CPU, DEVICE)) for _ in range(COLD_ROUNDS)]
    cpu, device = (min(turn[lane] for turn in turns) for lane in (0, 1))
    benchmark.add(Row(name, cpu, device, cpu / device, statistics.median(a / b for a, b in turns)))


def main() -> None:
    call_overhead()
    pointwise_chain()
    models_against_cpu()
    models_against_eager()
    cold_compile()


if __name__ == "__main__":
    main()
