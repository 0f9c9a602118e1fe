"""Quantized tensors on the device: making them, views, copies, PyTorch's operators on them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import torch_mydev

pytestmark = pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor, torch.quantize_per_channel:UserWarning")

VALUES = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
SCALES = torch.tensor([0.1, 0.2, 0.05, 0.3], dtype=torch.float64)
ZERO_POINTS = torch.tensor([0, 1, -2, 3])

Device = torch.device | str
Maker = Callable[[Device], torch.Tensor]
Operator = Callable[[torch.Tensor], Any]


def per_tensor(dtype: torch.dtype) -> Maker:
    return lambda device: torch.quantize_per_tensor(VALUES.to(device), 0.1, 10, dtype)


def per_channel(device: Device) -> torch.Tensor:
    scales, zero_points = SCALES.to(device), ZERO_POINTS.to(device)
    return torch.quantize_per_channel(VALUES.to(device), scales, zero_points, 0, torch.qint8)


def per_channel_of_floats(device: Device) -> torch.Tensor:
    zero_points = torch.tensor([0.0, 0.5, 1.0, 2.0], device=device)
    return torch.quantize_per_channel(VALUES.to(device), SCALES.float().to(device), zero_points, 0, torch.quint8)


MAKERS: dict[str, Maker] = {
    "quint8": per_tensor(torch.quint8),
    "qint8": per_tensor(torch.qint8),
    "qint32": per_tensor(torch.qint32),
    "per channel": per_channel,
    "per channel, floats": per_channel_of_floats,
}


def state(value: Any) -> Any:
    """All that tells two results apart, on the CPU."""
    if isinstance(value, (list, tuple)):
        return [state(part) for part in value]
    if not isinstance(value, torch.Tensor):
        return value
    if not value.is_quantized:
        return [value.stride(), value.cpu()]
    scheme = value.qscheme()
    if scheme == torch.per_tensor_affine:
        parameters = [value.q_scale(), value.q_zero_point()]
    else:
        channels = [value.q_per_channel_scales().cpu(), value.q_per_channel_zero_points().cpu()]
        parameters = [channels, value.q_per_channel_axis()]
    return [str(value.dtype), str(scheme), value.stride(), value.int_repr().cpu(), *parameters]


def assert_state(actual: Any, expected: Any) -> None:
    if isinstance(expected, list):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_state(one, other)
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)
    else:
        assert actual == expected


@pytest.fixture(params=MAKERS.values(), ids=MAKERS)
def maker(request: pytest.FixtureRequest) -> Maker:
    return request.param  # type: ignore[no-any-return]


#: On tensors of every scheme; what the CPU refuses is refused.
OPERATORS: dict[str, Operator] = {
    "dequantize": lambda q: q.dequantize(),
    "int_repr": lambda q: q.int_repr(),
    "clone": lambda q: q.clone(),
    "view": lambda q: q.view(4, 2, 3),
    "select": lambda q: q[1],
    "slice": lambda q: q[1:3],
    "strided slice": lambda q: q[:, ::2].dequantize(),
    "transpose": lambda q: q.t(),
    "transposed int_repr": lambda q: q.t().int_repr(),
    "permuted clone": lambda q: q.view(2, 2, 6).permute(2, 0, 1).clone(),
    "reshape": lambda q: q.t().reshape(-1),
    "unsqueeze": lambda q: [q.unsqueeze(0), q.unsqueeze(0).squeeze(), q.unsqueeze(0).squeeze(0)],
    "unfold": lambda q: q.unfold(1, 2, 2),
    "as_strided": lambda q: q.as_strided((2, 2), (1, 3), 1),
    "flip": lambda q: q.flip(0),
    "cat": lambda q: torch.cat([q, q]),
    "index_select": lambda q: q.index_select(0, torch.tensor([2, 0], device=q.device)),
    "relu": lambda q: [q.relu(), q.clone().relu_()],
    "sigmoid": lambda q: q.sigmoid(),
    "mean": lambda q: q.mean(),
    "max": lambda q: q.max(),
    "topk": lambda q: q.topk(2),
    "sort": lambda q: q.sort(),
    "eq": lambda q: [q == q, torch.equal(q, q)],
    "add": lambda q: torch.ops.quantized.add(q, q, 0.2, 3),
    "max_pool2d": lambda q: F.max_pool2d(q.view(1, 1, 4, 6), 2),
    "interpolate": lambda q: F.interpolate(q.view(1, 1, 4, 6), scale_factor=2),
    "fill_": lambda q: q.clone().fill_(0.5),
    "masked_fill_": lambda q: q.clone().masked_fill_((VALUES > 0).to(q.device), 0.0),
    "resize_": lambda q: list(q.clone().resize_(8, 6).shape),
    "empty_like": lambda q: torch.empty_like(q).copy_(q),
    "copy of floats": lambda q: q.clone().copy_(VALUES.to(q.device) * 2),
    "deepcopy": copy.deepcopy,
    "detach": lambda q: q.detach(),
    "abs": lambda q: q.abs(),
    "copy to floats": lambda q: torch.zeros(4, 6, device=q.device).copy_(q),
}


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized:UserWarning")
@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_operator(device: torch.device, maker: Maker, operator: Operator) -> None:
    try:
        expected = state(operator(maker("cpu")))
    except (RuntimeError, NotImplementedError):
        if maker is not per_channel_of_floats:  # of which the device copies more than the CPU
            with pytest.raises(RuntimeError):
                operator(maker(device))
        return
    assert_state(state(operator(maker(device))), expected)


def test_copies_between_devices(device: torch.device, maker: Maker) -> None:
    quantized = maker("cpu")
    moved = quantized.to(device)
    assert moved.device.type == device.type
    assert moved.cpu().device.type == "cpu"
    assert_state(state(moved), state(quantized))
    assert_state(state(moved.cpu()), state(quantized))


def test_views_with_gaps_are_copied_to_the_cpu(device: torch.device) -> None:
    copied = per_channel(device)[:, ::2].cpu()
    assert copied.device.type == "cpu"
    torch.testing.assert_close(copied.dequantize(), per_channel("cpu")[:, ::2].dequantize())


def test_copying_in_place_across_devices(device: torch.device) -> None:
    quantized = per_channel("cpu")
    assert_state(state(torch.empty_like(quantized.to(device)).copy_(quantized)), state(quantized))
    assert_state(state(torch.empty_like(quantized).copy_(quantized.to(device))), state(quantized))


def test_views_share_memory(device: torch.device) -> None:
    quantized = MAKERS["qint8"](device)
    quantized[1].copy_(quantized[0].clone())
    quantized.view(-1)[:3].fill_(0.5)
    expected = MAKERS["qint8"]("cpu")
    expected[1].copy_(expected[0].clone())
    expected.view(-1)[:3].fill_(0.5)
    assert_state(state(quantized), state(expected))


def test_parameters_per_channel_are_on_the_device(device: torch.device) -> None:
    for quantized in (per_channel(device), per_channel("cpu").to(device), per_channel(device).clone()):
        assert quantized.q_per_channel_scales().device.type == device.type
        assert quantized.q_per_channel_zero_points().device.type == device.type
        assert quantized.q_per_channel_axis() == 0


def test_factories(device: torch.device) -> None:
    made = torch._empty_affine_quantized([2, 3], scale=0.2, zero_point=3, dtype=torch.qint8, device=device)
    assert (made.device.type, made.q_scale(), made.q_zero_point()) == (device.type, 0.2, 3)
    arguments = {"axis": 0, "dtype": torch.qint8, "device": device}
    for scales, zero_points in ((SCALES, ZERO_POINTS), (SCALES.to(device), ZERO_POINTS.to(device))):
        made = torch._empty_per_channel_affine_quantized([4, 3], scales=scales, zero_points=zero_points, **arguments)
        assert made.device.type == device.type
        torch.testing.assert_close(made.q_per_channel_scales().cpu(), SCALES)
    integers = torch.arange(6, dtype=torch.uint8)
    expected = torch._make_per_tensor_quantized_tensor(integers, 0.5, 1)
    assert_state(state(torch._make_per_tensor_quantized_tensor(integers.to(device), 0.5, 1)), state(expected))


def test_packed_elements(device: torch.device) -> None:
    def packed(where: Device) -> torch.Tensor:
        scales, zero_points = SCALES.float().to(where), torch.zeros(4, device=where)
        return torch.quantize_per_channel(VALUES.to(where), scales, zero_points, 0, torch.quint4x2)

    expected = packed("cpu").dequantize()
    torch.testing.assert_close(packed(device).dequantize().cpu(), expected)
    torch.testing.assert_close(packed(device).cpu().dequantize(), expected)
    with pytest.raises(NotImplementedError, match="int_repr: tensors of QUInt4x2"):
        packed(device).int_repr()


def test_printing(device: torch.device, maker: Maker) -> None:
    text = "".join(repr(maker(device)).split())
    assert text.replace(f",device='{device.type}:0'", "") == "".join(repr(maker("cpu")).split())


def test_operators_that_no_device_has_are_named(device: torch.device) -> None:
    with pytest.raises(NotImplementedError, match="aten::abs.* has a kernel for quantized tensors"):
        per_channel(device).abs()


def test_fallbacks_are_counted(device: torch.device) -> None:
    quantized = MAKERS["qint8"](device)
    with torch_mydev.fallback_census() as census:
        quantized.relu()
    assert census.total_calls == 1
    with torch_mydev.fallback_mode("error"), pytest.raises(NotImplementedError, match="fall"):
        quantized.relu()
