"""Pointwise operators over operands of every layout: the CPU's values, dtypes and strides."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo

aten = torch.ops.aten
CHANNELS_LAST, CHANNELS_LAST_3D = torch.channels_last, torch.channels_last_3d


def values(*shape: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Returns numbers between 0.1 and 0.9, or small positive integers: most functions are defined for these."""
    numbers = torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 0.8 + 0.1
    return numbers.to(dtype) if dtype.is_floating_point else (numbers * 7).to(dtype) + 1


Make = Callable[..., torch.Tensor]
#: Tensors of 2 x 3 x 4 x 5, or that broadcast to it; with strides that say more than the shape where a size is 1.
IMAGES: dict[str, Make] = {
    "contiguous": lambda **k: values(2, 3, 4, 5, **k),
    "channels_last": lambda **k: values(2, 3, 4, 5, **k).contiguous(memory_format=CHANNELS_LAST),
    "transposed": lambda **k: values(2, 3, 5, 4, **k).transpose(2, 3),
    "permuted": lambda **k: values(4, 2, 5, 3, **k).permute(1, 3, 0, 2),
    "reversed": lambda **k: values(5, 4, 3, 2, **k).permute(3, 2, 1, 0),
    "expanded": lambda **k: values(3, 1, 5, **k).expand(2, 3, 4, 5),
    "sliced": lambda **k: values(4, 5, 6, 11, **k)[1:3, 1:4, 1:5, 1:11:2],
    "channels_last_sliced": lambda **k: values(2, 5, 4, 5, **k).contiguous(memory_format=CHANNELS_LAST)[:, 1:4],
    "ambiguous": lambda **k: values(2, 3, 1, 1, **k),
    "ambiguous_channels_last": lambda **k: values(2, 3, 1, 1, **k).as_strided((2, 3, 1, 1), (3, 1, 3, 3)),
    "one_channel": lambda **k: values(2, 1, 4, 5, **k),
    "one_channel_last": lambda **k: values(2, 1, 4, 5, **k).as_strided((2, 1, 4, 5), (20, 1, 5, 1)),
    "row": lambda **k: values(5, **k),
    "channels": lambda **k: values(1, 3, 1, 1, **k),
    "scalar": lambda **k: values(**k),
}
#: Tensors that do not broadcast with the above.
OTHERS: dict[str, Make] = {
    "channels_last_3d": lambda **k: values(2, 3, 2, 4, 5, **k).contiguous(memory_format=CHANNELS_LAST_3D),
    "matrix": lambda **k: values(4, 6, **k),
    "matrix_transposed": lambda **k: values(6, 4, **k).t(),
    "matrix_sliced": lambda **k: values(8, 13, **k)[2:6, 1:13:2],
    "column_transposed": lambda **k: values(5, 1, **k).t(),
    "empty": lambda **k: values(2, 0, 4, 5, **k).contiguous(memory_format=CHANNELS_LAST),
    "one_image_channels_last": lambda **k: values(1, 3, 4, 5, **k).contiguous(memory_format=CHANNELS_LAST),
}


#: CUDA's own, one whose sample has a weight on the CPU, and one that the example of extending replaces in its process.
LEFT_OUT = {"jiterator_unary", "jiterator_binary", "jiterator_binary_return_by_ref", "nn.functional.prelu", "logit"}


def info_name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def with_sample_arguments(op: UnaryUfuncInfo) -> Callable[[torch.Tensor], Any]:
    keywords = op.sample_kwargs("cpu", torch.float32, torch.zeros(1))[0]
    return lambda t: op.op(t, **keywords)


