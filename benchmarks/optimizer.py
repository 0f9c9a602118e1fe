"""Optimizer steps: mydev against the CPU device, each with its default way and with the fused one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from interleaved import Benchmark

import torch_mydev

DEVICE = torch.device(torch_mydev.device_name)
SHAPES = {
    "40 small": [(64, 64), (64,)] * 20,
    "8M": [(1024, 1024), (1024,)] * 8,
}
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD": lambda params, **way: torch.optim.SGD(params, lr=1e-3, momentum=0.9, **way),
    "Adam": lambda params, **way: torch.optim.Adam(params, lr=1e-3, **way),
    "AdamW": lambda params, **way: torch.optim.AdamW(params, lr=1e-3, **way),
}


def make_step(
    kind: Callable[..., torch.optim.Optimizer], shapes: list[tuple[int, ...]], device: torch.device, **way: Any
) -> Callable[[], object]:
    params = [torch.randn(shape, device=device, requires_grad=True) for shape in shapes]
    for param in params:
        param.grad = torch.randn_like(param)
    return kind(params, **way).step


def main() -> None:
    benchmark = Benchmark("optimizer step")
    cpu = torch.device("cpu")
    for size, shapes in SHAPES.items():
        for name, kind in OPTIMIZERS.items():
            for label, way in (("default", {}), ("fused", {"fused": True})):
                benchmark.row(
                    f"{name} {label}, {size}",
                    cpu=make_step(kind, shapes, cpu, **way),
                    mydev=make_step(kind, shapes, DEVICE, **way),
                )
    shapes = SHAPES["40 small"]
    grads = {device: [torch.randn(shape, device=device) for shape in shapes] for device in (cpu, DEVICE)}
    benchmark.row(
        "foreach norm, 40 small",
        cpu=lambda: torch._foreach_norm(grads[cpu]),
        mydev=lambda: torch._foreach_norm(grads[DEVICE]),
    )


if __name__ == "__main__":
    main()
