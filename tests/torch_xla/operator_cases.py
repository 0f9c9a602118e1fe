"""Cases for torch_xla's own CPU device and for ours: operators with their gradients, by name.

This is a program too: ``python operator_cases.py FILE`` computes all cases on the device that PJRT_DEVICE names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

Function = Callable[..., "Tensor | tuple[Tensor, ...]"]


def _normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def _positive(*shape: int) -> Tensor:
    return _normal(*shape).abs() + 0.1


def _unit(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(3)) * 1.8 - 0.9


def _integers(*shape: int, high: int = 5) -> Tensor:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(4))


_x, _y, _p, _u = _normal(4, 6), _normal(4, 6, seed=1), _positive(4, 6), _unit(4, 6)
_image, _flags = _normal(2, 4, 9, 9), _normal(4, 6) > 0

_POINTWISE: dict[str, Tensor] = {
    **dict.fromkeys(
        [
            "abs",
            "neg",
            "sin",
            "cos",
            "tan",
            "sinh",
            "cosh",
            "tanh",
            "atan",
            "asinh",
            "erf",
            "erfc",
            "exp",
            "expm1",
            "sigmoid",
            "sign",
            "square",
            "ceil",
            "floor",
            "round",
            "trunc",
            "frac",
            "relu",
            "sgn",
            "rad2deg",
            "deg2rad",
            "nan_to_num",
            "positive",
            "exp2",
        ],
        _x,
    ),
    **dict.fromkeys(["log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "lgamma", "digamma"], _p),
    **dict.fromkeys(["asin", "acos", "atanh", "erfinv"], _u),
    "acosh": _p + 1,
}
_BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "atan2",
    "maximum",
    "minimum",
    "fmod",
    "remainder",
    "hypot",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logaddexp",
    "copysign",
]
_NN: dict[str, Function] = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "softplus": F.softplus,
    "elu": F.elu,
    "selu": F.selu,
    "leaky_relu": F.leaky_relu,
    "hardtanh": F.hardtanh,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "logsigmoid": F.logsigmoid,
    "softsign": F.softsign,
    "relu6": F.relu6,
    "threshold": lambda x: F.threshold(x, 0.1, 2.0),
    "glu": F.glu,
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, 0),
    "softmin": lambda x: F.softmin(x, 1),
    "normalize": F.normalize,
    "tanhshrink": F.tanhshrink,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
}
_REDUCTIONS: dict[str, Function] = {
    "sum": lambda x: x.sum(),
    "sum_dim": lambda x: x.sum(1),
    "mean": lambda x: x.mean((0, 1), keepdim=True),
    "amax": lambda x: x.amax(1),
    "amin": lambda x: x.amin(0),
    "prod": lambda x: x.prod(1),
    "var": lambda x: x.var(1),
    "std": lambda x: x.std(0, correction=0),
    "norm": lambda x: x.norm(),
    "norm1": lambda x: x.norm(1, dim=1),
    "logsumexp": lambda x: x.logsumexp(1),
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(0),
    "max_dim": lambda x: x.max(1)[0],
    "argmax": lambda x: x.argmax(1),
    "argmin": lambda x: x.argmin(),
    "all": lambda x: (x > -9).all(1),
    "any": lambda x: (x > 1).any(),
    "sort": lambda x: x.sort(1)[0],
    "argsort": lambda x: x.argsort(0, descending=True),
    "topk": lambda x: x.topk(3)[0],
    "kthvalue": lambda x: x.kthvalue(2)[0],
    "median": lambda x: x.median(1)[0],
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "count": lambda x: (x > 0).sum(),
}
_SHAPES: dict[str, Function] = {
    "transpose": lambda x: x.t() * 2,
    "permute": lambda x: x.reshape(2, 2, 6).permute(2, 0, 1) + 1,
    "reshape": lambda x: x.reshape(3, 8),
    "expand": lambda x: x[:, None].expand(4, 3, 6),
    "flip": lambda x: x.flip(1),
    "roll": lambda x: x.roll(2, 1),
    "cat": lambda x: torch.cat([x, x * 2], 1),
    "stack": lambda x: torch.stack([x, x], 1),
    "split": lambda x: x.split(2, 1)[1],
    "chunk": lambda x: x.chunk(3, 1)[2],
    "narrow": lambda x: x.narrow(1, 1, 3),
    "strided": lambda x: x[::2, 1::2],
    "select": lambda x: x[2],
    "pad": lambda x: F.pad(x, (1, 2, -1, 1)),
    "reflect": lambda x: F.pad(x[None], (2, 2), mode="reflect"),
    "tril": torch.tril,
    "triu": torch.triu,
    "diagonal": torch.diagonal,
    "diag": lambda x: torch.diag(x[0]),
    "repeat": lambda x: x.repeat(2, 3),
    "index_select": lambda x: x.index_select(1, torch.tensor([4, 0, 0], device=x.device)),
    "gather": lambda x: x.gather(1, torch.zeros(4, 2, dtype=torch.int64, device=x.device)),
    "index": lambda x: x[torch.tensor([1, 3, 1], device=x.device)],
    "index_add": lambda x: torch.zeros_like(x).index_add(0, torch.tensor([1, 1, 3, 0], device=x.device), x),
    "scatter_add": lambda x: torch.zeros_like(x).scatter_add(
        1, torch.ones(4, 6, dtype=torch.int64, device=x.device), x
    ),
    "index_put": lambda x: x.clone().index_put(
        (torch.tensor([2, 0], device=x.device),), torch.zeros((), device=x.device)
    ),
    "where": lambda x: torch.where(x > 0, x, x * 3),
    "masked_fill": lambda x: x.masked_fill(x > 0, 7.0),
    "unsqueeze": lambda x: x.unsqueeze(1).squeeze(),
    "unfold": lambda x: x.unfold(1, 3, 2),
    "clamp": lambda x: x.clamp(-0.5, 1),
    "lerp": lambda x: x.lerp(x * 2, 0.3),
    "addcmul": lambda x: x.addcmul(x, x, value=0.5),
    "pow": lambda x: x**3,
    "addcdiv": lambda x: x.addcdiv(x, x * x + 1),
    "meshgrid": lambda x: torch.meshgrid(x[0], x[1], indexing="ij")[0],
    "one_hot": lambda x: F.one_hot((x.abs() * 2).long(), 12),
    "in_place": lambda x: x.clone().mul_(2).add_(1).relu_(),
    "view_write": lambda x: _written(x),
    "arange": lambda x: x + torch.arange(6, device=x.device),
    "linspace": lambda x: x * torch.linspace(0, 1, 6, device=x.device),
    "eye": lambda x: x @ torch.eye(6, device=x.device),
    "float64": lambda x: x.double() / 3,
    "int64": lambda x: (x * 1e6).long() * 3000000000,
    "half": lambda x: x.half() * 2,
    "bfloat16": lambda x: x.bfloat16() + 1,
    "int8": lambda x: (x * 20).to(torch.int8) // 3,
    "bool": lambda x: ~(x > 0),
    "complex": lambda x: torch.view_as_real(torch.complex(x, x * 2) * torch.complex(x, -x)),
}
_LARGER: dict[str, tuple[Function, tuple[Tensor, ...]]] = {
    "matmul": (torch.matmul, (_x, _normal(6, 5))),
    "bmm": (torch.bmm, (_normal(3, 4, 5), _normal(3, 5, 2))),
    "addmm": (torch.addmm, (_normal(5), _x, _normal(6, 5))),
    "linear": (F.linear, (_x, _normal(3, 6), _normal(3))),
    "einsum": (lambda a, b: torch.einsum("bij,kj->bik", a, b), (_normal(2, 3, 4), _normal(5, 4))),
    "outer": (torch.outer, (_normal(4), _normal(5))),
    "baddbmm": (torch.baddbmm, (_normal(3, 4, 2), _normal(3, 4, 5), _normal(3, 5, 2))),
    "conv1d": (lambda x, w: F.conv1d(x, w, stride=2), (_normal(2, 3, 16), _normal(4, 3, 3))),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1), (_image, _normal(5, 4, 3, 3), _normal(5))),
    "conv2d_groups": (lambda x, w: F.conv2d(x, w, groups=2, dilation=2), (_image, _normal(6, 2, 3, 3))),
    "conv3d": (lambda x, w: F.conv3d(x, w), (_normal(1, 2, 5, 5, 5), _normal(3, 2, 2, 2, 2))),
    "conv_transpose2d": (lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), (_image, _normal(4, 3, 3, 3))),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), (_image,)),
    "max_pool2d_padded": (lambda x: F.max_pool2d(x, 3, stride=2, padding=1), (_image,)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, stride=2), (_image,)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 3), (_image,)),
    "upsample_nearest": (lambda x: F.interpolate(x, scale_factor=2), (_image,)),
    "upsample_bilinear": (lambda x: F.interpolate(x, size=(12, 7), mode="bilinear", align_corners=False), (_image,)),
    "batch_norm": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        (_image, _positive(4), _normal(4)),
    ),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (6,), w, b), (_x, _positive(6), _normal(6))),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), (_image, _positive(4), _normal(4))),
    "instance_norm": (F.instance_norm, (_image,)),
    "embedding": (lambda w: F.embedding(_integers(3, 4).to(w.device), w), (_normal(5, 7),)),
    "attention": (
        F.scaled_dot_product_attention,
        (_normal(2, 2, 5, 8), _normal(2, 2, 5, 8, seed=1), _normal(2, 2, 5, 8)),
    ),
    "causal_attention": (
        lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True),
        (_normal(2, 2, 5, 8), _normal(2, 2, 5, 8, seed=1)),
    ),
    "cross_entropy": (lambda x: F.cross_entropy(x, _integers(4).to(x.device)), (_x,)),
    "nll_loss": (lambda x: F.nll_loss(x.log_softmax(1), _integers(4).to(x.device), reduction="sum"), (_x,)),
    "mse_loss": (F.mse_loss, (_x, _y)),
    "l1_loss": (F.l1_loss, (_x, _y)),
    "smooth_l1_loss": (F.smooth_l1_loss, (_x, _y)),
    "huber_loss": (F.huber_loss, (_x, _y)),
    "binary_cross_entropy": (lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid()), (_x, _y)),
    "bce_with_logits": (lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()), (_x, _y)),
    "kl_div": (lambda x, y: F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"), (_x, _y)),
    "cosine_similarity": (F.cosine_similarity, (_x, _y)),
    "prelu": (F.prelu, (_x, _positive(1))),
    "cholesky": (lambda x: torch.linalg.cholesky(x @ x.mT + 4 * torch.eye(4, device=x.device)), (_x,)),
    "solve_triangular": (
        lambda a, b: torch.linalg.solve_triangular(a.tril() + 3 * torch.eye(4, device=a.device), b, upper=False),
        (_normal(4, 4), _normal(4, 2)),
    ),
    "inverse": (lambda a: torch.linalg.inv(a + 4 * torch.eye(4, device=a.device)), (_normal(4, 4),)),
    "empty": (lambda x: (x * 2).sum(0), (_normal(0, 3),)),
    "zero_dim": (lambda x: x.sin() * x, (_normal(),)),
    "special_values": (
        lambda x: x.exp() + x.sign(),
        (torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1e38]),),
    ),
}


def cases() -> Iterator[tuple[str, Function, tuple[Tensor, ...]]]:
    """Names, functions and their operands, on the CPU."""
    for name, operand in _POINTWISE.items():
        yield name, getattr(torch, name), (operand,)
    for name in _BINARY:
        yield name, getattr(torch, name), (_x, _y)
    for table in (_NN, _REDUCTIONS, _SHAPES):
        for name, function in table.items():
            yield name, function, (_x,)
    for name, (function, operands) in _LARGER.items():
        yield name, function, operands


def _written(x: Tensor) -> Tensor:
    result = x.clone()
    result[:, 1:3] = 5
    result[0].add_(1)
    return result


def compute(function: Function, operands: tuple[Tensor, ...], device: torch.device) -> list[Tensor]:
    """The result, then the gradients with respect to each operand where there are such; on the CPU."""
    operands = tuple(operand.to(device).requires_grad_() for operand in operands)
    result = function(*operands)
    values = [result]
    if result.requires_grad and result.is_floating_point():
        weights = torch.linspace(0.5, 1.5, result.numel(), device=device).reshape(result.shape).to(result.dtype)
        gradients = torch.autograd.grad((result * weights).sum(), operands, allow_unused=True)
        values += [gradient for gradient in gradients if gradient is not None]
    return [value.detach().cpu() for value in values]


def _computed(function: Function, operands: tuple[Tensor, ...], device: torch.device) -> list[Tensor] | str:
    try:
        return compute(function, operands, device)
    except RuntimeError as error:
        return str(error)


def main() -> None:
    import torch_xla

    device = torch_xla.device()
    results: dict[str, list[Tensor] | str] = {}
    for name, function, operands in cases():
        results[name] = _computed(function, operands, device)
    torch.save(results, sys.argv[1])


if __name__ == "__main__":
    main()