UNARY: dict[str, Callable[[torch.Tensor], Any]] = {
    **{
        info_name(op): with_sample_arguments(op)
        for op in op_db
        if isinstance(op, UnaryUfuncInfo) and op.name not in LEFT_OUT
    },
    **{
        name: getattr(F, name)
        for name in (
            "relu", "gelu", "silu", "mish", "elu", "celu", "selu", "leaky_relu", "softplus", "logsigmoid",
            "hardsigmoid", "hardswish", "hardtanh", "relu6", "hardshrink", "softshrink", "softsign", "tanhshrink",
        )
    },
    "threshold": lambda t: F.threshold(t, 0.3, 0.1),
    "dropout": lambda t: torch.zeros_like(F.dropout(t, 0.5)) if t.is_floating_point() else t,
    "native_dropout": lambda t: torch.native_dropout(t, 0.0, True) if t.is_floating_point() else t,
    "clone": torch.clone, "contiguous": torch.Tensor.contiguous, "zeros_like": torch.zeros_like,
    "full_like": lambda t: torch.full_like(t, 3), "rand_like": lambda t: torch.zeros_like(torch.rand_like(t.double())),
    "to_int": torch.Tensor.int, "to_double": torch.Tensor.double, "add_number": lambda t: t + 1,
    "number_minus": lambda t: 1 - t, "divide_by_number": lambda t: t / 3, "square_root": lambda t: t**0.5,
    "power": lambda t: t**3, "power_2": lambda t: t**2, "number_to_power": lambda t: 2**t, "equal": lambda t: t == 1,
    "clamp": lambda t: t.clamp(0.2, 0.5), "clamp_min": lambda t: t.clamp_min(0.3),
    "clamp_max": lambda t: t.clamp_max(0.3), "lerp_with_itself": lambda t: torch.lerp(t, t, 0.3),
    "masked_fill": lambda t: t.masked_fill(t > 0.5, 1), "where_number": lambda t: torch.where(t > 0.5, t, 1),
    "cumsum": lambda t: t.cumsum(-1), "flip": lambda t: t.flip(-1), "in_place": lambda t: t.clone().mul_(2),
}  # fmt: skip
BACKWARDS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    **{
        name: getattr(aten, name)
        for name in (
            "sigmoid_backward", "tanh_backward", "silu_backward", "mish_backward", "hardsigmoid_backward",
            "hardswish_backward", "gelu_backward",
        )
    },
    "threshold_backward": lambda g, t: aten.threshold_backward(g, t, 0.3),
    "softplus_backward": lambda g, t: aten.softplus_backward(g, t, 1, 20),
    "leaky_relu_backward": lambda g, t: aten.leaky_relu_backward(g, t, 0.1, False),
    "elu_backward": lambda g, t: aten.elu_backward(g, t, 1, 1, 1, False),
    "hardtanh_backward": lambda g, t: aten.hardtanh_backward(g, t, 0.2, 0.5),
    "hardshrink_backward": lambda g, t: aten.hardshrink_backward(g, t, 0.2),
    "native_dropout_backward": lambda g, t: aten.native_dropout_backward(g, t > 0.5, 2.0),
    "mse_loss_backward": lambda g, t: aten.mse_loss_backward(torch.ones_like(g), g, t, 0),
    "mse_loss_backward_mean": lambda g, t: aten.mse_loss_backward(g.new_ones(()), g, t, 1),
    "binary_cross_entropy_backward":
        lambda g, t: aten.binary_cross_entropy_backward(torch.ones_like(g), g, t, None, 0),
}  # fmt: skip
BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    **{info_name(op): op.op for op in op_db if isinstance(op, BinaryUfuncInfo) and op.name not in LEFT_OUT},
    **BACKWARDS,
    "add_scaled": lambda a, b: torch.add(a, b, alpha=2),
    "mse_loss": lambda a, b: F.mse_loss(a, b, reduction="none"),
    "l1_loss": lambda a, b: F.l1_loss(a, b, reduction="none"),
    "binary_cross_entropy": lambda a, b: F.binary_cross_entropy(a, b, reduction="none"),
    "lerp_number": lambda a, b: torch.lerp(a, b, 0.3),
    "where": lambda a, b: torch.where(a > b, a, b),
    "masked_fill": lambda a, b: a.masked_fill(b > 0.5, 1),
    "add_in_place": lambda a, b: a.clone().add_(b),
    "add_other_dtype": lambda a, b: a + b.double(),
}
TERNARY: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Any]] = {
    "addcmul": lambda a, b, c: torch.addcmul(a, b, c, value=2),
    "addcdiv": lambda a, b, c: torch.addcdiv(a, b, c, value=2),
    "lerp": torch.lerp,
    "where": lambda a, b, c: torch.where(a > 0.5, b, c),
    "clamp": torch.clamp,
}
#: Every layout is combined with each of these as the other operand.
PARTNERS = ["contiguous", "channels_last", "expanded", "ambiguous_channels_last", "channels"]
TERNARY_LAYOUTS = ["contiguous", "channels_last", "permuted", "expanded", "ambiguous_channels_last", "row"]


