"""The work that ``mydev bench`` times: what people run, small and large, and the parts that it is made of."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Function = Callable[[], object]


class Lane:
    """The place where one of the two does its work. Random numbers are the same in both."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)

    def normal(self, *sizes: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> Tensor:
        return torch.randn(*sizes).to(dtype).to(self.device).requires_grad_(grad)

    def integers(self, below: int, *sizes: int, dtype: torch.dtype = torch.int64) -> Tensor:
        return torch.randint(0, below, sizes).to(dtype).to(self.device)

    def module(self, module: nn.Module) -> nn.Module:
        return module.to(self.device)


@dataclass(frozen=True)
class Work:
    """One row: ``make`` returns the function that is timed. Work of known size is held against the machine's limits."""

    group: str
    name: str
    make: Callable[[Lane], Function]
    moved: int = 0  #: bytes that are read and written at least
    operations: int = 0  #: multiplications and additions of f32


def all_work() -> list[Work]:
    """Every row, group by group."""
    return [
        *_dispatch(),
        *(work for size, cache in ((256, "L2"), (1024, "L3"), (4096, "DRAM")) for work in _elementwise(size, cache)),
        *(work for size, cache in ((256, "L2"), (1024, "L3"), (4096, "DRAM")) for work in _reductions(size, cache)),
        *_copies(),
        *_products(),
        *_convolutions(),
        *_attention(),
        *_indexing(),
        *_optimizers(),
        *_training(),
    ]


# --- small work, which is mostly the way to the kernel ----------------------------------------------------------------


def _dispatch() -> Iterator[Work]:
    def unary(function: Callable[[Tensor], object], *sizes: int) -> Callable[[Lane], Function]:
        def make(lane: Lane) -> Function:
            x = lane.normal(*sizes)
            return lambda: function(x)

        return make

    def binary(function: Callable[[Tensor, Tensor], object], a: tuple[int, ...], b: tuple[int, ...]) -> Any:
        def make(lane: Lane) -> Function:
            x, y = lane.normal(*a), lane.normal(*b)
            return lambda: function(x, y)

        return make

    def chain(lane: Lane) -> Function:
        x, factor = lane.normal(16, grad=True), lane.normal(16)

        def run() -> object:
            y = x
            for _ in range(10):
                y = y * factor
            return torch.autograd.grad(y.sum(), x)

        return run

    rows: dict[str, Callable[[Lane], Function]] = {
        "a + b, 16": binary(torch.add, (16,), (16,)),
        "a * 2.0, 16": unary(lambda x: x * 2.0, 16),
        "a.add_(b), 16": binary(lambda x, y: x.add_(y), (16,), (16,)),
        "a + row, 8 x 16": binary(torch.add, (8, 16), (16,)),
        "sum, 16": unary(torch.sum, 16),
        "relu, 16": unary(torch.relu, 16),
        "view, 16": unary(lambda x: x.view(4, 4), 16),
        "empty, 16": lambda lane: lambda: torch.empty(16, device=lane.device),
        "mm, 16": binary(torch.mm, (16, 16), (16, 16)),
        "linear, 1 x 16": binary(F.linear, (1, 16), (16, 16)),
        "cat of two, 16": binary(lambda x, y: torch.cat((x, y)), (16,), (16,)),
        "item": unary(Tensor.item, 1),
        "10 products and their gradient, 16": chain,
    }
    return (Work("dispatch", name, make) for name, make in rows.items())


# --- by memory --------------------------------------------------------------------------------------------------------


def _elementwise(size: int, cache: str) -> Iterator[Work]:
    n = 4 * size * size  # bytes of an operand
    shape = f"{size} x {size}"

    def of(count: int, function: Callable[..., object], dtype: torch.dtype = torch.float32) -> Any:
        def make(lane: Lane) -> Function:
            operands = [lane.normal(size, size, dtype=dtype) for _ in range(count)]
            return lambda: function(*operands)

        return make

    def where(lane: Lane) -> Function:
        x, y = lane.normal(size, size), lane.normal(size, size)
        condition = x > 0
        return lambda: torch.where(condition, x, y)

    def row(lane: Lane) -> Function:
        x, y = lane.normal(size, size), lane.normal(size)
        return lambda: x + y

    rows: dict[str, tuple[Callable[[Lane], Function], int]] = {
        "add": (of(2, torch.add), 3 * n),
        "add into a given result": (of(3, lambda x, y, z: torch.add(x, y, out=z)), 3 * n),
        "mul": (of(2, torch.mul), 3 * n),
        "addcmul": (of(3, torch.addcmul), 4 * n),
        "relu": (of(1, torch.relu), 2 * n),
        "exp": (of(1, torch.exp), 2 * n),
        "gelu": (of(1, F.gelu), 2 * n),
        "tanh": (of(1, torch.tanh), 2 * n),
        "silu": (of(1, F.silu), 2 * n),
        "clone": (of(1, torch.clone), 2 * n),
        "where": (where, 3 * n + n // 4),
        "add a row": (row, 2 * n),
        "dropout": (of(1, lambda x: F.dropout(x, 0.1)), 2 * n),
        "add, bf16": (of(2, torch.add, torch.bfloat16), 3 * n // 2),
        "to bf16": (of(1, lambda x: x.to(torch.bfloat16)), 3 * n // 2),
    }
    return (Work(f"elementwise, {cache}", f"{name}, {shape}", make, moved=m) for name, (make, m) in rows.items())


def _reductions(size: int, cache: str) -> Iterator[Work]:
    n = 4 * size * size
    rows: dict[str, tuple[Callable[[Tensor], object], int]] = {
        "sum": (torch.sum, n),
        "sum of columns": (lambda x: x.sum(0), n),
        "sum of rows": (lambda x: x.sum(1), n),
        "mean and variance": (lambda x: torch.var_mean(x, 1), n),
        "max of rows": (lambda x: x.max(1), n),
        "argmax of rows": (lambda x: x.argmax(1), n),
        "softmax": (lambda x: x.softmax(1), 2 * n),
        "log_softmax": (lambda x: x.log_softmax(1), 2 * n),
        "layer_norm": (lambda x: F.layer_norm(x, (size,)), 2 * n),
        "cumsum": (lambda x: x.cumsum(1), 2 * n),
        "transposed copy": (lambda x: x.t().contiguous(), 2 * n),
    }

    def of(function: Callable[[Tensor], object]) -> Callable[[Lane], Function]:
        def make(lane: Lane) -> Function:
            x = lane.normal(size, size)
            return lambda: function(x)

        return make

    def norm_and_gradient(lane: Lane) -> Function:
        x, weight, bias = lane.normal(size, size, grad=True), lane.normal(size, grad=True), lane.normal(size, grad=True)
        gradient = lane.normal(size, size)
        return lambda: torch.autograd.grad(F.layer_norm(x, (size,), weight, bias), (x, weight, bias), gradient)

    group = f"reductions and norms, {cache}"
    for name, (function, moved) in rows.items():
        yield Work(group, f"{name}, {size} x {size}", of(function), moved=moved)
    yield Work(group, f"layer_norm and its gradient, {size} x {size}", norm_and_gradient)


def _copies() -> Iterator[Work]:
    def permuted(lane: Lane) -> Function:
        x = lane.normal(32, 8, 128, 64)
        return lambda: x.permute(0, 2, 1, 3).contiguous()

    def channels_last(lane: Lane) -> Function:
        x = lane.normal(8, 64, 56, 56)
        return lambda: x.contiguous(memory_format=torch.channels_last)

    def to_device(lane: Lane) -> Function:
        x = torch.randn(4 << 20)
        return (lambda: x.to(lane.device)) if lane.device.type != "cpu" else lambda: x.clone()

    def to_host(lane: Lane) -> Function:
        x = lane.normal(4 << 20)
        return (lambda: x.cpu()) if lane.device.type != "cpu" else lambda: x.clone()

    yield Work("copies", "permuted, 32 x 8 x 128 x 64", permuted, moved=2 * 4 * 32 * 8 * 128 * 64)
    yield Work("copies", "to channels last, 8 x 64 x 56 x 56", channels_last, moved=2 * 4 * 8 * 64 * 56 * 56)
    yield Work("copies", "host to device, 16 MiB (CPU: clone)", to_device, moved=2 << 24)
    yield Work("copies", "device to host, 16 MiB (CPU: clone)", to_host, moved=2 << 24)


# --- by arithmetic ----------------------------------------------------------------------------------------------------

_SIZES = ((64, 64, 64), (256, 256, 256), (1024, 1024, 1024), (1, 768, 768), (8, 768, 768), (128, 3072, 768))


def _products() -> Iterator[Work]:
    def mm(m: int, n: int, k: int, dtype: torch.dtype) -> Callable[[Lane], Function]:
        def make(lane: Lane) -> Function:
            a, b = lane.normal(m, k, dtype=dtype), lane.normal(k, n, dtype=dtype)
            return lambda: a @ b

        return make

    def linear(lane: Lane) -> Function:
        x, weight, bias = lane.normal(128, 768), lane.normal(3072, 768), lane.normal(3072)
        return lambda: F.linear(x, weight, bias)

    def batches(lane: Lane) -> Function:
        a, b = lane.normal(32, 128, 128), lane.normal(32, 128, 64)
        return lambda: torch.bmm(a, b)

    def int_mm(m: int, n: int, k: int) -> Callable[[Lane], Function]:
        def make(lane: Lane) -> Function:
            # CPUs without instructions for it overflow beyond such numbers.
            a, b = (lane.integers(64, *size, dtype=torch.int8) for size in ((m, k), (k, n)))
            return lambda: torch._int_mm(a, b)

        return make

    for m, n, k in _SIZES:
        yield Work("products, f32", f"mm {m} x {n} x {k}", mm(m, n, k, torch.float32), operations=2 * m * n * k)
    yield Work("products, f32", "linear, 128 x 768 to 3072", linear, operations=2 * 128 * 768 * 3072)
    yield Work("products, f32", "32 products, 128 x 64 x 128", batches, operations=2 * 32 * 128 * 64 * 128)
    for m, n, k in _SIZES:
        yield Work("products, bf16", f"mm {m} x {n} x {k}, bf16", mm(m, n, k, torch.bfloat16))
    for m, n, k in _SIZES:
        yield Work("products, int8", f"_int_mm {m} x {n} x {k}", int_mm(m, n, k))


def _convolutions() -> Iterator[Work]:
    # images, channels, results, size, window, stride, groups
    shapes = {
        "3 x 3, 64 of 56": (8, 64, 64, 56, 3, 1, 1),
        "1 x 1, 256 to 64 of 56": (8, 256, 64, 56, 1, 1, 1),
        "3 x 3, 512 of 7, one image": (1, 512, 512, 7, 3, 1, 1),
        "7 x 7 by 2, 3 to 64 of 224": (1, 3, 64, 224, 7, 2, 1),
        "depthwise 3 x 3, 144 of 56": (8, 144, 144, 56, 3, 1, 144),
        "5 x 5, 1 to 32 of 28": (32, 1, 32, 28, 5, 1, 1),
    }

    def of(shape: tuple[int, ...], backward: bool, channels_last: bool = False) -> Callable[[Lane], Function]:
        images, channels, results, size, window, stride, groups = shape

        def make(lane: Lane) -> Function:
            x = lane.normal(images, channels, size, size)
            if channels_last:
                x = x.contiguous(memory_format=torch.channels_last)
            weight = lane.normal(results, channels // groups, window, window)

            def run() -> Tensor:
                return F.conv2d(x, weight, None, stride, window // 2, 1, groups)

            if not backward:
                return run
            gradient = lane.normal(*run().shape)
            x, weight = x.requires_grad_(), weight.requires_grad_()
            return lambda: torch.autograd.grad(run(), (x, weight), gradient)

        return make

    for name, shape in shapes.items():
        images, channels, results, size, window, stride, groups = shape
        taps = window * window * channels // groups
        operations = 2 * images * results * (size // stride) ** 2 * taps
        yield Work("convolutions", name, of(shape, backward=False), operations=operations)
        yield Work("convolutions", f"{name}, with gradients", of(shape, backward=True), operations=3 * operations)
    last = of(shapes["3 x 3, 64 of 56"], backward=False, channels_last=True)
    yield Work("convolutions", "3 x 3, 64 of 56, channels last", last, operations=2 * 8 * 64 * 56 * 56 * 576)

    def norm(lane: Lane) -> Function:
        x, ones, zeros = lane.normal(8, 64, 56, 56), lane.normal(64), lane.normal(64)
        return lambda: F.batch_norm(x, zeros, ones.abs(), ones, zeros, training=True)

    def pool(lane: Lane) -> Function:
        x = lane.normal(8, 64, 56, 56)
        return lambda: F.max_pool2d(x, 3, 2)

    yield Work("convolutions", "batch norm in training, 8 x 64 x 56 x 56", norm)
    yield Work("convolutions", "max pooling 3 by 2, 8 x 64 x 56 x 56", pool)


def _attention() -> Iterator[Work]:
    def of(query: tuple[int, ...], heads: int, length: int, causal: bool, backward: bool) -> Callable[[Lane], Function]:
        def make(lane: Lane) -> Function:
            batch, _, _, width = query
            sizes = (query, (batch, heads, length, width), (batch, heads, length, width))
            q, k, v = (lane.normal(*size, grad=backward) for size in sizes)
            shared = heads != query[1]

            def run() -> Tensor:
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=shared)

            if not backward:
                return run
            gradient = lane.normal(*query)
            return lambda: torch.autograd.grad(run(), (q, k, v), gradient)

        return make

    long = (4, 8, 512, 64)
    yield Work("attention", "4 x 8 x 512 x 64", of(long, 8, 512, False, False), operations=4 * 32 * 512 * 512 * 64)
    yield Work("attention", "4 x 8 x 512 x 64, with gradients", of(long, 8, 512, False, True))
    yield Work("attention", "1 x 12 x 1024 x 64, causal", of((1, 12, 1024, 64), 12, 1024, True, False))
    yield Work("attention", "32 heads for 8, 1 x 256 x 64, causal", of((1, 32, 256, 64), 8, 256, True, False))
    yield Work("attention", "one query of 1024, 12 heads of 64", of((1, 12, 1, 64), 12, 1024, False, False))


def _indexing() -> Iterator[Work]:
    def make_row(function: Callable[..., object], *operands: Callable[[Lane], Tensor]) -> Callable[[Lane], Function]:
        def make(lane: Lane) -> Function:
            values = [operand(lane) for operand in operands]
            return lambda: function(*values)

        return make

    def table(lane: Lane) -> Tensor:
        return lane.normal(8192, 256)

    def words(lane: Lane) -> Tensor:
        return lane.integers(8192, 8, 128)

    def million(lane: Lane) -> Tensor:
        return lane.normal(1 << 20)

    def square(lane: Lane) -> Tensor:
        return lane.normal(1024, 1024)

    def embedding_gradient(lane: Lane) -> Function:
        weight, index, gradient = table(lane).requires_grad_(), words(lane), lane.normal(8, 128, 256)
        return lambda: torch.autograd.grad(F.embedding(index, weight), weight, gradient)

    rows: dict[str, Callable[[Lane], Function]] = {
        "embedding, 8 x 128 of 8192 x 256": make_row(F.embedding, words, table),
        "its gradient": embedding_gradient,
        "index_select, 4096 rows of 8192 x 256": make_row(
            lambda x, i: x.index_select(0, i), table, lambda lane: lane.integers(8192, 4096)
        ),
        "gather, 1024 x 1024": make_row(
            lambda x, i: x.gather(1, i), square, lambda lane: lane.integers(1024, 1024, 1024)
        ),
        "scatter_add, 1 M into 64 K": make_row(
            lambda x, i, y: x.scatter_add(0, i, y),
            lambda lane: lane.normal(1 << 16),
            lambda lane: lane.integers(1 << 16, 1 << 20),
            million,
        ),
        "a[a > 0], 1 M": make_row(lambda x: x[x > 0], million),
        "masked_fill, 1024 x 1024": make_row(
            lambda x, m: x.masked_fill(m, 0.0), square, lambda lane: lane.normal(1024, 1024) > 0
        ),
        "sort, 1 M": make_row(torch.sort, million),
        "sort, 1024 x 1024": make_row(torch.sort, square),
        "topk, 50 of 8 x 32000": make_row(lambda x: x.topk(50), lambda lane: lane.normal(8, 32000)),
        "cumsum, 1 M": make_row(lambda x: x.cumsum(0), million),
        "tril, 1024 x 1024": make_row(torch.tril, square),
        "cross_entropy, 1024 x 8192": make_row(
            F.cross_entropy, lambda lane: lane.normal(1024, 8192), lambda lane: lane.integers(8192, 1024)
        ),
    }
    return (Work("indexing and sorting", name, make) for name, make in rows.items())


# --- training ---------------------------------------------------------------------------------------------------------

_OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD with momentum": lambda parameters: torch.optim.SGD(parameters, lr=1e-4, momentum=0.9),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=1e-5),
    "AdamW, fused=True": lambda parameters: torch.optim.AdamW(parameters, lr=1e-5, fused=True),
}


def _optimizers() -> Iterator[Work]:
    def step(choose: Callable[[Any], torch.optim.Optimizer], sizes: list[int]) -> Callable[[Lane], Function]:
        def make(lane: Lane) -> Function:
            parameters = [nn.Parameter(lane.normal(size)) for size in sizes]
            for parameter in parameters:
                parameter.grad = lane.normal(len(parameter))
            return choose(parameters).step

        return make

    for name, choose in _OPTIMIZERS.items():
        yield Work("optimizers", f"{name}, 40 of 4 K", step(choose, [4096] * 40))
        yield Work("optimizers", f"{name}, 8 of 1 M", step(choose, [1 << 20] * 8))


class _Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        sizes = ((3, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1))
        layers: list[nn.Module] = []
        for channels, results, stride in sizes:
            convolution = nn.Conv2d(channels, results, 3, stride, 1, bias=False)
            layers += [convolution, nn.BatchNorm2d(results), nn.ReLU()]
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.layers(x).mean((2, 3)))
        return result


class _Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1024, 256)
        layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(256, 1024)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.layers(self.embedding(x))).transpose(1, 2)
        return result


def _perceptron(*sizes: int) -> nn.Module:
    layers: list[nn.Module] = []
    for size, wanted in itertools.pairwise(sizes):
        layers += [nn.Linear(size, wanted), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _training() -> Iterator[Work]:
    models: dict[str, tuple[Callable[[], nn.Module], Callable[[Lane], tuple[Tensor, Tensor]]]] = {
        "small MLP": (lambda: _perceptron(64, 128, 128, 10), lambda lane: (lane.normal(32, 64), lane.integers(10, 32))),
        "MLP": (
            lambda: _perceptron(784, 512, 512, 10),
            lambda lane: (lane.normal(128, 784), lane.integers(10, 128)),
        ),
        "CNN": (_Convolutional, lambda lane: (lane.normal(32, 3, 32, 32), lane.integers(10, 32))),
        "transformer": (_Transformer, lambda lane: (lane.integers(1024, 8, 128), lane.integers(1024, 8, 128))),
    }

    def inference(model: Any, data: Any) -> Callable[[Lane], Function]:
        def make(lane: Lane) -> Function:
            module, (x, _) = lane.module(model()).eval(), data(lane)

            def run() -> object:
                with torch.no_grad():
                    return module(x)

            return run

        return make

    def step(model: Any, data: Any, choose: Callable[[Any], torch.optim.Optimizer]) -> Callable[[Lane], Function]:
        def make(lane: Lane) -> Function:
            module, (x, target) = lane.module(model()), data(lane)
            optimizer = choose(module.parameters())

            def run() -> object:
                optimizer.zero_grad()
                loss = F.cross_entropy(module(x), target)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                return loss.detach()

            return run

        return make

    for name, (model, data) in models.items():
        yield Work("training", f"{name}, inference", inference(model, data))
        for optimizer, choose in _OPTIMIZERS.items():
            yield Work("training", f"{name}, step of {optimizer}", step(model, data, choose))
