"""Work that several devices do together, in a thread or a process for each: collectives by name, and training on parts
of a batch.

This is a program: ``python device_cases.py FILE`` runs all cases on the devices of MYDEV_DRIVER, or of several
processes, and keeps what each device got.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

Case = Callable[[Tensor, int, int], Tensor]
Expected = Callable[[list[Tensor], int], Tensor]


def given(rank: int) -> Tensor:
    """Returns the eight numbers that a device brings, on the CPU; each device has its own."""
    return torch.arange(8.0).add(10 * rank + 1)


def _in_place(function: Callable[[Tensor], object]) -> Case:
    def case(x: Tensor, rank: int, count: int) -> Tensor:
        result = x.clone()
        function(result)
        return result

    return case


def _gathered(x: Tensor, rank: int, count: int) -> Tensor:
    parts = [torch.zeros_like(x) for _ in range(count)]
    dist.all_gather(parts, x)
    return torch.cat(parts)


def _gathered_at_once(x: Tensor, rank: int, count: int) -> Tensor:
    result = torch.zeros(count * 8, device=x.device)
    dist.all_gather_into_tensor(result, x)
    return result


def _reduced_parts(x: Tensor, rank: int, count: int) -> Tensor:
    result = torch.zeros(8 // count, device=x.device)
    dist.reduce_scatter_tensor(result, x)
    return result


def _reduced_list(x: Tensor, rank: int, count: int) -> Tensor:
    result = torch.zeros(8 // count, device=x.device)
    dist.reduce_scatter(result, list(x.chunk(count)), dist.ReduceOp.MIN)
    return result


def _gathered_by_one(x: Tensor, rank: int, count: int) -> Tensor:
    parts = [torch.zeros_like(x) for _ in range(count)]
    dist.gather(x, parts if rank == 1 else None, dst=1)
    return torch.cat(parts)


def _several(x: Tensor, rank: int, count: int) -> Tensor:
    import torch_xla.core.xla_model as xm

    values = [x.clone(), x[:4] * 2]
    xm.all_reduce(xm.REDUCE_SUM, values)
    return torch.cat(values)


def _exchanged(x: Tensor, rank: int, count: int) -> Tensor:
    result = torch.zeros(8, device=x.device)
    dist.all_to_all_single(result, x)
    return result


def _sums(all_given: list[Tensor], rank: int) -> Tensor:
    return torch.stack(all_given).sum(0)


def _part_of_sums(all_given: list[Tensor], rank: int) -> Tensor:
    return _sums(all_given, rank).chunk(len(all_given))[rank]


def _all(all_given: list[Tensor], rank: int) -> Tensor:
    return torch.cat(all_given)


def _from_each(all_given: list[Tensor], rank: int) -> Tensor:
    return torch.cat([x.chunk(len(all_given))[rank] for x in all_given])


def _of_second(all_given: list[Tensor], rank: int) -> Tensor:
    return all_given[1]


#: The collectives of torch.distributed's backend.
_DISTRIBUTED: dict[str, tuple[Case, Expected]] = {
    "distributed all_reduce": (_in_place(dist.all_reduce), _sums),
    "distributed all_reduce product": (
        _in_place(lambda x: dist.all_reduce(x, dist.ReduceOp.PRODUCT)),
        lambda all_given, rank: torch.stack(all_given).prod(0),
    ),
    "distributed reduce": (
        _in_place(lambda x: dist.reduce(x, 1)),
        lambda all_given, rank: _sums(all_given, rank) if rank == 1 else all_given[rank],
    ),
    "distributed gather": (
        _gathered_by_one,
        lambda all_given, rank: torch.cat(all_given) if rank == 1 else torch.zeros(8 * len(all_given)),
    ),
    "distributed reduce_scatter": (
        _reduced_list,
        lambda all_given, rank: torch.stack(all_given).amin(0).chunk(len(all_given))[rank],
    ),
    "distributed broadcast": (_in_place(lambda x: dist.broadcast(x, 1)), _of_second),
    "distributed all_gather": (_gathered, _all),
    "distributed all_gather_into_tensor": (_gathered_at_once, _all),
    "distributed reduce_scatter_tensor": (_reduced_parts, _part_of_sums),
    "distributed all_to_all_single": (_exchanged, _from_each),
}


def cases() -> dict[str, tuple[Case, Expected]]:
    """Functions on a device, and what one of some number shall get of what all bring."""
    import torch_xla.core.xla_model as xm

    return {
        "all_reduce sum": (lambda x, rank, count: xm.all_reduce(xm.REDUCE_SUM, x), _sums),
        "all_reduce scaled": (
            lambda x, rank, count: xm.all_reduce(xm.REDUCE_SUM, x, scale=0.5),
            lambda all_given, rank: _sums(all_given, rank) / 2,
        ),
        "all_reduce max": (
            lambda x, rank, count: xm.all_reduce(xm.REDUCE_MAX, x),
            lambda all_given, rank: all_given[-1],
        ),
        "all_reduce product": (
            lambda x, rank, count: xm.all_reduce(xm.REDUCE_MUL, x),
            lambda all_given, rank: torch.stack(all_given).prod(0),
        ),
        "all_reduce int64": (
            lambda x, rank, count: xm.all_reduce(xm.REDUCE_SUM, x.long() * 10**12),
            lambda all_given, rank: _sums(all_given, rank).long() * 10**12,
        ),
        "all_reduce float64": (
            lambda x, rank, count: xm.all_reduce(xm.REDUCE_SUM, x.double() / 3),
            lambda all_given, rank: _sums([x.double() / 3 for x in all_given], rank),
        ),
        "all_reduce in groups": (
            lambda x, rank, count: xm.all_reduce(xm.REDUCE_SUM, x, groups=[[i, i + 1] for i in range(0, count, 2)]),
            lambda all_given, rank: all_given[rank] + all_given[rank ^ 1],
        ),
        "all_reduce of several": (
            _several,
            lambda all_given, rank: torch.cat([_sums(all_given, rank), _sums(all_given, rank)[:4] * 2]),
        ),
        "all_gather along columns": (
            lambda x, rank, count: xm.all_gather(x.reshape(2, 4), dim=1),
            lambda all_given, rank: torch.cat([x.reshape(2, 4) for x in all_given], 1),
        ),
        "reduce_scatter along columns": (
            lambda x, rank, count: xm.reduce_scatter(xm.REDUCE_SUM, x.reshape(2, 4), 0.5, 1, count),
            lambda all_given, rank: _sums(all_given, rank).reshape(2, 4).chunk(len(all_given), 1)[rank] / 2,
        ),
        "all_gather": (lambda x, rank, count: xm.all_gather(x), _all),
        "reduce_scatter": (
            lambda x, rank, count: xm.reduce_scatter(xm.REDUCE_SUM, x, scale=1.0, scatter_dim=0, shard_count=count),
            _part_of_sums,
        ),
        # Layouts that are pinned, the default, make a form of it that torch_xla does not turn into StableHLO.
        "all_to_all": (lambda x, rank, count: xm.all_to_all(x, 0, 0, count, pin_layout=False), _from_each),
        "collective_permute": (
            lambda x, rank, count: xm.collective_permute(x, [[i, (i + 1) % count] for i in range(count)]),
            lambda all_given, rank: all_given[rank - 1],
        ),
        "collective_broadcast": (_in_place(lambda x: xm.collective_broadcast([x], root_ordinal=1)), _of_second),
        "mesh_reduce": (
            lambda x, rank, count: torch.tensor(xm.mesh_reduce("sum", rank, sum)),
            lambda all_given, rank: torch.tensor(sum(range(len(all_given)))),
        ),
        **_DISTRIBUTED,
    }


def training(rank: int, count: int, device: torch.device) -> list[float]:
    """The losses of three steps; of several devices, each with its part of the batch. One device is any of torch."""
    generator = torch.Generator().manual_seed(0)
    model = torch.nn.Linear(6, 3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    model.to(device)
    x = torch.randn(8, 6, generator=generator).chunk(count)[rank].to(device)
    labels = torch.arange(8).remainder(3).chunk(count)[rank].to(device)
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        losses.append(_step(optimizer, loss.detach(), count))
    return losses


def _step(optimizer: torch.optim.Optimizer, loss: Tensor, count: int) -> float:
    if count == 1:
        optimizer.step()
        return loss.item()
    import torch_xla.core.xla_model as xm

    xm.optimizer_step(optimizer)  # of gradients that are averaged
    loss = xm.all_reduce(xm.REDUCE_SUM, loss, scale=1 / count)
    xm.mark_step()
    return loss.item()


def run(index: int, path: str) -> None:
    """In the thread or process of a device. A failure ends the process: the others would wait for this device."""
    try:
        _run(path)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def _run(path: str) -> None:
    import torch_xla
    import torch_xla.distributed.xla_backend  # the backend of torch.distributed
    import torch_xla.runtime as xr

    dist.init_process_group("xla", init_method="xla://")  # before ranks are asked for, as torchrun wants it
    rank, count, device = xr.global_ordinal(), xr.world_size(), torch_xla.device()
    results: dict[str, object] = {}
    for name, (function, _) in cases().items():
        result = function(given(rank).to(device), rank, count)
        torch_xla.sync()
        assert isinstance(result, Tensor)
        results[name] = result.cpu()
    results["training"] = training(rank, count, device)
    torch.save(results, f"{path}-{rank}")


def main() -> None:
    import torch_xla

    torch_xla.launch(run, args=(sys.argv[1],))


if __name__ == "__main__":
    main()
