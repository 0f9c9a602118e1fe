"""Random fills and dropout: distribution, reproducibility, and independence of threads and layout."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import torch_mydev

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
FILLS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "uniform": lambda t: t.uniform_(-2, 3),
    "normal": lambda t: t.normal_(1, 2),
    "exponential": lambda t: t.exponential_(1.5),
    "bernoulli": lambda t: t.bernoulli_(0.3),
    "random": lambda t: t.random_(-5, 100),
}
COUNT = 200_000


def filled(name: str, shape: tuple[int, ...], device: torch.device, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    torch.manual_seed(42)
    with torch_mydev.fallback_mode("error"):
        return FILLS[name](torch.empty(shape, dtype=dtype, device=device))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("name", "mean", "std"),
    [
        ("uniform", 0.5, 5 / math.sqrt(12)),
        ("normal", 1.0, 2.0),
        ("exponential", 1 / 1.5, 1 / 1.5),
        ("bernoulli", 0.3, math.sqrt(0.21)),
        ("random", 47.0, math.sqrt((105**2 - 1) / 12)),
    ],
)
def test_moments(name: str, mean: float, std: float, dtype: torch.dtype, device: torch.device) -> None:
    x = filled(name, (COUNT,), device, dtype).double().cpu()
    error = 5 * std / math.sqrt(COUNT)  # five standard errors
    assert abs(x.mean().item() - mean) < error + (0.02 if dtype == torch.bfloat16 else 0)
    assert abs(x.std().item() / std - 1) < 0.02


@pytest.mark.parametrize("name", FILLS)
def test_same_seed_gives_the_same_numbers(name: str, device: torch.device) -> None:
    assert torch.equal(filled(name, (1001,), device).cpu(), filled(name, (1001,), device).cpu())


@pytest.mark.parametrize("name", FILLS)
def test_numbers_go_on(name: str, device: torch.device) -> None:
    first = filled(name, (1000,), device).cpu()
    second = FILLS[name](torch.empty(1000, device=device)).cpu()
    assert not torch.equal(first, second)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", FILLS)
def test_threads_do_not_matter(name: str, dtype: torch.dtype, device: torch.device) -> None:
    threads = torch.get_num_threads()
    expected = filled(name, (COUNT,), device, dtype).cpu()
    try:
        torch.set_num_threads(1)
        alone = filled(name, (COUNT,), device, dtype).cpu()
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(alone, expected)


@pytest.mark.parametrize("name", FILLS)
def test_a_longer_fill_begins_with_the_shorter(name: str, device: torch.device) -> None:
    assert torch.equal(filled(name, (5003,), device)[:1002].cpu(), filled(name, (1002,), device).cpu())


@pytest.mark.parametrize("name", FILLS)
def test_strided_fill(name: str, device: torch.device) -> None:
    base = torch.full((40, 30), -100.0, device=device)
    FILLS[name](base[::2, 3:])
    host = base.cpu()
    assert (host[1::2] == -100).all()
    assert (host[:, :3] == -100).all()
    assert (host[::2, 3:] != -100).all()


@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize("shape", [(0,), (), (1,), (3,), (257, 3)])
def test_any_shape(shape: tuple[int, ...], name: str, device: torch.device) -> None:
    x = filled(name, shape, device)
    assert x.shape == shape
    assert torch.isfinite(x.cpu()).all()


def test_generator_argument_and_state(device: torch.device) -> None:
    generator = torch.Generator(device=device).manual_seed(5)
    state = generator.get_state()
    first = torch.rand(100, device=device, generator=generator).cpu()
    generator.set_state(state)
    assert torch.equal(torch.rand(100, device=device, generator=generator).cpu(), first)


#: Prints a digest of everything that kernels draw.
DRAW = """
import hashlib
import torch, torch_mydev

