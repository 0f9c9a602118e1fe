"""Prints the times of PyTorch's operators and training steps on a device, as JSON lines: for tools/try_cuda.sh.

    python3 try_cuda_torch.py mydev|cuda [--size N]

The same program runs in a Python whose torch has torch_mydev, and in one whose torch has CUDA. Times are medians in
milliseconds of repeated work that is waited for once, so that they are the device's and not the host's, except for the
rows of small tensors.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SECONDS = 0.25  #: for each row
ROUNDS = 5


def median_ms(run: Callable[[], Any]) -> float:
    for _ in range(3):
        run()
    torch.accelerator.synchronize()
    begin = time.perf_counter()
    run()
    torch.accelerator.synchronize()
    once = time.perf_counter() - begin
    count = max(1, min(500, int(SECONDS / ROUNDS / max(once, 1e-6))))
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(count):
            run()
        torch.accelerator.synchronize()
        times.append((time.perf_counter() - begin) / count)
    return statistics.median(times) * 1e3


def operators(device: str, size: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Names and calls; their operands are made when they are asked for."""
    few = torch.ones(16, device=device)
    yield "add, 16 numbers", lambda: few + few
    x, y = torch.randn(size, size, device=device), torch.randn(size, size, device=device)
    row = torch.randn(size, device=device)
    yield "add", lambda: x + y
    yield "add, a row", lambda: x + row
    yield "gelu", lambda: F.gelu(x)
    yield "copy, transposed", lambda: x.t().contiguous()
    yield "cast to bfloat16", lambda: x.to(torch.bfloat16)
    yield "sum, all", lambda: x.sum()
    yield "sum, rows", lambda: x.sum(1)
    yield "sum, columns", lambda: x.sum(0)
    yield "argmax, rows", lambda: x.argmax(1)
    yield "softmax", lambda: x.softmax(1)
    yield "layer_norm", lambda: F.layer_norm(x, (size,), row, row)
    yield "cumsum", lambda: x.cumsum(1)
    yield "sort, rows", lambda: x.sort(1)
    yield "topk, rows", lambda: x.topk(8, 1)
    yield "concatenate", lambda: torch.cat([x, y], 1)
    index = torch.randint(0, size, (size,), device=device)
    yield "index_select", lambda: x.index_select(0, index)
    yield "index_put, accumulate", lambda: torch.zeros_like(x).index_put_((index,), y, accumulate=True)
    mask = x > 0
    yield "where", lambda: torch.where(mask, x, y)
    yield "masked_select", lambda: x[mask]
    yield "randn", lambda: torch.randn_like(x)
    yield "dropout", lambda: F.dropout(x, 0.1)
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        a, b = x.to(dtype), y.to(dtype)
        yield f"mm, {dtype}".replace("torch.", ""), partial(torch.mm, a, b)
    batch = x.reshape(-1, 64, 64)
    yield "bmm of 64 x 64", lambda: batch @ batch
    yield "mm, one row", lambda: x[:1] @ y
    images = torch.randn(16, 64, 56, 56, device=device, requires_grad=True)
    weight = torch.randn(64, 64, 3, 3, device=device, requires_grad=True)
    convolved = F.conv2d(images, weight, padding=1)
    yield "conv 3 x 3, 64 to 64", lambda: F.conv2d(images.detach(), weight.detach(), padding=1)
    yield (
        "conv 3 x 3, backward",
        lambda: torch.autograd.grad(convolved, (images, weight), convolved.detach(), retain_graph=True),
    )
    yield "max_pool2d", lambda: F.max_pool2d(images.detach(), 2)
    scale = torch.ones(64, device=device)
    yield "batch_norm", lambda: F.batch_norm(images.detach(), None, None, scale, scale, training=True)
    query = torch.randn(4, 16, 512, 64, device=device, requires_grad=True)
    attended = F.scaled_dot_product_attention(query, query, query, is_causal=True)
    yield (
        "attention, causal",
        lambda: F.scaled_dot_product_attention(query.detach(), query.detach(), query.detach(), is_causal=True),
    )
    yield (
        "attention, backward",
        lambda: torch.autograd.grad(attended, query, attended.detach(), retain_graph=True),
    )
    table = torch.randn(32000, 512, device=device, requires_grad=True)
    words = torch.randint(0, 32000, (4096,), device=device)
    looked_up = F.embedding(words, table)
    yield "embedding", lambda: F.embedding(words, table.detach())
    yield "embedding, backward", lambda: torch.autograd.grad(looked_up, table, looked_up.detach(), retain_graph=True)
    logits = torch.randn(4096, 32000, device=device)
    yield "cross_entropy", lambda: F.cross_entropy(logits, words)


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.first(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind()
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        y: Tensor = x + self.down(F.gelu(self.up(self.second(x))))
        return y


def _perceptron() -> tuple[nn.Module, Tensor, Tensor]:
    model = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    return model, torch.randn(256, 784), torch.randint(0, 10, (256,))


def _convolutional() -> tuple[nn.Module, Tensor, Tensor]:
    def stage(inputs: int, outputs: int) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]

    model = nn.Sequential(*stage(3, 32), *stage(32, 64), *stage(64, 128), nn.Flatten(), nn.Linear(2048, 10))
    return model, torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,))


def _transformer() -> tuple[nn.Module, Tensor, Tensor]:
    model = nn.Sequential(nn.Embedding(1000, 256), *(Block(256, 4) for _ in range(4)), nn.Linear(256, 1000))
    return model, torch.randint(0, 1000, (16, 128)), torch.randint(0, 1000, (16 * 128,))


def training(device: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """A step of each model: eager, then compiled."""
    for name, make in (("MLP", _perceptron), ("CNN", _convolutional), ("transformer", _transformer)):
        for way in ("eager", "compiled"):
            torch.manual_seed(0)
            model, inputs, targets = make()
            model, inputs, targets = model.to(device), inputs.to(device), targets.to(device)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
            forward = torch.compile(model) if way == "compiled" else model

            def step(
                forward: Any = forward, optimizer: Any = optimizer, x: Tensor = inputs, y: Tensor = targets
            ) -> Any:
                optimizer.zero_grad()
                loss = F.cross_entropy(forward(x).flatten(0, -2), y)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                return loss

            yield f"step of a {name}, {way}", step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device")
    parser.add_argument("--size", type=int, default=4096, help="of square matrices")
    parser.add_argument("--steps", action="store_true", help="the training steps only, with the loss after them")
    arguments = parser.parse_args()
    rows = training(arguments.device) if arguments.steps else operators(arguments.device, arguments.size)
    while True:
        try:
            row = next(rows, None)
            if row is None:
                break
            name, run = row
            print(json.dumps({"name": name, "ms": round(median_ms(run), 4)}), flush=True)
        except Exception as error:  # the next row may work
            print(json.dumps({"name": name, "error": f"{type(error).__name__}: {error}"[:500]}), flush=True)


if __name__ == "__main__":
    main()