def on(device: torch.device, tensor: torch.Tensor) -> torch.Tensor:
    """The same view of the same memory on the device."""
    memory = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
    return memory.to(device).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def outcome(function: Callable[..., Any], *operands: torch.Tensor) -> list[torch.Tensor] | None:
    """The results of a function; None if it raises."""
    try:
        results = function(*operands)
    except (RuntimeError, ValueError, TypeError):
        return None
    return list(results) if isinstance(results, (tuple, list)) else [results]


def differences(
    device: torch.device, function: Callable[..., Any], layouts: tuple[str, ...], dtype: torch.dtype
) -> list[str]:
    """Returns the differences of the device from the CPU for operands of these layouts."""
    operands = [(IMAGES | OTHERS)[layout](dtype=dtype, seed=seed) for seed, layout in enumerate(layouts)]
    expected = outcome(function, *operands)
    actual = outcome(function, *(on(device, operand) for operand in operands))
    where = " and ".join(layouts)
    if expected is None:  # oneDNN refuses some layouts on the CPU; no answer to compare with
        return []
    if actual is None:
        return [f"{where}: the device raises"]
    found = []
    for a, e in zip(actual, expected, strict=True):
        if a.stride() != e.stride():
            found.append(f"{where}: strides {a.stride()}, on the CPU {e.stride()}")
        try:
            torch.testing.assert_close(a.cpu(), e, equal_nan=True)
        except AssertionError as error:
            found.append(f"{where}: {error}")
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary_operators_lay_results_out_as_the_cpu(device: torch.device, name: str, dtype: torch.dtype) -> None:
    cases = [(layout,) for layout in IMAGES | OTHERS]
    assert not [line for case in cases for line in differences(device, UNARY[name], case, dtype)]


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_binary_operators_lay_results_out_as_the_cpu(device: torch.device, name: str) -> None:
    cases = [*itertools.product(IMAGES, PARTNERS), *itertools.product(PARTNERS, IMAGES)]
    cases += [(layout, layout) for layout in IMAGES | OTHERS]
    cases += [("matrix", "matrix_transposed"), ("matrix_transposed", "matrix_sliced"), ("scalar", "column_transposed")]
    dtype = torch.int64 if name.startswith(("bitwise", "gcd", "lcm", "floor_divide")) else torch.float32
    assert not [line for case in cases for line in differences(device, BINARY[name], case, dtype)]


@pytest.mark.parametrize("name", TERNARY)
def test_ternary_operators_lay_results_out_as_the_cpu(device: torch.device, name: str) -> None:
    cases = itertools.product(TERNARY_LAYOUTS, repeat=3)
    assert not [line for case in cases for line in differences(device, TERNARY[name], case, torch.float32)]


@pytest.mark.parametrize("batch", [0, 1, 2])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("input_last", "weight_last"), [(False, True), (True, False), (True, True)])
def test_convolution_of_volumes_is_laid_out_as_on_cpu(
    device: torch.device, batch: int, transposed: bool, input_last: bool, weight_last: bool
) -> None:
    convolve = torch.nn.functional.conv_transpose3d if transposed else torch.nn.functional.conv3d

    def strides(place: torch.device) -> list[tuple[int, ...]]:
        volume, weight = torch.ones(max(batch, 1), 4, 3, 4, 5), torch.ones(*((4, 5) if transposed else (5, 4)), 3, 3, 3)
        volume = volume.contiguous(memory_format=torch.channels_last_3d) if input_last else volume
        weight = weight.contiguous(memory_format=torch.channels_last_3d) if weight_last else weight
        volume = (volume if batch else volume[0]).to(place).requires_grad_()
        weight = weight.to(place).requires_grad_()
        result = convolve(volume, weight, padding=1)
        gradients = torch.autograd.grad(result.sum(), [volume, weight])
        return [tensor.stride() for tensor in (result, *gradients)]

    assert strides(device) == strides(torch.device("cpu"))