digest = hashlib.sha256()
device = torch.device(torch_mydev.device_name)
for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8):
    fills = [lambda t: t.random_(), lambda t: t.random_(3, 100), lambda t: t.bernoulli_(0.3)]
    if dtype.is_floating_point:
        fills += [
            lambda t: t.uniform_(-0.3, 1.7),
            lambda t: t.normal_(0.1, 2.3),
            lambda t: t.exponential_(1.7),
            lambda t: torch.dropout(t.uniform_(), 0.3, True),
        ]
    for fill in fills:
        torch.manual_seed(7)
        drawn = fill(torch.empty(70_001, dtype=dtype, device=device)).cpu()
        digest.update(drawn.view(torch.uint8).numpy().tobytes())
print(digest.hexdigest())
"""


@pytest.mark.instruction_sets
def test_instruction_sets_do_not_matter(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    supported = torch_mydev._C.supported_instruction_sets()
    if len(supported) == 1:
        pytest.skip(
            f"the build has kernels for {supported[0]} alone; tools/build.sh -DMYDEV_ISA_VARIANTS=all adds others"
        )
    drawn = {}
    for instruction_set in supported:
        result = run_python(DRAW, MYDEV_ISA=instruction_set)
        assert result.returncode == 0, result.stderr
        drawn[instruction_set] = result.stdout
    assert len(set(drawn.values())) == 1, drawn


#: With seed 0, the word at this offset begins with 24 zeros.
ZERO_OFFSET = 4 * 14_883_995


@pytest.mark.parametrize("rate", [1e-3, 1.0, 50.0, 1e4])
@pytest.mark.parametrize("dtype", FLOATS)
def test_exponential_is_above_zero(dtype: torch.dtype, rate: float, device: torch.device) -> None:
    generator = torch.Generator(device).manual_seed(0)
    generator.set_offset(ZERO_OFFSET)
    drawn = torch.empty(1000, dtype=dtype, device=device).exponential_(rate, generator=generator).cpu()
    assert drawn.min().item() > 0
    if dtype != torch.float64:
        assert drawn[0].item() <= drawn[1:].min().item()


# Each draws from a generator that is not of the device of its tensors.
FOREIGN_GENERATOR: dict[str, Callable[[torch.device, torch.Generator], Any]] = {
    "uniform_": lambda device, generator: torch.ones(3, device=device).uniform_(generator=generator),
    "normal_": lambda device, generator: torch.ones(3, device=device).normal_(generator=generator),
    "exponential_": lambda device, generator: torch.ones(3, device=device).exponential_(generator=generator),
    "geometric_": lambda device, generator: torch.ones(3, device=device).geometric_(0.5, generator=generator),
    "random_": lambda device, generator: torch.ones(3, device=device).random_(generator=generator),
    "bernoulli": lambda device, generator: torch.bernoulli(torch.full((3,), 0.5, device=device), generator=generator),
    "multinomial": lambda device, generator: torch.multinomial(torch.ones(3, device=device), 2, generator=generator),
    "normal": lambda device, generator: torch.normal(torch.zeros(3, device=device), 1.0, generator=generator),
    "poisson": lambda device, generator: torch.poisson(torch.ones(3, device=device), generator=generator),
    "rand": lambda device, generator: torch.rand(3, device=device, generator=generator),
    "randn": lambda device, generator: torch.randn(3, device=device, generator=generator),
    "randint": lambda device, generator: torch.randint(9, (3,), device=device, generator=generator),
    "randperm": lambda device, generator: torch.randperm(3, device=device, generator=generator),
}


@pytest.mark.parametrize("name", FOREIGN_GENERATOR)
def test_generator_of_another_device_type_is_refused(name: str, device: torch.device) -> None:
    cpu = torch.device("cpu")
    for place, generator in ((cpu, device), (device, cpu)):
        with pytest.raises(
            RuntimeError, match=f"Expected a '{place.type}' device type for generator but found '{generator.type}'"
        ):
            FOREIGN_GENERATOR[name](place, torch.Generator(generator))


@pytest.mark.parametrize("name", FOREIGN_GENERATOR)
def test_generator_of_the_device_is_taken(name: str, device: torch.device) -> None:
    first, second = (FOREIGN_GENERATOR[name](device, torch.Generator(device).manual_seed(3)) for _ in range(2))
    assert first.device.type == device.type
    assert torch.equal(first.cpu(), second.cpu())


def test_uniform_stays_inside(device: torch.device) -> None:
    x = torch.rand(1_000_000, device=device).cpu()
    assert x.min() >= 0
    assert x.max() < 1


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool])
def test_random_integers_cover_the_type(dtype: torch.dtype, device: torch.device) -> None:
    torch.manual_seed(0)
    x = torch.empty(100_000, dtype=dtype, device=device).random_().cpu()
    largest = 1 if dtype == torch.bool else torch.iinfo(dtype).max
    assert x.min() >= 0
    assert int(x.max()) > 0.99 * largest


@pytest.mark.parametrize(("low", "high"), [(0, 2), (-3, 4), (0, 2**40), (-(2**62), 2**62)])
def test_randint_in_range(low: int, high: int, device: torch.device) -> None:
    torch.manual_seed(0)
    x = torch.randint(low, high, (10_000,), device=device).cpu()
    assert x.min() >= low
    assert x.max() < high
    assert len(x.unique()) > min(high - low, 9_000) - 1


def test_randperm_is_a_permutation(device: torch.device) -> None:
    assert torch.equal(torch.randperm(100, device=device).sort()[0].cpu(), torch.arange(100))


@pytest.mark.parametrize(
    "fill",
    [
        lambda t: t.uniform_(1, 0),
        lambda t: t.normal_(0, -1),
        lambda t: t.exponential_(0),
        lambda t: t.bernoulli_(2),
        lambda t: t.random_(5, 5),
    ],
)
def test_wrong_parameters_raise_as_on_cpu(fill: Callable[[torch.Tensor], torch.Tensor], device: torch.device) -> None:
    with pytest.raises(RuntimeError) as expected:
        fill(torch.empty(3))
    with pytest.raises(RuntimeError) as actual:
        fill(torch.empty(3, device=device))
    assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]


@pytest.mark.parametrize("dtype", FLOATS)
def test_dropout_keeps_scales_and_differentiates(dtype: torch.dtype, device: torch.device) -> None:
    torch.manual_seed(0)
    x = torch.ones(COUNT, dtype=dtype, device=device, requires_grad=True)
    with torch_mydev.fallback_mode("error"):
        y = F.dropout(x, 0.25)
        y.backward(torch.full_like(y, 2))
    kept = y.detach().cpu() != 0
    assert abs(kept.double().mean().item() - 0.75) < 0.005
    torch.testing.assert_close(y.detach().cpu()[kept], torch.full((int(kept.sum()),), 4 / 3, dtype=dtype))
    assert x.grad is not None
    torch.testing.assert_close(x.grad.cpu(), torch.where(kept, 8 / 3, 0.0).to(dtype))


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_dropout_of_all_or_nothing(p: float, device: torch.device) -> None:
    x = torch.ones(10, device=device)
    torch.testing.assert_close(F.dropout(x, p).cpu(), torch.ones(10) * (1 - p))


def test_dropout_in_evaluation_is_the_identity(device: torch.device) -> None:
    x = torch.ones(10, device=device)
    assert torch.equal(F.dropout(x, 0.5, training=False).cpu(), torch.ones(10))


def test_dropout_keeps_the_layout(device: torch.device) -> None:
    x = torch.ones(2, 3, 4, 5, device=device).contiguous(memory_format=torch.channels_last)
    assert F.dropout(x, 0.5).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize(("low", "high"), [(0, 1), (-9, 9), (0, 0.1), (-3, -1)], ids=str)
def test_uniform_numbers_are_below_their_end(dtype: torch.dtype, low: float, high: float, device: torch.device) -> None:
    torch.manual_seed(0)
    x = torch.empty(200_000, dtype=dtype, device=device).uniform_(low, high).cpu()
    end = torch.tensor(high, dtype=dtype)
    assert x.max() < end
    assert x.max() > end - 0.02 * (high - low)
    assert x.min() >= torch.tensor(low, dtype=dtype)
    assert torch.rand(200_000, dtype=dtype, device=device).max() < 1
