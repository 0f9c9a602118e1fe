"""Collectives on the device against gloo on CPU tensors, and training steps of DistributedDataParallel on the device
against those on the CPU, in the same processes, call by call.

Two ranks on this machine, and then four, run the same turns; rank 0 prints its figures. Each rank computes on one
thread. Training steps are those of two ranks, with the models of tests/support/models.py.

Run from the repository: ``python benchmarks/distributed.py``.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from interleaved import Benchmark, Row, compare_together, repeats_of
from torch.nn.parallel import DistributedDataParallel

import torch_mydev

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from support.models import MODELS, build

RANKS = (2, 4)
TRAINING_STEPS = 10  # in one turn
SIZES = {
    "1 KiB": 1 << 10,
    "8 KiB": 8 << 10,
    "64 KiB": 64 << 10,
    "1 MiB": 1 << 20,
    "16 MiB": 16 << 20,
    "64 MiB": 64 << 20,
}


def all_reduce(nbytes: int, device: str) -> Callable[[], object]:
    tensor = torch.ones(nbytes // 4, device=device)
    return lambda: dist.all_reduce(tensor, dist.ReduceOp.MAX)


def all_gather(nbytes: int, device: str) -> Callable[[], object]:
    tensor = torch.ones(nbytes // 4, device=device)
    output = torch.empty(dist.get_world_size() * nbytes // 4, device=device)
    return lambda: dist.all_gather_single(output, tensor)


def reduce_scatter(nbytes: int, device: str) -> Callable[[], object]:
    tensor = torch.ones(nbytes // 4, device=device)
    output = torch.empty(nbytes // 4 // dist.get_world_size(), device=device)
    return lambda: dist.reduce_scatter_single(output, tensor)


def training_step(model: str, device: str, is_compiled: bool) -> Callable[[], object]:
    """Forward, backward with the averaging of gradients, and the optimizer's step. Each rank has the same batch."""
    example = build(model).to(device)
    parallel = DistributedDataParallel(example.module, gradient_as_bucket_view=True)
    run = torch.compile(parallel) if is_compiled else parallel
    optimizer = example.make_optimizer(example.module.parameters())

    def step() -> None:
        loss = example.loss(run)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def finished(work: Callable[[], object]) -> Callable[[], object]:
    def call() -> None:
        work()
        torch.mydev.synchronize()

    return call


def compare(
    name: str, rival: Callable[[], object], device: Callable[[], object], repeats: int, benchmark: Benchmark
) -> Row:
    lanes = finished(rival), finished(device)
    return compare_together(name, lanes, repeats, benchmark.rounds, lambda: dist.barrier(device_ids=[0]))


def run(rank: int, size: int, rendezvous: str) -> None:
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    backend = f"cpu:gloo,{torch_mydev.device_name}:{torch_mydev.device_name}"
    dist.init_process_group(backend, init_method=f"file://{rendezvous}", rank=rank, world_size=size)
    if rank > 0:  # the table is rank 0's
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    benchmark = Benchmark("distributed", lanes=("gloo", "mydev"))
    for collective in (all_reduce, all_gather, reduce_scatter):
        for amount, nbytes in SIZES.items():
            name = f"{collective.__name__}, {amount}, {size} ranks"
            if benchmark.wants(name):
                lanes = collective(nbytes, "cpu"), collective(nbytes, torch_mydev.device_name)
                benchmark.add(compare(name, *lanes, repeats_of(nbytes), benchmark))
    for model, is_compiled in itertools.product(MODELS if size == RANKS[0] else (), (False, True)):
        name = f"DDP step, {model}, {'compiled' if is_compiled else 'eager'}"
        if benchmark.wants(name):
            lanes = tuple(training_step(model, device, is_compiled) for device in ("cpu", torch_mydev.device_name))
            benchmark.add(compare(name, *lanes, TRAINING_STEPS, benchmark))
    benchmark.print_mean()
    dist.destroy_process_group()


def main() -> None:
    context = multiprocessing.get_context("spawn")
    for size in RANKS:
        with tempfile.TemporaryDirectory() as directory:
            ranks = [context.Process(target=run, args=(rank, size, f"{directory}/rendezvous")) for rank in range(size)]
            for process in ranks:
                process.start()
            for process in ranks:
                process.join()


if __name__ == "__main__":
    main()
