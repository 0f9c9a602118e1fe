"""torch.compile by programs, without a compiler of code: against eager mode and against Inductor, on one driver.

python benchmarks/programs.py [part of a row's name] [--rounds N]        MYDEV_DRIVER chooses the driver

Models are those of tests/support/models.py. Inductor's rows, and the cold compile's, are for drivers whose memory the
host reaches. The peak of memory is of the third training step, beyond what lies there between steps.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable

import torch
from compile import DEVICE, ROOT, WORK, chain, compiled, eager, training_step
from interleaved import Benchmark, Row
from support.models import MODELS, Example
from torch import Tensor

import torch_mydev

BACKEND = f"{torch_mydev.device_name}_program"
HOST_ACCESSIBLE = torch.mydev.get_device_properties().host_accessible
Module = Callable[..., object]

COLD_COMPILE = """
import sys, time
import torch, torch_mydev
import torch._inductor.compile_fx
sys.path.insert(0, sys.argv[1])
from support.models import build
example = build(sys.argv[2]).to(torch_mydev.device_name)
torch.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(2))  # Dynamo is imported and warm
compiled = torch.compile(example.module, backend=sys.argv[3])
begin = time.perf_counter()
example.loss(compiled).backward()
torch.accelerator.synchronize()
print(time.perf_counter() - begin)
"""


def by_programs(example: Example) -> Module:
    return torch.compile(example.module, backend=BACKEND)


def models(title: str, rival: str, way: Callable[[Example], Module]) -> None:
    benchmark = Benchmark(title, lanes=(rival, "programs"))
    for kind, work in WORK.items():
        for name in MODELS:
            if not benchmark.wants(f"{kind} {name}"):
                continue
            torch._dynamo.reset()
            benchmark.row(f"{kind} {name}", work(name, DEVICE, way), work(name, DEVICE, by_programs))
    benchmark.print_mean()


def softmax(x: Tensor) -> Tensor:
    shifted = (x - x.amax(-1, keepdim=True)).exp()
    return shifted / shifted.sum(-1, keepdim=True)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred * centred).mean(-1, keepdim=True)
    return centred * (variance + 1e-5).rsqrt() * weight + bias


def written_out() -> None:
    """What eager mode takes several passes over memory for, and native kernels one."""
    benchmark = Benchmark("in primitives", lanes=("eager", "programs"))
    x = torch.randn(16 * 2**20, device=DEVICE)
    run = torch.compile(chain, backend=BACKEND)
    benchmark.row("chain of five over 64 MiB", lambda: finished(chain(x)), lambda: finished(run(x)))
    benchmark = Benchmark("in primitives", lanes=("native", "programs"))
    for rows, columns in ((4096, 1024), (64, 128)):
        y = torch.randn(rows, columns, device=DEVICE)
        weight, bias = (torch.randn(columns, device=DEVICE) for _ in range(2))
        run_softmax = torch.compile(softmax, backend=BACKEND)
        run_norm = torch.compile(layer_norm, backend=BACKEND)
        shape = f"{rows}x{columns}"
        benchmark.row(
            f"softmax {shape}",
            lambda y=y: finished(torch.softmax(y, -1)),
            lambda y=y, run=run_softmax: finished(run(y)),
        )
        benchmark.row(
            f"layer norm {shape}",
            lambda y=y, w=weight, b=bias: finished(torch.nn.functional.layer_norm(y, y.shape[-1:], w, b)),
            lambda y=y, w=weight, b=bias, run=run_norm: finished(run(y, w, b)),
        )


def finished(result: Tensor) -> Tensor:
    torch.accelerator.synchronize()
    return result


def seconds_to_compile(name: str, backend: str) -> float:
    with tempfile.TemporaryDirectory() as cache:
        result = subprocess.run(
            [sys.executable, "-c", COLD_COMPILE, str(ROOT / "tests"), name, backend],
            env={**os.environ, "PYTHONPATH": str(ROOT), "TORCHINDUCTOR_CACHE_DIR": cache},
            capture_output=True,
            text=True,
            check=True,
        )
    return float(result.stdout)


def cold_compile() -> None:
    """The first forward and backward pass in fresh processes with empty caches."""
    benchmark = Benchmark("first step, nothing cached", lanes=("Inductor", "programs"))
    for name in MODELS:
        if benchmark.wants(row := f"cold compile of {name}"):
            rival, program = seconds_to_compile(name, "inductor"), seconds_to_compile(name, BACKEND)
            benchmark.add(Row(row, rival, program, rival / program, rival / program))


def peak_of_step(name: str, way: Callable[[Example], Module]) -> int:
    """Bytes."""
    torch._dynamo.reset()
    step = training_step(name, DEVICE, way)
    for _ in range(2):
        step()
    torch.mydev.reset_peak_memory_stats()
    before = torch.mydev.memory_allocated()
    step()
    return torch.mydev.max_memory_allocated() - before


def peak_memory() -> None:
    print(f"{'peak memory of a step, KiB':<34} {'eager':>10} {'programs':>10} {'programs/eager':>14}")
    for name in MODELS:
        eager_bytes, bytes_ = peak_of_step(name, eager), peak_of_step(name, by_programs)
        print(f"{name:<34} {eager_bytes / 1024:>10.0f} {bytes_ / 1024:>10.0f} {bytes_ / eager_bytes:>14.2f}", flush=True)


def main() -> None:
    models("models", "eager", eager)
    written_out()
    peak_memory()
    if HOST_ACCESSIBLE:
        models("models", "Inductor", compiled)
        cold_compile()


if __name__ == "__main__":
    main()
