"""Making tensors, looking at them differently, giving them other memory, and printing them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import torch_mydev


def test_empty_is_where_it_was_asked_for(device: torch.device) -> None:
    tensor = torch.empty(2, 3, device=device)
    assert tensor.device == torch.device(device.type, 0)
    assert tensor.is_contiguous()
    assert tensor.dtype == torch.float32
    assert getattr(tensor, f"is_{torch_mydev.device_name}")


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=str)
def test_empty_takes_a_memory_format(device: torch.device, memory_format: torch.memory_format) -> None:
    tensor = torch.empty(2, 3, 4, 5, device=device, memory_format=memory_format)
    assert tensor.stride() == torch.empty(2, 3, 4, 5, memory_format=memory_format).stride()


@pytest.mark.parametrize(
    "make",
    [
        lambda d: torch.ones(3, 4, device=d),
        lambda d: torch.zeros(3, dtype=torch.int64, device=d),
        lambda d: torch.full((2, 2), 7.5, device=d),
        lambda d: torch.arange(2, 20, 3, device=d),
        lambda d: torch.linspace(0, 1, 7, device=d),
        lambda d: torch.eye(4, device=d),
        lambda d: torch.tensor([[1, 2], [3, 4]], device=d),
        lambda d: torch.ones_like(torch.empty(3, 2, device=d)),
        lambda d: torch.empty_strided((2, 3), (1, 2), device=d).fill_(3),
        lambda d: torch.zeros(0, 5, device=d),
    ],
    ids=["ones", "zeros", "full", "arange", "linspace", "eye", "tensor", "ones_like", "empty_strided", "no elements"],
)
def test_factories_equal_cpu(device: torch.device, make: Callable[[object], torch.Tensor]) -> None:
    made, expected = make(device), make("cpu")
    assert made.stride() == expected.stride()
    torch.testing.assert_close(made.cpu(), expected)


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.view(6, 4),
        lambda t: t.view(-1),
        lambda t: t.transpose(0, 1),
        lambda t: t.permute(2, 0, 1),
        lambda t: t[1],
        lambda t: t[:, 1:, ::2],
        lambda t: t.as_strided((2, 2), (3, 1), 1),
        lambda t: t.unfold(2, 2, 1),
        lambda t: t.diagonal(),
        lambda t: t.unsqueeze(0).squeeze(0),
        lambda t: t.expand(2, 2, 3, 4),
        lambda t: t.reshape(4, 6),
        lambda t: t.flatten(),
        lambda t: t.narrow(2, 1, 2),
        lambda t: t.chunk(2, 2)[1],
        lambda t: t.movedim(0, 2),
        lambda t: t.view(torch.int32),
        lambda t: t.detach(),
    ],
)
def test_views_share_memory(device: torch.device, view: Callable[[torch.Tensor], torch.Tensor]) -> None:
    base, expected = torch.arange(24.0, device=device).view(2, 3, 4), torch.arange(24.0).view(2, 3, 4)
    seen = view(base)
    assert seen.data_ptr() - base.data_ptr() == view(expected).data_ptr() - expected.data_ptr()
    assert seen.stride() == view(expected).stride()
    torch.testing.assert_close(seen.cpu(), view(expected))
    if seen.numel() == base.numel():
        seen.fill_(1)
        torch.testing.assert_close(base.cpu().view(torch.int32), view_filled(view, expected).view(torch.int32))


def view_filled(view: Callable[[torch.Tensor], torch.Tensor], base: torch.Tensor) -> torch.Tensor:
    view(base).fill_(1)
    return base


def test_complex_views_write_through(device: torch.device) -> None:
    tensor = torch.zeros(3, dtype=torch.complex64, device=device)
    torch.view_as_real(tensor)[:, 0] = 2
    tensor.imag.fill_(3)
    assert tensor.tolist() == [2 + 3j] * 3
    assert torch.view_as_complex(torch.ones(2, 2, device=device)).tolist() == [1 + 1j] * 2


def test_gradient_of_a_step_function_is_zero(device: torch.device) -> None:
    leaf = torch.tensor([-2.0, 3.0], device=device, requires_grad=True)
    torch.sgn(leaf).sum().backward()
    assert leaf.grad.tolist() == [0, 0]
    assert torch._efficientzerotensor(3, device=device).add(1).tolist() == [1, 1, 1]


def test_view_that_does_not_fit_is_refused(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        torch.zeros(3, 4, device=device).t().view(12)
    with pytest.raises(RuntimeError, match="out of bounds"):
        torch.zeros(3, device=device).as_strided((4,), (1,))


@pytest.mark.parametrize("size", [(2,), (3, 5), (0,), (), (40, 40)])
def test_resize(device: torch.device, size: tuple[int, ...]) -> None:
    tensor = torch.arange(12.0, device=device).resize_(size)
    expected = torch.arange(12.0).resize_(size)
    assert tensor.shape == expected.shape
    assert tensor.stride() == expected.stride()
    count = min(12, tensor.numel())
    torch.testing.assert_close(tensor.flatten()[:count].cpu(), expected.flatten()[:count])


def test_resize_refuses_negative_sizes(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match="negative dimension"):
        torch.zeros(3, device=device).resize_(-1)


def test_set_shares_the_storage(device: torch.device) -> None:
    source = torch.arange(6.0, device=device)
    tensor = torch.empty(0, device=device).set_(source)
    tensor[0] = 9
    assert source[0].item() == 9
    window = torch.empty(0, device=device).set_(source.untyped_storage(), 2, (2, 2), (2, 1))
    assert window.tolist() == [[2, 3], [4, 5]]
    assert torch.empty(0, device=device).set_(source.untyped_storage()).shape == (6,)
    assert source.set_().numel() == 0


def test_set_refuses_a_storage_of_another_device(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match="device"):
        torch.zeros(3, device=device).set_(torch.zeros(3).untyped_storage())


def test_storage_resize_keeps_contents(device: torch.device) -> None:
    tensor = torch.arange(4.0, device=device)
    tensor.untyped_storage().resize_(64)
    assert tensor.untyped_storage().nbytes() == 64
    assert tensor.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "value",
    [
        torch.arange(6).reshape(2, 3),
        torch.tensor([1.5, float("nan"), -float("inf")]),
        torch.tensor(3),
        torch.zeros(0, 3),
        torch.tensor([1 + 2j]),
        torch.tensor([True, False]),
        torch.linspace(0, 1, 2000),
    ],
    ids=["integers", "nan", "scalar", "empty", "complex", "bool", "summarized"],
)
def test_printing_shows_the_cpus_values(device: torch.device, value: torch.Tensor) -> None:
    shown = repr(value.to(device))
    assert f"device='{device.type}:0'" in shown
    expected = repr(value).split(", dtype=")[0].removesuffix(")").split(", size=")[0]
    assert shown.split(", device=")[0].replace(" ", "") == expected.replace(" ", "")


def test_numpy_is_refused_as_on_other_accelerators(device: torch.device) -> None:
    tensor = torch.arange(3.0, device=device)
    with pytest.raises(TypeError, match=r"can't convert .* to numpy.*cpu"):
        tensor.numpy()
    with pytest.raises(TypeError, match="cpu"):
        tensor.__array__()
    assert tensor.numpy(force=True).tolist() == [0, 1, 2]


def test_pickled_storage_and_deepcopy(device: torch.device) -> None:
    import copy
    import pickle

    tensor = torch.arange(4.0, device=device)
    for duplicate in (pickle.loads(pickle.dumps(tensor)), copy.deepcopy(tensor)):
        assert duplicate.device == tensor.device
        assert duplicate.tolist() == tensor.tolist()
        assert duplicate.data_ptr() != tensor.data_ptr()


@pytest.mark.parametrize("index", [99, 7])
def test_wrong_device_index_is_named(device: torch.device, index: int) -> None:
    with pytest.raises(RuntimeError, match=rf"{index}"):
        torch.empty(3, device=f"{device.type}:{index}")
    assert torch.ones(2, device=device).sum().item() == 2


def test_pinned_device_memory_is_refused(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match="pin"):
        torch.empty(3, device=device, pin_memory=True)
