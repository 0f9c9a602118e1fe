"""Process groups: coalescing, groups and objects, functional collectives, and the choice of the backend."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable
from torch.distributed import distributed_c10d

from support import collective_cases as cases
from support.ranks import TIMEOUT, Ranks, device
from torch_mydev.distributed import BACKEND_NAME

mydev = torch.mydev


# --- coalescing, groups, objects --------------------------------------------------------------------------------------


def coalesce(rank: int, size: int, collective: str) -> None:
    place = device()
    tensors = [torch.full((i + 1,), float(rank), device=place) for i in range(3)]
    with dist.distributed_c10d._coalescing_manager(async_ops=True) as manager:
        if collective == "all_reduce":
            outputs = tensors
            expected = [torch.full((i + 1,), float(sum(range(size)))) for i in range(3)]
            for tensor in tensors:
                dist.all_reduce(tensor)
        elif collective == "all_gather_single":
            outputs = [torch.empty(size * (i + 1), device=place) for i in range(3)]
            expected = [torch.arange(size).repeat_interleave(i + 1).float() for i in range(3)]
            for output, tensor in zip(outputs, tensors, strict=True):
                dist.all_gather_single(output, tensor)
        else:
            outputs = [torch.empty(i + 1, device=place) for i in range(3)]
            expected = [torch.full((i + 1,), float(sum(range(size)))) for i in range(3)]
            for output, tensor in zip(outputs, tensors, strict=True):
                dist.reduce_scatter_single(output, tensor.repeat(size))
    manager.wait()
    for output, value in zip(outputs, expected, strict=True):
        cases.check(output, value)


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather_single", "reduce_scatter_single"])
def test_coalescing(group: Ranks, collective: str) -> None:
    cases.run(group, coalesce, collective=collective)


def coalesce_different_collectives(rank: int, size: int) -> None:
    place = device()
    first, second = torch.full((4,), float(rank), device=place), torch.full((4,), float(rank), device=place)
    default = dist.distributed_c10d._get_default_group()
    with dist.distributed_c10d._coalescing_manager(device=place, async_ops=True) as manager:
        default.allreduce([first])
        default.broadcast(second, 1)
    assert len(manager.works) == 1
    manager.works[0].get_future().wait()
    manager.wait()
    cases.check(first, torch.full((4,), float(sum(range(size)))))
    cases.check(second, torch.ones(4))


def test_one_work_stands_for_coalesced_collectives(group: Ranks) -> None:
    cases.run(group, coalesce_different_collectives)


def all_reduce_coalesced(rank: int, size: int) -> None:
    tensors = [torch.ones(count, dtype=torch.int16, device=device()) for count in (3, 0, 5)]
    dist.all_reduce_coalesced(tensors)
    for tensor in tensors:
        cases.check(tensor, torch.full_like(tensor, size, device="cpu"))


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_all_reduce_coalesced(group: Ranks) -> None:
    cases.run(group, all_reduce_coalesced)


def use_new_groups(rank: int, size: int) -> None:
    half = [r for r in range(size) if r % 2 == rank % 2]
    groups = [dist.new_group([r for r in range(size) if r % 2 == parity]) for parity in (0, 1)]
    tensor = torch.full((3,), float(rank), device=device())
    dist.all_reduce(tensor, group=groups[rank % 2])
    cases.check(tensor, torch.full((3,), float(sum(half))))
    dist.destroy_process_group(groups[rank % 2])


def test_new_group(group: Ranks) -> None:
    cases.run(group, use_new_groups)


def leave_a_new_group_at_once(rank: int, size: int) -> None:
    connect = distributed_c10d.ProcessGroupGloo
    store = distributed_c10d._get_default_store()

    def connect_late(*arguments: Any, **options: Any) -> Any:
        engine = connect(*arguments, **options)
        time.sleep(0.3)
        store.set("the last rank is connected", "")
        return engine

    with mock.patch.object(distributed_c10d, "ProcessGroupGloo", connect_late if rank == size - 1 else connect):
        group = dist.new_group()
    assert store.check(["the last rank is connected"])
    dist.destroy_process_group(group)


def test_no_rank_leaves_a_new_group_before_all_are_connected(group: Ranks) -> None:
    cases.run(group, leave_a_new_group_at_once)


def use_split_group(rank: int, size: int) -> None:
    default = dist.distributed_c10d._get_default_group()
    default.bound_device_id = device()  # as init_process_group(device_id=...) does
    try:
        pairs = [[r, r + 1] for r in range(0, size, 2)]
        part = dist.split_group(split_ranks=pairs)
        assert part is not None and part.size() == 2
        tensor = torch.full((3,), float(rank), device=device())
        dist.all_reduce(tensor, group=part)
        cases.check(tensor, torch.full((3,), float(sum(pairs[rank // 2]))))
    finally:
        default.bound_device_id = None


def test_split_group(group: Ranks) -> None:
    cases.run(group, use_split_group)


def share_objects(rank: int, size: int) -> None:
    gathered: list[Any] = [None] * size
    dist.all_gather_object(gathered, {"rank": rank})
    assert gathered == [{"rank": r} for r in range(size)]
    objects = [("from", rank)]
    dist.broadcast_object_list(objects, src=1)
    assert objects == [("from", 1)]
    part: list[Any] = [None]
    dist.scatter_object_list(part, [f"part {r}" for r in range(size)] if rank == 0 else None, src=0)
    assert part == [f"part {rank}"]
    collected: list[Any] | None = [None] * size if rank == 0 else None
    dist.gather_object(rank, collected)
    assert collected in (None, list(range(size)))
    if rank == 0:
        dist.send_object_list(["one", 2], 1)
    elif rank == 1:
        received: list[Any] = [None, None]
        dist.recv_object_list(received, 0)
        assert received == ["one", 2]


def test_objects(group: Ranks) -> None:
    cases.run(group, share_objects)


def wait_at_barriers(rank: int, size: int) -> None:
    dist.barrier()
    dist.barrier(async_op=True).wait()
    dist.barrier(device_ids=[device().index])
    dist.monitored_barrier()
    dist.monitored_barrier(timeout=TIMEOUT, wait_all_ranks=True)


def test_barriers(group: Ranks) -> None:
    cases.run(group, wait_at_barriers)


def miss_a_monitored_barrier(rank: int, size: int) -> None:
    part = dist.new_group(list(range(size)))
    if rank == 0:
        with pytest.raises(RuntimeError, match=f"Rank {size - 1} failed to pass monitoredBarrier in 50 ms"):
            dist.monitored_barrier(part, timeout=timedelta(milliseconds=50))
    elif rank < size - 1:
        with pytest.raises(RuntimeError, match="monitoredBarrier"):
            dist.monitored_barrier(part, timeout=timedelta(milliseconds=50))
    dist.barrier()


def test_monitored_barrier_names_the_rank_that_is_missing(group: Ranks) -> None:
    cases.run(group, miss_a_monitored_barrier)


# --- functional collectives -------------------------------------------------------------------------------------------


def functional_values(rank: int, size: int) -> None:
    tensor = torch.full((2 * size,), float(rank), device=device())
    world = dist.distributed_c10d._get_default_group()
    cases.check(functional.all_reduce(tensor, "sum", world) + 0, torch.full((2 * size,), float(sum(range(size)))))
    cases.check(
        functional.all_gather_tensor(tensor, 0, world) + 0, torch.arange(size).repeat_interleave(2 * size).float()
    )
    cases.check(
        functional.reduce_scatter_tensor(tensor, "avg", 0, world) + 0, torch.full((2,), sum(range(size)) / size)
    )
    cases.check(
        functional.all_to_all_single(tensor, None, None, world) + 0, torch.arange(size).repeat_interleave(2).float()
    )


def test_functional_collectives(group: Ranks) -> None:
    cases.run(group, functional_values)


def functional_gradients(rank: int, size: int, collective: str) -> None:
    leaf = torch.full((size,), float(rank + 1), device=device(), requires_grad=True)
    world = dist.distributed_c10d._get_default_group()
    calls = {
        "all_reduce": lambda: differentiable.all_reduce(leaf.clone()),
        "all_gather": lambda: torch.stack(differentiable.all_gather(leaf)),
        "all_to_all_single": lambda: differentiable.all_to_all_single(torch.empty_like(leaf), leaf),
        "reduce_scatter": lambda: differentiable.reduce_scatter(leaf.new_empty(1), list(leaf.split(1))),
        "broadcast": lambda: differentiable.broadcast(leaf, 1),
        "all_gather_tensor_autograd": lambda: functional.all_gather_tensor_autograd(leaf, 0, world),
        "all_to_all_single_autograd": lambda: functional.all_to_all_single_autograd(leaf, None, None, world),
        "reduce_scatter_tensor_autograd": lambda: functional.reduce_scatter_tensor_autograd(leaf, "sum", 0, world),
    }
    (calls[collective]() * (rank + 1)).sum().backward()
    weights = torch.arange(1.0, size + 1)
    total = weights.sum().expand(size)
    if collective.startswith(("all_to_all", "reduce_scatter")):  # each element goes to the rank of its number
        cases.check(leaf.grad, weights)
    elif collective == "broadcast":
        cases.check(leaf.grad, total if rank == 1 else torch.zeros(size))
    else:
        cases.check(leaf.grad, total)


GRADIENTS = [
    "all_reduce",
    "all_gather",
    "all_to_all_single",
    "reduce_scatter",
    "broadcast",
    "all_gather_tensor_autograd",
    "all_to_all_single_autograd",
    "reduce_scatter_tensor_autograd",
]


@pytest.mark.parametrize("collective", GRADIENTS)
def test_gradients_of_collectives(group: Ranks, collective: str) -> None:
    cases.run(group, functional_gradients, collective=collective)


# --- choosing the backend ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "devices"),
    [
        ("", ["mydev"]),
        ("device_id=torch.device('mydev:0')", ["mydev"]),
        (f"backend='{BACKEND_NAME}'", ["mydev"]),
        (f"backend='cpu:gloo,mydev:{BACKEND_NAME}'", ["cpu", "mydev"]),
        ("backend='mydev_gloo'", ["mydev"]),
        ("backend='gloo'", ["cpu"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_backend_is_chosen(run_python: Any, options: str, devices: list[str]) -> None:
    code = f"""
