"""sort, argsort and topk against the CPU: dimensions, orders, ties, NaN, types, layouts."""

from __future__ import annotations

import pytest
import torch

from support.parity import is_out_of_reach

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int8, torch.uint8, torch.bool]


def operand(dtype: torch.dtype, *sizes: int) -> torch.Tensor:
    """Few different values, so that many are equal."""
    torch.manual_seed(0)
    return torch.randint(0, 2 if dtype == torch.bool else 7, sizes).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_stable_sort(dtype: torch.dtype, descending: bool, dim: int) -> None:
    x = operand(dtype, 5, 40, 6)
    expected = torch.sort(x, dim=dim, descending=descending, stable=True)
    actual = torch.sort(x.to("mydev"), dim=dim, descending=descending, stable=True)
    assert torch.equal(actual.values.cpu(), expected.values)
    assert torch.equal(actual.indices.cpu(), expected.indices)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_nan_and_infinities(dtype: torch.dtype, descending: bool) -> None:
    x = torch.tensor([1.0, torch.nan, -torch.inf, 0.0, torch.inf, -0.0, torch.nan, -2.0], dtype=dtype)
    expected = torch.sort(x, descending=descending, stable=True)
    actual = torch.sort(x.to("mydev"), descending=descending, stable=True)
    torch.testing.assert_close(actual.values.cpu(), expected.values, equal_nan=True, rtol=0, atol=0)
    assert torch.equal(actual.indices.cpu(), expected.indices)
    top = torch.topk(x.to("mydev"), 3, largest=descending).values.cpu()
    torch.testing.assert_close(top, torch.topk(x, 3, largest=descending).values, equal_nan=True, rtol=0, atol=0)


LAYOUTS = {
    "transposed": lambda x: x.transpose(0, 2),
    "stepped": lambda x: x[:, ::2],
    "expanded": lambda x: x[:1].expand(4, -1, -1),
    "scalar": lambda x: x[0, 0, 0],
    "empty": lambda x: x[:, :0],
    "one_dimension": lambda x: x[0, :, 0],
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name: str) -> None:
    x = torch.randn(3, 8, 5)
    view = LAYOUTS[name]
    expected, actual = (torch.sort(view(x.to(place)), dim=0) for place in ("cpu", "mydev"))
    for a, e in zip(actual, expected, strict=True):
        assert torch.equal(a.cpu(), e)
        assert a.stride() == e.stride()


@pytest.mark.parametrize("dtype", DTYPES[:-1])
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize(("k", "dim"), [(3, 1), (1, -1), (5, 0), (40, 1), (0, 1)])
def test_topk(dtype: torch.dtype, largest: bool, k: int, dim: int) -> None:
    x = operand(dtype, 5, 40, 6)
    expected = torch.topk(x, k, dim=dim, largest=largest)
    actual = torch.topk(x.to("mydev"), k, dim=dim, largest=largest)
    assert torch.equal(actual.values.cpu(), expected.values)
    assert torch.equal(x.gather(dim, actual.indices.cpu()), expected.values)
    assert actual.values.stride() == expected.values.stride()


def test_topk_of_a_long_line() -> None:
    x = torch.randperm(5000).float()
    expected, actual = torch.topk(x, 7), torch.topk(x.to("mydev"), 7)
    assert torch.equal(actual.values.cpu(), expected.values)
    assert torch.equal(actual.indices.cpu(), expected.indices)


@pytest.mark.parametrize("size", [12, 400])
def test_topk_that_need_not_be_sorted(size: int, device: torch.device) -> None:
    x = torch.randperm(size).float()
    out = torch.empty(size, device=device)[::2], torch.empty(size, device=device, dtype=torch.int64)[::2]
    expected, actual = torch.topk(x, 6, sorted=False), torch.topk(x.to(device), 6, sorted=False)
    written = torch.topk(x.to(device), 6, sorted=False, out=tuple(place[:6] for place in out))
    assert torch.equal(actual.values.cpu().sort().values, expected.values.sort().values)
    if not is_out_of_reach(device):  # there the kernel sorts them
        for ours, theirs in zip((*actual, *written), (*expected, *expected), strict=True):
            assert torch.equal(ours.cpu(), theirs)


def test_gradients_go_back_to_where_elements_were() -> None:
    x = torch.randn(4, 9)
    grads = []
    for place in ("cpu", "mydev"):
        operand_ = x.to(place).requires_grad_() if place != "cpu" else x.clone().requires_grad_()
        weights = torch.arange(9.0, device=place)
        (operand_.sort(dim=1).values * weights).sum().backward()
        (operand_.topk(2, dim=1).values * 100).sum().backward()
        grads.append(operand_.grad)
    torch.testing.assert_close(grads[1], grads[0], check_device=False)


@pytest.mark.parametrize("place", ["cpu", "mydev"])
def test_what_the_cpu_refuses_is_refused(place: str) -> None:
    x = torch.randn(3, 4, device=place)
    with pytest.raises(RuntimeError, match="selected index k out of range"):
        torch.topk(x, 5)
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.sort(x, dim=2)
