"""Portable kernels in the forms that GPUs get, on the stub of libcuda: shapes beyond a tile, ragged, transposed, long.

The machine's C++ compiler makes the modules, and threads of a block take turns at barriers. Programs run in a child.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from support.cuda import cuda_driver

pytestmark = [pytest.mark.any_driver, pytest.mark.slow]

Run = Callable[..., subprocess.CompletedProcess[str]]

START = """
import torch, torch_mydev
import torch.nn.functional as F
from torch import randn
torch.manual_seed(0)

def results(function, device, tensors):
    leaves = [x.detach().to(device).requires_grad_(x.is_floating_point()) for x in tensors]
    made = function(*leaves)
    made = list(made) if isinstance(made, tuple) else [made]
    if made[0].requires_grad:
        grad = torch.arange(made[0].numel(), device=device) % 7 - 3
        made[0].backward(grad.reshape(made[0].shape).to(made[0].dtype))
        made += [x.grad for x in leaves if x.grad is not None]
    return [x.detach().cpu() for x in made]

def check(function, *tensors, rtol=1e-4, atol=2e-3):
    expected = results(function, "cpu", tensors)
    for ours, theirs in zip(results(function, "mydev", tensors), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=rtol, atol=atol)

with torch_mydev.fallback_mode("error"):
"""

PRODUCTS = {
    "large tiles": "check(torch.mm, randn(200, 70), randn(70, 260))",
    "ragged, operands transposed": "check(lambda a, b: a.t() @ b.t(), randn(37, 131), randn(129, 37))",
    "the result transposed": """
    def into(a, b):
        return torch.mm(a, b, out=torch.empty(70, 65, device=a.device).t())
    with torch.no_grad():
        check(lambda a, b: into(a.detach(), b.detach()), randn(65, 40), randn(40, 70))
""",
    "long k in parts": "check(lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), randn(30), randn(20, 3000),"
    " randn(3000, 30))",
    "batches of f64": "check(torch.bmm, randn(3, 70, 40).double(), randn(3, 40, 66).double())",
    "few rows": "check(lambda a, b: a @ b.t(), randn(3, 700), randn(300, 700))",
    "few columns": "check(lambda a, b: a @ b.t(), randn(300, 700), randn(3, 700))",
    "halves in parts": "check(torch.mm, randn(20, 1000).half() / 8, randn(1000, 65).half(), rtol=1e-2, atol=5e-2)",
    "complex numbers in parts": """
    a, b = torch.complex(randn(20, 1000), randn(20, 1000)), torch.complex(randn(1000, 70), randn(1000, 70))
    with torch.no_grad():
        check(torch.mm, a, b)
""",
    "integers": "check(torch.mm, torch.randint(-9, 9, (70, 300)), torch.randint(-9, 9, (300, 65)))",
    "infinity and NaN": """
    a = randn(70, 20)
    a[0, 0], a[69, 1] = float("inf"), float("nan")
    theirs, ours = a @ a.t(), (a.to("mydev") @ a.to("mydev").t()).cpu()
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-3, equal_nan=True)
""",
}
REDUCTIONS = {
    "a long row": "check(torch.sum, randn(3, 9001))",
    "few long rows": "check(lambda x: x.sum(1), randn(3, 9001))",
    "long columns": "check(lambda x: x.sum(0), randn(1500, 70))",
    "channels": "check(lambda x: x.mean((0, 2, 3)), randn(40, 8, 33, 5))",
    "stages of rows": "check(lambda x: torch.var_mean(x.detach(), 1), randn(3, 9001))",
    "stages of columns": "check(lambda x: torch.var_mean(x.detach(), 0), randn(1500, 70))",
    "places in rows": "check(lambda x: x.argmax(1), randn(3, 9001).round())",
    "places in columns": "check(lambda x: tuple(x.detach().max(0)), randn(1500, 70).round())",
    "truth": "check(lambda x: ((x > -9).all(), (x > 3).any(0)), randn(1500, 70))",
    "sums of integers": "check(lambda x: x.sum(0), torch.randint(-9, 9, (1500, 70), dtype=torch.int32))",
}
SCANS = {
    "sums along rows": "check(lambda x: x.detach().cumsum(1), randn(5, 5001))",
    "sums along columns": "check(lambda x: x.detach().cumsum(1), randn(2, 300, 3))",
    "one long row": "check(lambda x: x.cumsum(0), torch.randint(-9, 9, (70001,), dtype=torch.int32))",
    "products of strided halves": "check(lambda x: x.detach().t()[::2].cumprod(1), 1 + randn(300, 5).half() / 99,"
    " rtol=1e-2)",
    "products of integers": "check(lambda x: x.cumprod(1), torch.randint(0, 9, (3, 700), dtype=torch.uint8))",
}
ORDERS = {
    "places": "check(lambda x: (x.nonzero(), x[x > 1]), torch.randint(0, 3, (70001,)))",
    "rows that are sorted": "check(lambda x: tuple(x.detach().sort(dim=1, stable=True)), (9 * randn(3, 5001)).round())",
    "columns in descending order": """
    x = randn(2, 1500, 3).round()
    x[0, 7] = x[1, 1499] = float("nan")
    theirs, ours = x.sort(dim=1, stable=True, descending=True), x.to("mydev").sort(dim=1, stable=True, descending=True)
    torch.testing.assert_close(ours[0].cpu(), theirs[0], equal_nan=True)
    torch.testing.assert_close(ours[1].cpu(), theirs[1])
