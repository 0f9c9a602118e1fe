"""Graphs that return a result and what reads it out of order, several times or in part: each element is stored."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

pytestmark = pytest.mark.usefixtures("fresh_compiler")


def with_first_set(v: Tensor) -> Tensor:
    doubled = v.repeat(2)
    doubled[0] = 1
    return doubled


def as_halves_of_zeros(v: Tensor) -> Tensor:
    result = v.new_zeros(2 * len(v))
    result[::2] = v
    return result


#: Each function rearranges a result with one dimension of 6 elements.
REARRANGED: dict[str, Callable[[Tensor], Tensor]] = {
    "repeat": lambda v: v.repeat(2),
    "repeat and write": with_first_set,
    "tile": lambda v: v.tile(2, 3),
    "repeat_interleave": lambda v: v.repeat_interleave(2),
    "expand": lambda v: v.expand(3, -1).contiguous(),
    "expand, flat": lambda v: v[:, None].expand(-1, 3).reshape(-1),
    "cat": lambda v: torch.cat([v, v + 1]),
    "stack": lambda v: torch.stack([v, -v], 1).flatten(),
    "roll": lambda v: v.roll(2),
    "flip": lambda v: v.flip(0),
    "as_strided": lambda v: v.as_strided((2, 3), (1, 2)).clone(),
    "as_strided, overlapping": lambda v: v.as_strided((4, 3), (1, 1)).clone(),
    "unfold": lambda v: v.unfold(0, 3, 1).clone(),
    "each other": lambda v: v[::2].clone(),
    "scattered": as_halves_of_zeros,
    "tail": lambda v: v[2:] * 2,
    "transposed": lambda v: v.view(2, 3).t().reshape(-1),
    "upsampled": lambda v: F.interpolate(v[None, None], scale_factor=2).flatten(),
    "padded round": lambda v: F.pad(v[None, None], (2, 1), mode="circular").flatten(),
    "indexed": lambda v: v[torch.arange(12, device=v.device) // 2],
    "indexed round": lambda v: v[torch.arange(12, device=v.device) % 6],
    "outer": lambda v: torch.outer(v, v),
    "kron": lambda v: torch.kron(v, v.new_ones(2)),
}
COMPUTED: dict[str, Callable[[Tensor], Tensor]] = {
    "pointwise": lambda x: x[:, 0].sin(),
    "unrolled reduction": lambda x: x[:, :7].amax(-1),
    "reduction": lambda x: x.sum(-1),
}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["mydev_kernels", "mydev_program"])
@pytest.mark.parametrize("computed", COMPUTED)
def test_a_result_and_what_reads_it_out_of_order(computed: str, backend: str) -> None:
    def function(x: Tensor, rearrange: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        v = COMPUTED[computed](x)
        return v, rearrange(v)

    x = torch.randn(6, 70, generator=torch.Generator().manual_seed(0)).to("mydev")
    for name, rearrange in REARRANGED.items():
        run = torch.compile(lambda x, rearrange=rearrange: function(x, rearrange), backend=backend, fullgraph=True)
        for _ in range(2):  # recorded, and called
            assert_close(run(x), function(x, rearrange), msg=lambda text, name=name: f"{name}: {text}")
        torch._dynamo.reset()