import torch, torch_mydev, torch.distributed as dist
dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1{"," if options else ""} {options})
for device in {devices}:
    tensor = torch.ones(3, device=device)
    dist.all_reduce(tensor)
    backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device(device))
    print(device, tensor.sum().item(), backend.name())
dist.destroy_process_group()
"""
    result = run_python(code)
    assert result.returncode == 0, result.stderr
    names = {"cpu": "gloo", "mydev": BACKEND_NAME}
    assert result.stdout.split("\n")[:-1] == [f"{device} 3.0 {names[device]}" for device in devices]


def test_a_group_of_gloo_says_which_backend_takes_tensors_of_the_device(run_python: Any) -> None:
    code = """
import torch, torch_mydev, torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
tensor = torch.ones(3, device="mydev")
for group in (None, dist.new_group(backend="gloo")):
    dist.all_reduce(torch.ones(3), group=group)
    dist.barrier(group=group)
    dist.monitored_barrier(group=group)
    for call in (dist.all_reduce, lambda *a, **k: dist.broadcast(*a, 0, **k)):
        try:
            call(tensor, group=group)
        except Exception as error:
            print(str(error).splitlines()[0])
objects = [None]
dist.all_gather_object(objects, "through the CPU")
print(objects, dist.get_backend())
dist.destroy_process_group()
"""
    result = run_python(code)
    assert result.returncode == 0, result.stderr
    *refusals, objects = result.stdout.splitlines()
    assert objects == "['through the CPU'] gloo"
    assert len(refusals) == 4
    for refusal in refusals:
        assert f"ask for '{BACKEND_NAME}', or for 'cpu:gloo,mydev:{BACKEND_NAME}'" in refusal, refusal


def test_vendors_backend_takes_the_place_of_the_default(run_python: Any) -> None:
    code = """
import torch, torch.distributed as dist, torch_mydev
from torch_mydev import distributed
from torch.distributed.distributed_c10d import ProcessGroupGloo

def create_engine(store, rank, size, timeout, group_name, global_ranks):
    return ProcessGroupGloo(store, rank, size, timeout=timeout)

def create(options, backend_options):
    return distributed.over_host_backend(create_engine, options)

distributed.register_backend("acmeccl", create)
dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
print(dist.distributed_c10d._get_default_group()._device_types, dist.get_backend_config())
tensor = torch.ones(3, device="mydev")
dist.all_reduce(tensor)
"""
    result = run_python(code)
    assert result.returncode == 0, result.stderr
    assert "mydev:acmeccl" in result.stdout