""",
    "integers that are sorted": "check(lambda x: tuple(x.sort(dim=0, stable=True)), torch.randint(-99, 99, (2049,)))",
    "a few of many": "check(lambda x: tuple(x.detach().topk(300)), torch.randperm(15000).reshape(3, 5000).float())",
    "half of many": "check(lambda x: tuple(x.detach().topk(700)), torch.randperm(15000).reshape(3, 5000).float())",
}
NETWORKS = {
    "batch normalization": """
    def norm(x, *parameters):
        mean, var = torch.zeros(x.shape[1], device=x.device), torch.ones(x.shape[1], device=x.device)
        return F.batch_norm(x, mean, var, *parameters, training=True), mean, var
    check(norm, randn(7, 3, 29, 31) + 100, randn(3), randn(3))
    check(norm, randn(3001, 5), randn(5), randn(5))
""",
    "group normalization": "check(lambda x, w, b: F.group_norm(x, 2, w, b), randn(3, 6, 17, 19), randn(6), randn(6))",
    "cross entropy": """
    weight, target = torch.rand(5), torch.randint(0, 5, (3000,))
    for reduction in ("mean", "sum"):
        def loss(x):
            return F.cross_entropy(x, target.to(x.device), weight.to(x.device), ignore_index=2, reduction=reduction)
        check(loss, randn(3000, 5))
""",
    "layer normalization": "check(lambda x, w, b: F.layer_norm(x, (70,), w, b), randn(700, 70), randn(70), randn(70))",
    "normalization by the root mean square": "check(lambda x, w: F.rms_norm(x, (70,), w), randn(700, 70), randn(70))",
    "a convolution": "check(lambda x, w, b: F.conv2d(x, w, b, padding=1), randn(12, 5, 19, 11), randn(70, 5, 3, 3),"
    " randn(70))",
    "a convolution with strides": "check(lambda x, w: F.conv2d(x, w, stride=2, padding=(1, 2), dilation=(2, 1)),"
    " randn(3, 20, 13, 11), randn(18, 20, 3, 2))",
    "a convolution in groups": "check(lambda x, w: F.conv2d(x, w, groups=2), randn(2, 40, 7, 7), randn(66, 20, 3, 3))",
    "a convolution in three dimensions": "check(lambda x, w: F.conv3d(x, w, stride=2), randn(2, 17, 5, 6, 7).double(),"
    " randn(16, 17, 2, 3, 2).double())",
    "a transposed convolution": "check(lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, groups=2),"
    " randn(2, 32, 5, 6), randn(32, 17, 3, 3))",
    "an embedding": """
    index = torch.randint(0, 50, (300,))
    check(lambda w: F.embedding(index.to(w.device), w, padding_idx=3), randn(60, 150))
    check(lambda w: F.embedding(index.to(w.device), w, scale_grad_by_freq=True), randn(60, 40))
""",
    "pooling": "check(lambda x: F.max_pool2d(x, 3, 2, 1), randn(3, 5, 17, 19))",
    "attention": "check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),"
    " randn(2, 3, 150, 20), randn(2, 3, 150, 20), randn(2, 3, 150, 20))",
}


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(code, id=name)
        for group in (PRODUCTS, REDUCTIONS, SCANS, ORDERS, NETWORKS)
        for name, code in group.items()
    ],
)
def test_large_shapes_are_computed_as_on_the_cpu(run_python: Run, code: str) -> None:
    body = code if code.startswith("\n") else f"    {code}\n"
    result = run_python(START + body.lstrip("\n"), MYDEV_DRIVER=cuda_driver())
    assert result.returncode == 0, result.stderr
