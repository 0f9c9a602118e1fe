"""Random numbers follow their distributions: Kolmogorov-Smirnov for continuous ones, chi-square for discrete ones.

Tests are seeded, so that each passes always or never; each statistic is held against its 99.9 % quantile.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

COUNT = 100_000
#: The 99.9 % quantile of the standard normal distribution.
NORMAL_QUANTILE = 3.0902

Draw = Callable[[torch.Tensor], torch.Tensor]
Function = Callable[[torch.Tensor], torch.Tensor]


def _normal(x: torch.Tensor) -> torch.Tensor:
    return torch.special.ndtr(x)


#: How to fill a tensor of zeros, and the distribution function of what it then holds.
CONTINUOUS: dict[str, tuple[Draw, Function]] = {
    "uniform_": (lambda t: t.uniform_(-2, 3), lambda x: (x + 2) / 5),
    "rand_like": (torch.rand_like, lambda x: x),
    "normal_": (lambda t: t.normal_(1, 2), lambda x: _normal((x - 1) / 2)),
    "randn_like": (torch.randn_like, _normal),
    "normal": (lambda t: torch.normal(t + 3, torch.full_like(t, 0.5)), lambda x: _normal((x - 3) / 0.5)),
    "exponential_": (lambda t: t.exponential_(1.5), lambda x: 1 - torch.exp(-1.5 * x)),
    "cauchy_": (lambda t: t.cauchy_(1, 2), lambda x: torch.atan((x - 1) / 2) / math.pi + 0.5),
    "log_normal_": (lambda t: t.log_normal_(0.3, 0.7), lambda x: _normal((x.log() - 0.3) / 0.7)),
    "_standard_gamma": (lambda t: torch._standard_gamma(t + 2.5), lambda x: torch.special.gammainc(2.5 + 0 * x, x)),
    "_sample_dirichlet": (
        # The first of two coordinates with parameters 1 and 3 has the distribution Beta(1, 3).
        lambda t: torch._sample_dirichlet(torch.stack([t + 1, t + 3], -1))[:, 0],
        lambda x: 1 - (1 - x) ** 3,
    ),
    "rrelu": (
        # rrelu of -1 is minus the slope that was drawn.
        lambda t: -F.rrelu(t - 1, 0.1, 0.9, training=True),
        lambda x: (x - 0.1) / 0.8,
    ),
    "trunc_normal_": (
        lambda t: torch.nn.init.trunc_normal_(t, 0, 1, -1, 2),
        lambda x: (
            (_normal(x) - _normal(-torch.ones_like(x)))
            / float(_normal(torch.tensor(2.0)) - _normal(-torch.tensor(1.0)))
        ),
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_kolmogorov_smirnov(name: str, dtype: torch.dtype, device: torch.device) -> None:
    draw, function = CONTINUOUS[name]
    torch.manual_seed(11)
    drawn = draw(torch.zeros(COUNT, dtype=dtype, device=device))
    assert drawn.dtype == dtype
    assert drawn.device.type == device.type
    wanted = function(drawn.cpu().double().sort()[0])
    steps = torch.arange(COUNT + 1, dtype=torch.float64) / COUNT
    distance = max(float((wanted - steps[:-1]).max()), float((steps[1:] - wanted).max()))
    # Kolmogorov's limit distribution at 99.9 %.
    assert distance < math.sqrt(-math.log(0.001 / 2) / 2 / COUNT)


def _binomial(n: int, p: float) -> list[float]:
    return [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]


WEIGHTS = [0.1, 0.4, 0.0, 0.3, 0.2]

#: How to make numbers from a tensor of zeros, and the probabilities of 0, 1, 2 …; what is beyond is one more class.
DISCRETE: dict[str, tuple[Draw, list[float]]] = {
    "bernoulli_": (lambda t: t.bernoulli_(0.3), [0.7, 0.3]),
    "bernoulli_.Tensor": (lambda t: t.bernoulli_(torch.full((COUNT,), 0.2, device=t.device)), [0.8, 0.2]),
    "bernoulli": (lambda t: torch.bernoulli(t + 0.6), [0.4, 0.6]),
    "random_": (lambda t: t.random_(0, 10), [0.1] * 10),
    "randint_like": (lambda t: torch.randint_like(t, 7), [1 / 7] * 7),
    "randperm": (
        # The last number of a permutation of four.
        lambda t: torch.stack([torch.randperm(4, device=t.device)[-1] for _ in range(2000)]),
        [0.25] * 4,
    ),
    "geometric_": (lambda t: t.geometric_(0.4) - 1, [0.4 * 0.6**k for k in range(12)]),
    "poisson": (lambda t: torch.poisson(t + 2), [math.exp(-2) * 2**k / math.factorial(k) for k in range(9)]),
    "binomial": (lambda t: torch.binomial(t + 6, t + 0.3), _binomial(6, 0.3)),
    "multinomial": (
        lambda t: torch.multinomial(torch.tensor(WEIGHTS, device=t.device), COUNT, replacement=True),
        WEIGHTS,
    ),
    "multinomial without replacement": (
        # The first of two that are drawn from each row.
        lambda t: torch.multinomial(torch.tensor(WEIGHTS, device=t.device).expand(COUNT, 5), 2)[:, 0],
        WEIGHTS,
    ),
    "dropout": (lambda t: (F.dropout(t + 1, 0.25) != 0).float(), [0.25, 0.75]),
    "alpha_dropout": (lambda t: (F.alpha_dropout(t + 1, 0.3, training=True) > 0).float(), [0.3, 0.7]),
    "feature_dropout": (lambda t: (F.dropout1d((t + 1).view(-1, 1, 1), 0.4).flatten() != 0).float(), [0.4, 0.6]),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_chi_square(name: str, device: torch.device) -> None:
    draw, probabilities = DISCRETE[name]
    torch.manual_seed(12)
    drawn = draw(torch.zeros(COUNT, device=device))
    assert drawn.device.type == device.type
    numbers = drawn.cpu().long().clamp(max=len(probabilities))
    assert numbers.min() >= 0
    found = torch.bincount(numbers, minlength=len(probabilities) + 1).double()
    wanted = torch.tensor([*probabilities, max(0.0, 1 - sum(probabilities))], dtype=torch.float64) * len(numbers)
    possible = wanted > 1e-6
    assert found[~possible].sum() == 0
    statistic = float(((found - wanted) ** 2 / wanted)[possible].sum())
    freedom = int(possible.sum()) - 1
    # The quantile of chi-square, as Wilson and Hilferty approximate it.
    spread = 2 / (9 * freedom)
    assert statistic < freedom * (1 - spread + NORMAL_QUANTILE * math.sqrt(spread)) ** 3
