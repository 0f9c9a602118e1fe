"""Operators over lists of tensors, torch._foreach_*, agree with the CPU."""

from __future__ import annotations

import pytest
import torch

import torch_mydev


def test_foreach_results_have_the_strides_of_their_operands(device: torch.device) -> None:
    def strides(where: str | torch.device) -> list[tuple[int, ...]]:
        x = torch.ones(2, 3, device=where)
        tensors = [x[None, :, :1], x.t(), x[None, :, None, :1], x[:, :1].t(), x[:, :1].clone().t()]
        results = [torch._foreach_add(tensors, 7), torch._foreach_mul(tensors, tensors), torch._foreach_sqrt(tensors)]
        results += [torch._foreach_addcmul(tensors, tensors, tensors, 2), torch._foreach_pow(tensors, 2)]
        return [t.stride() for result in results for t in result]

    assert strides(device) == strides("cpu")


FOREACH = {
    "add_scalar": lambda x, y: torch._foreach_add(x, 2.5),
    "add_scalars": lambda x, y: torch._foreach_add(x, [1.0, 2.0, 3.0]),
    "add_list": lambda x, y: torch._foreach_add(x, y, alpha=0.5),
    "sub_list": lambda x, y: torch._foreach_sub(x, y, alpha=2),
    "mul_list": lambda x, y: torch._foreach_mul(x, y),
    "mul_tensor": lambda x, y: torch._foreach_mul(x, y[2]),
    "div_scalar": lambda x, y: torch._foreach_div(x, 3.0),
    "div_list": lambda x, y: torch._foreach_div(x, y),
    "maximum": lambda x, y: torch._foreach_maximum(x, y),
    "minimum": lambda x, y: torch._foreach_minimum(x, y),
    "lerp": lambda x, y: torch._foreach_lerp(x, y, 0.7),
    "addcmul": lambda x, y: torch._foreach_addcmul(x, y, y, 0.3),
    "addcdiv": lambda x, y: torch._foreach_addcdiv(x, x, y, [0.1, 0.2, 0.3]),
    "sqrt": lambda x, y: torch._foreach_sqrt(torch._foreach_mul(x, x)),
    "neg": lambda x, y: torch._foreach_neg(x),
    "reciprocal": lambda x, y: torch._foreach_reciprocal(y),
    "norm": lambda x, y: torch._foreach_norm(x),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", FOREACH)
def test_foreach(name: str, dtype: torch.dtype, device: torch.device) -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = [(3, 5), (9000,), ()]
    x = [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]
    y = [(torch.rand(shape, generator=generator) + 0.5).to(dtype) for shape in shapes]
    expected = FOREACH[name](x, y)
    with torch_mydev.fallback_mode("error"):
        actual = FOREACH[name]([t.to(device) for t in x], [t.to(device) for t in y])
    torch.testing.assert_close([t.cpu() for t in actual], list(expected))


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "addcmul", "addcdiv"])
def test_foreach_with_tensors_that_stand_for_all_elements(name: str, in_place: bool, device: torch.device) -> None:
    x = [torch.arange(6.0).view(2, 3), torch.arange(9000.0), torch.tensor(3.0)]
    y = [torch.tensor(2.0), torch.tensor(0.5), torch.tensor(4.0)]
    z = [[each + 1 for each in x]] if name.startswith("addc") else []
    function = getattr(torch, f"_foreach_{name}{'_' if in_place else ''}")

    def result(where: torch.device) -> list[torch.Tensor]:
        lists = [[each.to(where, copy=True) for each in every] for every in (x, *z, y)]
        return [each.cpu() for each in (function(*lists) or lists[0])]

    with torch_mydev.fallback_mode("error"), torch_mydev.fallback_census() as census:
        torch.testing.assert_close(result(device), result(torch.device("cpu")))
    assert census.compositions == {}


