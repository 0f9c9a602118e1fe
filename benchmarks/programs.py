"""torch.compile by programs, and by kernels of the driver's compiler: against eager mode and against Inductor, on one
driver.

python benchmarks/programs.py [part of a row's name] [--rounds N]        MYDEV_DRIVER chooses the driver

A row's name says which of the two it is of: "programs train gpt2", "kernels softmax 64x128". Models are those of
tests/support/models.py. Inductor's rows, and the cold compile's, are for drivers whose memory the host reaches. The
peak of memory is that of the third training step, in a process of its own, beyond what was allocated before the first;
the scratch of kernels, which eager mode keeps and a program plans, is counted in each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from interleaved import Benchmark, Row
from torch import Tensor

import torch_mydev
from compile import DEVICE, ROOT, WORK, chain, compiled, eager, in_fresh_process, seconds_to_compile
from support.models import MODELS, Example
from torch_mydev import _C

#: The backend of each strategy.
BACKENDS = {"programs": f"{torch_mydev.device_name}_program", "kernels": f"{torch_mydev.device_name}_kernels"}
HOST_ACCESSIBLE = torch.mydev.get_device_properties().host_accessible
Module = Callable[..., object]


def by_programs(example: Example) -> Module:
    return torch.compile(example.module, backend=BACKENDS["programs"])


def by_kernels(example: Example) -> Module:
    return torch.compile(example.module, backend=BACKENDS["kernels"])


WAYS = {"programs": by_programs, "kernels": by_kernels}


def models(title: str, rival: str, rival_way: Callable[[Example], Module], way: str) -> None:
    benchmark = Benchmark(title, lanes=(rival, way))
    for kind, work in WORK.items():
        for name in MODELS:
            if not benchmark.wants(row := f"{way} {kind} {name}"):
                continue
            torch._dynamo.reset()
            benchmark.row(row, work(name, DEVICE, rival_way), work(name, DEVICE, WAYS[way]))
    benchmark.print_mean()


def softmax(x: Tensor) -> Tensor:
    shifted = (x - x.amax(-1, keepdim=True)).exp()
    return shifted / shifted.sum(-1, keepdim=True)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred * centred).mean(-1, keepdim=True)
    return centred * (variance + 1e-5).rsqrt() * weight + bias


def written_out(way: str) -> None:
    """Times functions for which eager mode takes several passes over memory, and native kernels one."""
    torch._dynamo.reset()
    backend = BACKENDS[way]
    benchmark = Benchmark("in primitives", lanes=("eager", way))
    x = torch.randn(16 * 2**20, device=DEVICE)
    run = torch.compile(chain, backend=backend)
    benchmark.row(f"{way} chain of five over 64 MiB", lambda: finished(chain(x)), lambda: finished(run(x)))
    benchmark = Benchmark("in primitives", lanes=("native", way))
    for rows, columns in ((4096, 1024), (64, 128)):
        y = torch.randn(rows, columns, device=DEVICE)
        weight, bias = (torch.randn(columns, device=DEVICE) for _ in range(2))
        run_softmax = torch.compile(softmax, backend=backend)
        run_norm = torch.compile(layer_norm, backend=backend)
        shape = f"{rows}x{columns}"
        benchmark.row(
            f"{way} softmax {shape}",
            lambda y=y: finished(torch.softmax(y, -1)),
            lambda y=y, run=run_softmax: finished(run(y)),
        )
        benchmark.row(
            f"{way} layer norm {shape}",
            lambda y=y, w=weight, b=bias: finished(torch.nn.functional.layer_norm(y, y.shape[-1:], w, b)),
            lambda y=y, w=weight, b=bias, run=run_norm: finished(run(y, w, b)),
        )


def finished(result: Tensor) -> Tensor:
    torch.accelerator.synchronize()
    return result


def cold_compile() -> None:
    """The first forward and backward pass in fresh processes with empty caches."""
    benchmark = Benchmark("first step, nothing cached", lanes=("Inductor", "programs"))
    for name in MODELS:
        if benchmark.wants(row := f"cold compile of {name}"):
            rival, program = (seconds_to_compile(name, DEVICE, of) for of in ("inductor", BACKENDS["programs"]))
            benchmark.add(Row(row, rival, program, rival / program, rival / program))


PEAK_OF_STEP = """
import sys
sys.path[:0] = sys.argv[1:3]
import programs, torch
step = programs.WORK["train"](sys.argv[3], programs.DEVICE, getattr(programs, sys.argv[4]))
before = torch.mydev.memory_allocated()
for _ in range(3):
    torch.mydev.reset_peak_memory_stats()
    step()
print(torch.mydev.max_memory_allocated() - before)
"""


def peak_of_step(name: str, way: str) -> int:
    """Bytes."""
    return int(in_fresh_process(PEAK_OF_STEP, str(ROOT / "benchmarks"), str(ROOT / "tests"), name, way))


def peak_memory(ways: Sequence[str]) -> None:
    columns = "".join(f" {way:>10} {f'{way}/eager':>14}" for way in ways)
    print(f"{'peak memory of a step, KiB':<34} {'eager':>10}{columns}")
    for name in MODELS:
        rival = peak_of_step(name, "eager") / 1024
        row = f"{name:<34} {rival:>10.0f}"
        for way in ways:
            own = peak_of_step(name, WAYS[way].__name__) / 1024
            row += f" {own:>10.0f} {own / rival:>14.2f}"
        print(row, flush=True)


def main() -> None:
    ways = ["programs", *(["kernels"] if _C.compiler_languages(DEVICE.index or 0) else [])]
    for way in ways:
        models("models", "eager", eager, way)
        written_out(way)
    peak_memory(ways)
    if HOST_ACCESSIBLE:
        models("models", "Inductor", compiled, "programs")
        cold_compile()


if __name__ == "__main__":
    main()
