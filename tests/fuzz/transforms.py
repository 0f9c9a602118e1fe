"""Random functions under PyTorch's transforms, compiled on each route, and captured: made of the lines of programs
without gradients or writes (eager.py), which return some of their intermediate values beside the last."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch

from fuzz.eager import GradientProgram, difference

Function = Callable[..., tuple[torch.Tensor, ...]]
# Lines whose result's shape depends on values, or that leave the graph.
UNTRANSFORMED = (
    " > 0]",
    "[x",
    "unique",
    "nonzero",
    "bincount",
    "torch.equal",
    "mode(",
    ".argsort(",  # of ties: any order
    "meshgrid",
    ".to(torch.",
    "detach",
)


def vmapped(function: Function, arguments: list[torch.Tensor]) -> Any:
    return torch.vmap(function)(*[torch.stack([x, x * 2, x - 1]) for x in arguments])


def doubly_vmapped(function: Function, arguments: list[torch.Tensor]) -> Any:
    stacked = [torch.stack([x, x * 2, x - 1]) for x in arguments]
    return torch.vmap(torch.vmap(function), in_dims=1)(*[torch.stack([x, x + 1], 1) for x in stacked])


def jvp(function: Function, arguments: list[torch.Tensor]) -> Any:
    return torch.func.jvp(function, tuple(arguments), tuple(x * 0.5 for x in arguments))


def vjp(function: Function, arguments: list[torch.Tensor]) -> Any:
    results, pull = torch.func.vjp(function, *arguments)
    return results, pull(tuple(torch.ones_like(result) for result in results))


def gradient_of_gradient(function: Function, arguments: list[torch.Tensor]) -> Any:
    def total(*operands: torch.Tensor) -> torch.Tensor:
        return sum(result.sum() for result in function(*operands) if result.is_floating_point())  # type: ignore[return-value]

    return torch.func.grad(lambda *operands: torch.func.grad(total)(*operands).square().sum())(*arguments)


def functionalized(function: Function, arguments: list[torch.Tensor]) -> Any:
    return torch.func.functionalize(function)(*arguments)


TRANSFORMS = {f.__name__: f for f in (vmapped, doubly_vmapped, jvp, vjp, gradient_of_gradient, functionalized)}


class RandomFunction:
    """A function of a seed, as text and as a Python function for either device."""

    def __init__(self, seed: int) -> None:
        self.program = GradientProgram(seed, "cpu")
        self.program.run()
        lines = [line for line in self.program.lines if not line.startswith(("#", "g = "))]
        leaves = [line for line in lines if line.endswith(".requires_grad_()")]
        self.arguments = [line.partition(" = ")[0] for line in leaves]
        known, body = set(self.arguments), []
        for line in lines:
            name, _, call = line.partition(" = ")
            used = {word for word in self.program.names if f"{word}" in _words(call)}
            if line in leaves or not used <= known or any(part in call for part in UNTRANSFORMED):
                continue
            if name in self.program.names:
                body.append(f"    {name} = first({call})")
                known.add(name)
        chosen = random.Random(seed).sample(sorted(known), min(3, len(known)))
        self.text = f"def function({', '.join(self.arguments)}):\n" + "\n".join(
            [*body, f"    return {', '.join(chosen)},"]
        )
        self.lines = len(body)

    def on(self, device: str) -> tuple[Function, list[torch.Tensor]]:
        namespace = {**self.program.cpu, "device": device, "first": first}
        exec(self.text, namespace)
        return namespace["function"], [self.program.cpu[name].detach().to(device) for name in self.arguments]

    def script(self) -> str:
        leaves = [line for line in self.program.lines if line.endswith(".requires_grad_()")]
        return "\n".join([self.text, *leaves])


def first(result: Any) -> torch.Tensor:
    result = next(iter(result)) if isinstance(result, tuple | list) else result
    return result if isinstance(result, torch.Tensor) else torch.tensor(result)


def _words(text: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())


def outcome(run: Callable[..., Any], *arguments: Any) -> Any:
    """The tensors of what it returns, or the type of what it raises."""
    try:
        return torch.utils._pytree.tree_leaves(run(*arguments))
    except Exception as error:
        return type(error)


def plain(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def disagreement(expected: Any, actual: Any, tolerance: tuple[float, float] = (1e-3, 1e-4)) -> str | None:
    """Returns how two outcomes differ. A transform that the CPU refuses may be possible on the device."""
    if isinstance(expected, type):
        return None
    if isinstance(actual, type):
        return f"{actual}, where the CPU gives a result"
    for e, a in zip(expected, actual, strict=True):
        if isinstance(e, torch.Tensor):
            problem = difference(*map(plain, (e, a)), tolerance)
            if problem:
                return f"{problem}: {a}, not {e}"
    return None