def test_foreach_of_mixed_lists_is_done_tensor_by_tensor(device: torch.device) -> None:
    x = [
        torch.ones(3, device=device),
        torch.ones(3, device=device, dtype=torch.int32),
        torch.ones(4, 3, device=device).t(),
    ]
    with torch_mydev.fallback_mode("error"):
        result = torch._foreach_add(x, 1)
    assert [t.dtype for t in result] == [t.dtype for t in x]
    assert all((t.cpu() == 2).all() for t in result)


def test_foreach_in_place_on_transposed_tensors(device: torch.device) -> None:
    x = [torch.arange(6.0, device=device).view(2, 3).t()]
    torch._foreach_mul_(x, 2)
    torch.testing.assert_close(x[0].cpu(), (torch.arange(6.0) * 2).view(2, 3).t())


def overlapping_parts(device: torch.device, count: int = 10) -> tuple[torch.Tensor, list[list[torch.Tensor]]]:
    base = (torch.arange(3.0 * count) % 17 + 1).to(device)
    return base, [[base[i : i + 2 * count]] for i in (0, 3, 5)]


OVERLAPPING = {
    "add": lambda base, x, y, z: torch._foreach_add_(x, y),
    "mul": lambda base, x, y, z: torch._foreach_mul_(x, y),
    "div": lambda base, x, y, z: torch._foreach_div_(x, y),
    "maximum": lambda base, x, y, z: torch._foreach_maximum_(x, y),
    "copy": lambda base, x, y, z: torch._foreach_copy_(x, y),
    "lerp": lambda base, x, y, z: torch._foreach_lerp_(x, y, 0.5),
    "addcmul": lambda base, x, y, z: torch._foreach_addcmul_(x, x, z),
    "addcdiv": lambda base, x, y, z: torch._foreach_addcdiv_(x, z, x),
    "mul_tensor": lambda base, x, y, z: torch._foreach_mul_(x, base[4]),
}


@pytest.mark.parametrize("count", [10, 20_000])
@pytest.mark.parametrize("name", OVERLAPPING)
def test_foreach_over_overlapping_tensors_raises_as_on_cpu(name: str, count: int, device: torch.device) -> None:
    messages = []
    for place in (torch.device("cpu"), device):
        base, lists = overlapping_parts(place, count)
        with pytest.raises(RuntimeError) as error:
            OVERLAPPING[name](base, *lists)
        messages.append(str(error.value).splitlines()[0])
    assert messages[1] == messages[0]


ORDERED = {
    "one tensor twice": lambda x, y: torch._foreach_add_([x, x, y], 1),
    "each reads the one before": lambda x, y: torch._foreach_add_([x, y, x], [y, x, y]),
    "overlapping neighbours": lambda x, y: torch._foreach_mul_([x[:-7], x[7:]], 2),
    "a step twice": lambda x, y: torch._fused_sgd_(
        [x, x],
        [y, y],
        [],
        weight_decay=0.1,
        momentum=0.0,
        lr=0.5,
        dampening=0.0,
        nesterov=False,
        maximize=False,
        is_first_step=True,
    ),
}


@pytest.mark.parametrize("count", [10, 200_000])
@pytest.mark.parametrize("name", ORDERED)
def test_lists_that_share_memory_are_gone_through_in_order(name: str, count: int, device: torch.device) -> None:
    results = []
    for place in (torch.device("cpu"), device):
        x, y = ((torch.arange(count) % 100).add(i).float().to(place) for i in (1, 2))
        ORDERED[name](x, y)
        results.append((x.cpu(), y.cpu()))
    torch.testing.assert_close(results[1], results[0])


def test_parts_of_one_storage_are_updated_in_one_launch(device: torch.device) -> None:
    parts = list(torch.ones(40_000, device=device).split(10_000))
    with torch_mydev.fallback_mode("error"):
        torch._foreach_add_(parts[::-1], parts[::-1])
    assert all((part.cpu() == 2).all() for part in parts)
