"""Tensors of more than 2^31 elements, in types of one byte: positions beyond what 32 bits hold.

The values are known, so that nothing is computed on the CPU. One process at a time has such tensors.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

pytestmark = [pytest.mark.any_driver, pytest.mark.slow]

COUNT = 2**31 + 64
LAST = COUNT - 3  # where the one value is, 5
GIBIBYTES = 10  # that must be free


@pytest.fixture
def alone() -> Iterator[None]:
    """Waits until no other process of the tests has large tensors."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    kibibytes = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    if kibibytes < GIBIBYTES << 20:
        pytest.skip(f"needs {GIBIBYTES} GiB of free memory")
    with (Path(tempfile.gettempdir()) / f"mydev-large-{os.getuid()}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
        torch.accelerator.empty_cache()


@pytest.fixture
def x(alone: None, device: torch.device) -> Tensor:
    """Zeros, and one 5 beyond 2^31."""
    x = torch.zeros(COUNT, dtype=torch.int8, device=device)
    x[LAST] = 5
    return x


def last_and_first(result: Tensor) -> list[object]:
    return [*result[LAST - 1 :].tolist(), *result[:2].tolist()]


#: For each name: a call, and its result.
NUMBERS: dict[str, tuple[Callable[[Tensor], Tensor], object]] = {
    "sum": (lambda x: x.sum(), 5),
    "sum of a dtype": (lambda x: x.sum(dtype=torch.float32), 5),
    "max": (lambda x: x.max(), 5),
    "amin": (lambda x: x.amin(), 0),
    "argmax": (lambda x: x.argmax(), LAST),
    "any": (lambda x: x.any(), True),
    "all": (lambda x: (x >= 0).all(), True),
    "count_nonzero": (lambda x: x.count_nonzero(), 1),
    "nonzero": (lambda x: x.nonzero(), [[LAST]]),
    "masked_select": (lambda x: x[x > 0], [5]),
    "index_select": (lambda x: x.index_select(0, torch.tensor([LAST, 0, COUNT - 1], device=x.device)), [5, 0, 0]),
    "advanced index": (lambda x: x[torch.tensor([LAST, -3], device=x.device)], [5, 5]),
    "gather": (lambda x: x.gather(0, torch.tensor([LAST, 1], device=x.device)), [5, 0]),
    "take": (lambda x: x.take(torch.tensor([LAST, 1], device=x.device)), [5, 0]),
    "strided": (lambda x: x[1 :: 2**30].clone(), [0, 0, 0]),
    "copy to the CPU": (lambda x: x[LAST - 1 :].cpu(), [0, 5, 0, 0]),
    "rows": (lambda x: x.view(2, -1).sum(1), [0, 5]),
    "columns": (lambda x: x.view(-1, 2).sum(0), [0, 5] if LAST % 2 else [5, 0]),
    "amax of rows": (lambda x: x.view(-1, 32).amax(0)[LAST % 32 - 1 : LAST % 32 + 1], [0, 5]),
    "equal": (lambda x: torch.tensor(torch.equal(x, x)), True),
    "expanded": (lambda x: x[LAST - 1 : LAST].expand(COUNT).sum(), 0),
    "two dimensions, transposed": (lambda x: x.view(-1, 2).t().sum(1), [0, 5] if LAST % 2 else [5, 0]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_reads_beyond_2_31(name: str, x: Tensor) -> None:
    call, expected = NUMBERS[name]
    assert call(x).tolist() == expected


#: Results as large as their operand: its elements from LAST - 1 on, then the first two.
WHOLE: dict[str, tuple[Callable[[Tensor], Tensor], list[object]]] = {
    "add": (lambda x: x + x, [0, 10, 0, 0, 0, 0]),
    "add of a number, in place": (lambda x: x.add_(1), [1, 6, 1, 1, 1, 1]),
    "comparison": (lambda x: x == 5, [False, True, False, False, False, False]),
    "where": (lambda x: torch.where(x > 0, x, 2), [2, 5, 2, 2, 2, 2]),
    "to bool": (lambda x: x.to(torch.bool), [False, True, False, False, False, False]),
    "clone": (lambda x: x.clone(), [0, 5, 0, 0, 0, 0]),
    "fill_": (lambda x: x.fill_(3), [3] * 6),
    "masked_fill_": (lambda x: x.masked_fill_(x == 0, 1), [1, 5, 1, 1, 1, 1]),
    "index_put_": (
        lambda x: x.index_put_((torch.tensor([-4], device=x.device),), x[LAST:][:1].clone()),
        [5, 5, 0, 0, 0, 0],
    ),
    "index_fill_": (lambda x: x.index_fill_(0, torch.tensor([COUNT - 1], device=x.device), 9), [0, 5, 0, 9, 0, 0]),
    "scatter_": (lambda x: x.scatter_(0, torch.tensor([COUNT - 1], device=x.device), 9), [0, 5, 0, 9, 0, 0]),
    "flip": (lambda x: x.flip(0).flip(0), [0, 5, 0, 0, 0, 0]),
    "roll": (lambda x: x.roll(1), [0, 0, 5, 0, 0, 0]),
    "cat": (lambda x: torch.cat([x[:2], x])[2:], [0, 5, 0, 0, 0, 0]),
    "transposed": (lambda x: x.view(-1, 2).t().contiguous().view(2, -1).t().flatten(), [0, 5, 0, 0, 0, 0]),
    "cumsum": (lambda x: x.cumsum(0, dtype=torch.int8), [0, 5, 5, 5, 0, 0]),
    "pad": (lambda x: torch.nn.functional.pad(x, (1, 0), value=7)[1:], [0, 5, 0, 0, 0, 0]),
    "tril": (lambda x: x.view(-1, 2).tril().flatten(), [0, 5, 0, 0, 0, 0]),
    "bitwise": (lambda x: x ^ 1, [1, 4, 1, 1, 1, 1]),
    "copy of a view": (lambda x: x.clone().copy_(x.view(-1, 2).flip(0).flip(0).view(-1)), [0, 5, 0, 0, 0, 0]),
    "from the CPU": (lambda x: torch.zeros(COUNT, dtype=torch.int8).to(x.device), [0] * 6),
}


@pytest.mark.parametrize("name", WHOLE)
def test_writes_beyond_2_31(name: str, x: Tensor) -> None:
    call, expected = WHOLE[name]
    assert last_and_first(call(x)) == expected


def test_random_numbers_beyond_2_31(alone: None, device: torch.device) -> None:
    x = torch.empty(COUNT, dtype=torch.int8, device=device).random_(1, 3)
    assert set(x[-64:].tolist()) == {1, 2}


def test_compiled_beyond_2_31(x: Tensor) -> None:
    result = torch.compile(lambda x: torch.where(x > 0, x * 2 + 1, x), backend="mydev_program")(x)
    assert last_and_first(result) == [0, 11, 0, 0, 0, 0]
