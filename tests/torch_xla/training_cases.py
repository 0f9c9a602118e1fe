"""Training on some device, by name: each optimizer of torch, those of torch_xla, and what goes with them.

A program: ``python training_cases.py FILE`` computes all cases on the device that PJRT_DEVICE names. Each gives the
losses of its steps; on the CPU, where torch_xla is not used, what it gives is what is expected.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn, optim

Optimizer = optim.Optimizer
Make = Callable[[Iterable[nn.Parameter]], Optimizer]
STEPS = 4

OPTIMIZERS: dict[str, Make] = {
    "SGD": lambda p: optim.SGD(p, 0.1),
    "SGD with momentum": lambda p: optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "Adam": lambda p: optim.Adam(p, 0.05),
    "Adam, of many tensors at once": lambda p: optim.Adam(p, 0.05, foreach=True),
    "AdamW with amsgrad": lambda p: optim.AdamW(p, 0.05, amsgrad=True),
    "RMSprop": lambda p: optim.RMSprop(p, 0.01, momentum=0.5, centered=True),
    "Adagrad": lambda p: optim.Adagrad(p, 0.1),
    "Adadelta": lambda p: optim.Adadelta(p),
    "Adamax": lambda p: optim.Adamax(p),
    "NAdam": lambda p: optim.NAdam(p),
    "RAdam": lambda p: optim.RAdam(p),
    "Rprop": lambda p: optim.Rprop(p),
    "ASGD": lambda p: optim.ASGD(p),
    "LBFGS": lambda p: optim.LBFGS(p, 0.5, max_iter=4),
    "Adafactor": lambda p: optim.Adafactor(p),
}


def _of_torch_xla(name: str) -> Make:
    """The optimizer of torch_xla.amp that steps without asking the device; on the CPU, torch's of the same name."""

    def make(parameters: Iterable[nn.Parameter]) -> Optimizer:
        parameters = list(parameters)
        if parameters[0].device.type == "cpu":
            return getattr(optim, name)(parameters, 0.05)  # type: ignore[no-any-return]
        from torch_xla.amp import syncfree

        return getattr(syncfree, name)(parameters, 0.05)  # type: ignore[no-any-return]

    return make


class Task:
    """A network and its data, the same on each device."""

    def __init__(self, device: torch.device) -> None:
        generator = torch.Generator().manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3))
        with torch.no_grad():
            for parameter in self.layers.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)
        self.layers.to(device)
        self.x = torch.randn(8, 6, generator=generator).to(device)
        self.labels = (torch.arange(8) % 3).to(device)
        self.forward: Callable[[Tensor], Tensor] = self.layers

    def loss(self) -> Tensor:
        return nn.functional.cross_entropy(self.forward(self.x), self.labels)

    def train(self, optimizer: Optimizer, steps: int = STEPS, after: Callable[[], object] = lambda: None) -> Tensor:
        """The losses. `after` is done when gradients are there."""

        def closure() -> float:
            optimizer.zero_grad()
            loss = self.loss()
            loss.backward()
            after()
            return loss  # type: ignore[return-value]  # as torch takes it

        return torch.stack([_synced(optimizer.step(closure)) for _ in range(steps)])


def _synced(loss: object) -> Tensor:
    assert isinstance(loss, Tensor)
    if loss.device.type != "cpu":
        import torch_xla

        torch_xla.sync()
    return loss.detach().cpu()


def _with(make: Make) -> Callable[[torch.device], Tensor]:
    def case(device: torch.device) -> Tensor:
        task = Task(device)
        return task.train(make(task.layers.parameters()))

    return case


def _resumed(device: torch.device) -> Tensor:
    """Two steps, then two more with a network and an optimizer that are loaded from what was saved."""
    first, second = Task(device), Task(device)
    optimizer = optim.Adam(first.layers.parameters(), 0.05)
    losses = first.train(optimizer, 2)
    torch.save({"model": first.layers.state_dict(), "optimizer": optimizer.state_dict()}, file := io.BytesIO())
    saved = torch.load(io.BytesIO(file.getvalue()), map_location="cpu")
    second.layers.load_state_dict(saved["model"])
    optimizer = optim.Adam(second.layers.parameters(), 1.0)
    optimizer.load_state_dict(saved["optimizer"])
    return torch.cat([losses, second.train(optimizer, 2)])


def _clipped(device: torch.device) -> Tensor:
    task = Task(device)
    return task.train(
        optim.SGD(task.layers.parameters(), 0.5), after=lambda: nn.utils.clip_grad_norm_(task.layers.parameters(), 0.3)
    )


def _scheduled(device: torch.device) -> Tensor:
    task = Task(device)
    optimizer = optim.SGD(task.layers.parameters(), 0.5)
    scheduler = optim.lr_scheduler.OneCycleLR(optimizer, 0.5, STEPS)
    losses = []
    for _ in range(STEPS):
        losses.append(task.train(optimizer, 1))
        scheduler.step()
    return torch.cat(losses)


def _recomputed(device: torch.device) -> Tensor:
    task = Task(device)
    if device.type == "cpu":
        from torch.utils.checkpoint import checkpoint
    else:
        from torch_xla.utils.checkpoint import checkpoint
    task.forward = lambda x: task.layers[2:](checkpoint(task.layers[:2], x, use_reentrant=True))
    task.x.requires_grad_()
    return task.train(optim.SGD(task.layers.parameters(), 0.1))


def _scanned_layers(device: torch.device) -> Tensor:
    """Layers of which torch_xla makes one loop."""
    task = Task(device)
    layers = [task.layers[0], task.layers[2]]
    if device.type != "cpu":
        from torch_xla.experimental.scan_layers import scan_layers

        task.forward = lambda x: task.layers[4](scan_layers(layers, x))
    else:
        task.forward = lambda x: task.layers[4](layers[1](layers[0](x)))
    return task.train(optim.SGD(task.layers.parameters(), 0.1))


def _scanned(device: torch.device) -> Tensor:
    """Sums so far, and their products with what comes next."""
    first, values = torch.zeros(2), torch.arange(6.0).reshape(3, 2)

    def step(total: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        return total + value, total * value

    if device.type != "cpu":
        from torch_xla.experimental.scan import scan

        last, products = scan(step, first.to(device), values.to(device))
        return torch.cat([last[None], products]).cpu()
    products = []
    for value in values:
        first, product = step(first, value)
        products.append(product)
    return torch.stack([first, *products])


def cases() -> Iterator[tuple[str, Callable[[torch.device], Tensor]]]:
    for name, make in OPTIMIZERS.items():
        yield name, _with(make)
    for name in ("SGD", "Adam", "AdamW"):
        yield f"torch_xla's {name}", _with(_of_torch_xla(name))
    yield "resumed from a file", _resumed
    yield "clipped gradients", _clipped
    yield "a schedule", _scheduled
    yield "recomputed activations", _recomputed
    yield "layers in a loop", _scanned_layers
    yield "scan", _scanned


def _computed(case: Callable[[torch.device], Tensor], device: torch.device) -> Tensor | str:
    try:
        return case(device)
    except (RuntimeError, ValueError) as error:
        return str(error)


def main() -> None:
    import torch_xla

    device = torch_xla.device()
    torch.save({name: _computed(case, device) for name, case in cases()}, sys.argv[1])


if __name__ == "__main__":
    main()
