"""Values that generated kernels compute once for several loops over a row (torch_mydev/compile/kernels/kept_rows.py),
quotients that become products (quotients.py), and loops that are computed by vectors (vectors.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from support.like_eager import graphs

pytestmark = pytest.mark.usefixtures("fresh_compiler")


def same_values(function: Callable[..., Any], *args: Tensor) -> None:
    run = torch.compile(function, backend="mydev_kernels", fullgraph=True)
    actual, expected = [x.clone() for x in args], [x.clone() for x in args]
    assert_close(run(*actual), function(*expected), equal_nan=True)
    assert_close(actual, expected, equal_nan=True)
    assert {graph.route for graph in graphs()} == {"kernels"}


def rows(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=dtype).to("mydev")


def softmax(x: Tensor) -> Tensor:
    shifted = (x - x.amax(-1, keepdim=True)).exp()
    return shifted / shifted.sum(-1, keepdim=True)


def test_exponentials_of_a_softmax_are_computed_once(kernel_sources: list[str]) -> None:
    same_values(softmax, rows(3, 1000))
    (source,) = kernel_sources
    assert source.count("exp_f32(") == 1
    assert "KEPT(f32, kept0, 1000);" in source


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_softmax_of_other_types(dtype: torch.dtype, kernel_sources: list[str]) -> None:
    same_values(lambda x: F.softmax(x, -1), rows(3, 77, dtype=dtype))
    assert kernel_sources[0].count("exp_f") == 1


def test_rows_of_special_values(kernel_sources: list[str]) -> None:
    x = rows(4, 50)
    x[0, 3], x[1, 7], x[2] = float("inf"), float("nan"), float("-inf")
    same_values(softmax, x)
    assert "KEPT" in kernel_sources[0]


def test_rows_for_which_there_is_no_room_are_computed_again(kernel_sources: list[str]) -> None:
    same_values(softmax, rows(2, 4096 + 1))
    assert kernel_sources[0].count("exp_f32(") == 2
    assert "KEPT" not in kernel_sources[0]


def test_as_many_values_are_kept_as_there_is_room_for(kernel_sources: list[str]) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        values = [x.sin(), x.exp(), x.tanh()]
        return tuple(value / value.sum(-1, keepdim=True) for value in values)

    same_values(function, rows(2, 2000))
    assert kernel_sources[0].count("KEPT") == 2


def test_sizes_that_are_not_known_are_computed_again(kernel_sources: list[str]) -> None:
    run = torch.compile(softmax, backend="mydev_kernels", fullgraph=True, dynamic=True)
    for x in (rows(3, 100), rows(5, 60)):
        assert_close(run(x), softmax(x))
    assert "KEPT" not in kernel_sources[0]


def test_what_is_as_quick_to_compute_is_computed_again(kernel_sources: list[str]) -> None:
    def variance(x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred * (centred * centred).mean(-1, keepdim=True)

    same_values(variance, rows(3, 100))
    assert "KEPT" not in kernel_sources[0]


def test_only_the_last_of_values_on_the_way_is_kept(kernel_sources: list[str]) -> None:
    def function(x: Tensor) -> Tensor:
        value = x.sin().exp()
        return value / value.sum(-1, keepdim=True)

    same_values(function, rows(3, 100))
    (source,) = kernel_sources
    assert source.count("KEPT") == source.count("sin_f32(") == source.count("exp_f32(") == 1


def test_rows_of_several_dimensions_and_broadcast_operands(kernel_sources: list[str]) -> None:
    def function(x: Tensor, bias: Tensor) -> Tensor:
        value = (x.transpose(1, 2) + bias).exp()
        return value / value.sum((1, 2), keepdim=True) * bias

    same_values(function, rows(3, 40, 24), rows(24, 1))
    assert kernel_sources[0].count("exp_f32(") == 1


def test_values_of_three_loops(kernel_sources: list[str]) -> None:
    def function(x: Tensor) -> Tensor:
        value = x.tanh()
        centred = value - value.mean(-1, keepdim=True)
        return centred * (centred.square().mean(-1, keepdim=True) + 1e-5).rsqrt() + value

    same_values(function, rows(3, 100))
    assert kernel_sources[0].count("tanh_f32(") == 1


def test_what_a_kernel_writes_is_read_again(kernel_sources: list[str]) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        total = x.exp().sum(-1, keepdim=True)
        x.sub_(total)
        return x.exp() / x.exp().sum(-1, keepdim=True), total

    same_values(function, rows(3, 100) / 100)


def test_conditions_and_checked_indices(kernel_sources: list[str]) -> None:
    def function(x: Tensor, index: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        taken = softmax(torch.where(mask, x[:, index], -torch.inf))
        padded = F.pad(x, (3, 5)).exp()
        return taken, padded / padded.sum(-1, keepdim=True)

    index = torch.arange(99, -1, -1, device="mydev")
    same_values(function, rows(3, 100), index, index % 3 == 0)
    assert [source.count("exp_f32(") for source in kernel_sources] == [1, 1]


def test_gradients(kernel_sources: list[str]) -> None:
    def function(x: Tensor) -> Tensor:
        (gradient,) = torch.autograd.grad((softmax(x.tanh()) * x).sum(), x)
        return gradient

    x = rows(3, 100).requires_grad_()
    run = torch.compile(lambda x: (softmax(x.tanh()) * x).sum(), backend="mydev_kernels", fullgraph=True)
    (actual,) = torch.autograd.grad(run(x), x)
    assert_close(actual, function(x))
    assert any("KEPT" in source for source in kernel_sources)


# --- quotients by what is the same in a row ---------------------------------------------------------------------------


def quotients(x: Tensor, divisor: Tensor) -> tuple[Tensor, Tensor]:
    result = x / divisor
    return result, result.amax(-1)


def quotients_by_vectors(x: Tensor, divisor: Tensor) -> tuple[Tensor, Tensor]:
    result = x / divisor
    return result, result.sum(-1)


LOOPS = [(quotients, "LOOP_OPEN"), (quotients_by_vectors, "VECTORS_OPEN")]


@pytest.mark.parametrize(("function", "loop"), LOOPS)
def test_quotients_are_exact(function: Callable[..., Any], loop: str, kernel_sources: list[str]) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 500, generator=generator) * torch.randint(-30, 30, (200, 500), generator=generator).exp2()
    divisor = torch.rand(200, 1, generator=generator) + 0.01
    run = torch.compile(function, backend="mydev_kernels", fullgraph=True)
    assert torch.equal(run(x.to("mydev"), divisor.to("mydev"))[0].cpu(), x / divisor)
    assert kernel_sources[0].count("quotient_f32(") == kernel_sources[0].count(f"{loop}(") == 1


@pytest.mark.parametrize(("function", "loop"), LOOPS)
def test_quotients_at_the_ends_of_the_range(function: Callable[..., Any], loop: str, kernel_sources: list[str]) -> None:
    tiny, huge, inf, nan = 1e-40, 3e38, float("inf"), float("nan")
    x = torch.tensor([0.0, -0.0, 1.0, -3.0, tiny, -tiny, 1e-30, huge, -huge, inf, -inf, nan] * 9)
    ends = [0.0, 1e-45, tiny, 1.1754944e-38, 1.1754945e-38, 0.3, 7.0, 8.507059e37, 8.5070595e37, huge, inf]
    divisor = torch.tensor([*ends, *(-each for each in ends), nan])[:, None]
    x = x.expand(len(divisor), -1).contiguous()
    run = torch.compile(function, backend="mydev_kernels", fullgraph=True)
    actual, expected = run(x.to("mydev"), divisor.to("mydev"))[0].cpu(), x / divisor
    assert_close(actual, expected, rtol=1.2e-7, atol=1.5e-45, equal_nan=True)
    is_number = ~expected.isnan()
    assert torch.equal(actual.signbit()[is_number], expected.signbit()[is_number])
    assert kernel_sources[0].count("quotient_f32(") == kernel_sources[0].count(f"{loop}(") == 1


def test_other_quotients_are_divisions(kernel_sources: list[str]) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        total = x.sum(-1, keepdim=True)
        return (x / (x * x + total)).sum(-1), (total / x).sum(-1), (total / 3).sin()

    same_values(function, rows(5, 70))
    assert "quotient_f32(" not in "".join(kernel_sources)


# --- exponentials and quotients by vectors ----------------------------------------------------------------------------


@pytest.mark.parametrize("length", [20, 63, 64, 65, 129, 1000])
def test_a_softmax_goes_by_vectors(length: int, kernel_sources: list[str]) -> None:
    same_values(softmax, rows(7, length)[1:] * 30)  # not aligned as a vector is
    assert kernel_sources[0].count("VECTORS_OPEN(") == 2  # exponentials, and their quotients


def test_exponentials_of_all_magnitudes(kernel_sources: list[str]) -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        result = (x - y).exp()
        return result, result.sum(-1)

    ends = [0.0, -0.0, 1e-40, 88.7, 88.73, 89.0, 104.0, 1e30, float("inf"), float("nan")]
    x = torch.cat([torch.linspace(-110, 95, 20000), torch.tensor([*ends, *(-each for each in ends)])])
    x = torch.cat([x, torch.zeros(-len(x) % 77)]).view(-1, 77)
    run = torch.compile(function, backend="mydev_kernels", fullgraph=True)
    actual, _ = run(x.to("mydev"), torch.zeros_like(x[:, :1]).to("mydev"))
    expected = x.double().exp().float()
    assert_close(actual.cpu(), expected, rtol=2.4e-7, atol=1.5e-45, equal_nan=True)
    assert "VECTORS_OPEN(" in kernel_sources[0]


def test_vectors_of_what_is_the_same_in_a_row(kernel_sources: list[str]) -> None:
    def function(x: Tensor, y: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        result = (weight * (x - y.sqrt())).exp() * 0.5 + y
        return result, result.sum(-1)

    same_values(function, rows(5, 100), rows(5, 1).abs(), rows(100))
    assert "VECTORS_OPEN(" in kernel_sources[0]


def test_loops_of_other_values_are_none_of_vectors(kernel_sources: list[str]) -> None:
    x, mask = rows(6, 70), rows(6, 70) > 0
    functions: list[Callable[..., Tensor]] = [
        lambda x: x.where(x > 0, x.exp()).sum(-1),  # a truth value
        lambda x: (x.exp() * x.sin()).sum(-1),  # a function that has no vectors
        lambda x: x.double().exp().sum(-1),
        lambda x: x.flip(-1).exp().sum(-1),  # backwards
        lambda x: x.repeat(1, 2).exp().sum(-1),  # the same values twice
        lambda x: x.exp().amax(-1),
    ]
    for function in functions:
        same_values(function, x)
    same_values(lambda x, mask: (x.exp() * mask).sum(-1), x, mask)
    same_values(lambda x: x.exp().sum(-1), x.bfloat16())
    assert len(kernel_sources) == len(functions) + 2
    assert [source for source in kernel_sources if "VECTORS_OPEN(" in source] == []
