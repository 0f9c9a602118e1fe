"""Copy-on-write storages, which torch._lazy_clone() makes: shared until written, by whatever operator and thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

Operator = Callable[[torch.Tensor], object]

is_shared = torch._C._is_cow_tensor

#: Native kernels, core's kernels on the device's memory, and fallbacks.
READS: dict[str, Operator] = {
    "add": lambda t: t + 1,
    "sum": lambda t: t.sum(),
    "mean": lambda t: t.mean(0),
    "var": lambda t: t.var(),
    "argmax": lambda t: t.argmax(),
    "norm": lambda t: t.norm(),
    "matmul": lambda t: t @ t.t(),
    "bmm": lambda t: torch.bmm(t[None], t.t()[None]),
    "linear": lambda t: F.linear(t, t),
    "layer_norm": lambda t: F.layer_norm(t, (4,)),
    "batch_norm": lambda t: F.batch_norm(t, None, None, training=True),
    "softmax": lambda t: t.softmax(-1),
    "gelu": F.gelu,
    "cross_entropy": lambda t: F.cross_entropy(t, torch.tensor([0, 1, 2], device=t.device)),
    "conv1d": lambda t: F.conv1d(t[None], torch.ones(1, 3, 2, device=t.device)),
    "max_pool2d": lambda t: F.max_pool2d(t[None], 2),
    "embedding": lambda t: F.embedding(torch.tensor([1], device=t.device), t),
    "index_select": lambda t: t.index_select(0, torch.tensor([2, 0], device=t.device)),
    "cat": lambda t: torch.cat([t, t]),
    "foreach": lambda t: torch._foreach_add([t], 1.0),
    "where": lambda t: torch.where(t > 1, t, t),
    "to": lambda t: t.to(torch.float64),
    "cpu": lambda t: t.cpu(),
    "item": lambda t: t[0, 0].item(),
    "clone": lambda t: t.clone(),
    "contiguous": lambda t: t.t().contiguous(),
    "copied": lambda t: torch.empty(3, 4, device=t.device).copy_(t),
    "digamma": torch.digamma,
    "sort": lambda t: t.sort(),
    "cumsum": lambda t: t.cumsum(0),
    "flip": lambda t: t.flip(0),
    "equal": lambda t: torch.equal(t, t),
    "repr": repr,
}


def ones(like: torch.Tensor, *sizes: int) -> torch.Tensor:
    return torch.ones(sizes or like.shape, device=like.device)


WRITES: dict[str, Operator] = {
    "add_": lambda t: t.add_(1),
    "fill_": lambda t: t.fill_(7),
    "zero_": lambda t: t.zero_(),
    "copy_": lambda t: t.copy_(ones(t)),
    "copy_ from the CPU": lambda t: t.copy_(torch.ones(3, 4)),
    "of a view": lambda t: t[0].mul_(2),
    "setitem": lambda t: t.__setitem__(0, 5.0),
    "relu_": lambda t: t.sub_(3).relu_(),
    "normal_": lambda t: t.normal_(),
    "add.out": lambda t: torch.add(ones(t), 1, out=t),
    "sum.out": lambda t: torch.sum(ones(t, 2, 3, 4), 0, out=t),
    "mm.out": lambda t: torch.mm(ones(t, 3, 2), ones(t, 2, 4), out=t),
    "cat.out": lambda t: torch.cat([ones(t, 1, 4), ones(t, 2, 4)], out=t),
    "softmax.out": lambda t: torch.softmax(ones(t), -1, out=t),
    "foreach": lambda t: torch._foreach_add_([t], 1.0),
    "running statistics": lambda t: F.batch_norm(ones(t), t[0], t[1], training=True),
    "cumsum_": lambda t: t.cumsum_(0),
    "erfinv_": lambda t: t.erfinv_(),
    "index_put_": lambda t: t.index_put_((torch.tensor([0], device=t.device),), ones(t, 4)),
    "masked_fill_": lambda t: t.masked_fill_(t > 2, 0.0),
    "sort.out": lambda t: torch.sort(ones(t), out=(t, torch.empty(3, 4, dtype=torch.int64, device=t.device))),
    "resize_": lambda t: t.resize_(100),
    "storage.fill_": lambda t: t.untyped_storage().fill_(0),
    "data_ptr": lambda t: t.data_ptr(),
}


@pytest.fixture
def values() -> torch.Tensor:
    return torch.arange(12.0).reshape(3, 4)


def test_a_lazy_clone_shares_memory(device: torch.device, values: torch.Tensor) -> None:
    base = values.to(device)[:, ::2]
    clone = torch._lazy_clone(base)
    assert is_shared(base)
    assert is_shared(clone)
    assert clone.stride() == base.stride()
    assert torch._C._data_address(clone) == torch._C._data_address(base)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_reading_keeps_memory_shared(device: torch.device, values: torch.Tensor, read: Operator) -> None:
    base = values.to(device)
    clone = torch._lazy_clone(base)
    read(clone)
    assert is_shared(clone)
    assert is_shared(base)
    torch.testing.assert_close(clone.cpu(), values)


@pytest.mark.parametrize("written", ["clone", "base"])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_writing_parts_the_tensors(device: torch.device, values: torch.Tensor, write: Operator, written: str) -> None:
    base = values.to(device)
    clone = torch._lazy_clone(base)
    one, other = (clone, base) if written == "clone" else (base, clone)
    write(one)
    assert not is_shared(one)
    torch.testing.assert_close(other.cpu(), values)


def test_the_last_one_keeps_the_memory(device: torch.device, values: torch.Tensor) -> None:
    base = values.to(device)
    address = torch._C._data_address(base)
    clones = [torch._lazy_clone(base) for _ in range(3)]
    del base
    for clone in clones[:2]:
        clone.add_(1)
    clones[2].add_(2)
    assert clones[2].data_ptr() == address
    torch.testing.assert_close([clone.cpu() for clone in clones], [values + 1, values + 1, values + 2])


def test_operands_that_share_memory_with_the_result(device: torch.device, values: torch.Tensor) -> None:
    base = values.to(device)
    clone = torch._lazy_clone(base)
    clone.add_(base).mul_(clone)
    torch.testing.assert_close(clone.cpu(), (2 * values).square())
    torch.testing.assert_close(base.cpu(), values)


def test_memory_is_given_back(device: torch.device) -> None:
    before = torch.mydev.memory_allocated()  # type: ignore[attr-defined]
    base = torch.ones(1 << 16, device=device)
    clones = [torch._lazy_clone(base) for _ in range(4)]
    clones[1].add_(1)
    clones[2].cumsum_(0)
    del base, clones
    torch.mydev.synchronize()  # type: ignore[attr-defined]
    assert torch.mydev.memory_allocated() == before  # type: ignore[attr-defined]


def test_threads_that_write_their_clones(device: torch.device) -> None:
    base = torch.zeros(4096, device=device)
    clones = [torch._lazy_clone(base) for _ in range(8)]
    start = threading.Barrier(len(clones))

    def write(clone: torch.Tensor, number: int) -> None:
        start.wait()
        with torch.mydev.stream(torch.mydev.Stream()):  # type: ignore[attr-defined]
            clone.add_(number)
            torch.mydev.current_stream().synchronize()  # type: ignore[attr-defined]

    threads = [threading.Thread(target=write, args=(clone, number)) for number, clone in enumerate(clones, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, clone in enumerate(clones, 1):
        torch.testing.assert_close(clone.cpu(), torch.full((4096,), float(number)))
    torch.testing.assert_close(base.cpu(), torch.zeros(4096))


def test_each_on_its_own_device(values: torch.Tensor) -> None:
    last = torch.device("mydev", torch.mydev.device_count() - 1)  # type: ignore[attr-defined]
    base = values.to(last)
    clone = torch._lazy_clone(base)
    clone.add_(1)
    assert clone.device == last
    torch.testing.assert_close([clone.cpu(), base.cpu()], [values + 1, values])
