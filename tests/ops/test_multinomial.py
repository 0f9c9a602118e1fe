"""multinomial: distribution, reproducibility, no sample twice without replacement, and what the CPU refuses."""

from __future__ import annotations

import pytest
import torch

from torch_mydev import fallback_mode

WEIGHTS = torch.tensor([0.1, 0.0, 0.4, 0.5])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_sample_has_the_distribution(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    weights = WEIGHTS.to("mydev", dtype).expand(20000, 4)
    with fallback_mode("error"):
        samples = torch.multinomial(weights, 1)
    assert samples.shape == (20000, 1)
    frequencies = torch.bincount(samples.cpu().flatten(), minlength=4) / 20000
    torch.testing.assert_close(frequencies, WEIGHTS, rtol=0, atol=0.02)


def test_without_replacement_each_is_drawn_once() -> None:
    samples = torch.multinomial(torch.rand(50, 9, device="mydev") + 0.1, 9).cpu()
    assert torch.equal(samples.sort(dim=1).values, torch.arange(9).expand(50, 9))


@pytest.mark.parametrize("samples", [1, 3])
def test_a_seed_gives_the_same_samples_again(samples: int) -> None:
    weights = torch.rand(5, 9, device="mydev")

    def draw(seed: int) -> torch.Tensor:
        generator = torch.Generator("mydev").manual_seed(seed)
        return torch.multinomial(weights, samples, generator=generator).cpu()

    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))


@pytest.mark.parametrize("place", ["cpu", "mydev"])
@pytest.mark.parametrize(
    ("weights", "samples", "message"),
    [
        ([0.5, -0.5, 1.0], 1, "either `inf`, `nan` or element < 0"),
        ([0.5, float("nan"), 1.0], 1, "either `inf`, `nan` or element < 0"),
        ([0.0, 0.0], 1, "sum of probabilities <= 0"),
        ([0.5, 0.5], 3, "cannot sample n_sample > prob_dist.size"),
    ],
)
def test_what_the_cpu_refuses_is_refused(place: str, weights: list[float], samples: int, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        torch.multinomial(torch.tensor(weights, device=place), samples)
