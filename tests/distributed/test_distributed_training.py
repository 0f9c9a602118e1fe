"""Data parallelism: DDP, FSDP and sharded optimizers train like one process, loss by loss."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffload,
    CPUOffloadPolicy,
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    StateDictType,
)
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_

from support import ranks
from support.checkout import ROOT, environment
from support.ranks import Ranks
from support.sample_training import (
    STEPS,
    Block,
    Network,
    Result,
    adamw,
    all_ranks,
    assert_equal_training,
    average,
    batch,
    full_parameters,
    on_cpu,
    optimize,
    sgd,
    shard_fully,
    share,
    single_process,
    train,
)

# --- DDP --------------------------------------------------------------------------------------------------------------

DDP_OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "gradients as bucket views": {"gradient_as_bucket_view": True},
    "static graph": {"static_graph": True},
    "many buckets": {"bucket_cap_mb": 0.0005},
    "find unused": {"find_unused_parameters": True},
}


def train_ddp(options: dict[str, Any]) -> Result:
    model = DistributedDataParallel(Network().to(ranks.device()), **options)
    return train(model, sgd(model.parameters())), on_cpu(model.module.state_dict())


@pytest.mark.parametrize("options", DDP_OPTIONS.values(), ids=DDP_OPTIONS.keys())
def test_ddp(two: Ranks, options: dict[str, Any]) -> None:
    assert_equal_training(two.run(train_ddp, options), single_process())


def test_ddp_on_four_ranks(four: Ranks) -> None:
    assert_equal_training(four.run(train_ddp, {}), single_process())


class Alternating(nn.Module):
    """Uses one of its layers at a time."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([nn.Linear(6, 4), nn.Linear(6, 4)])
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.layers[self.calls % 2](x)


def train_alternating() -> Result:
    model = DistributedDataParallel(Alternating().to(ranks.device()), find_unused_parameters=True)
    return train(model, torch.optim.SGD(model.parameters(), lr=0.1)), on_cpu(model.module.state_dict())


def test_ddp_finds_unused_parameters(two: Ranks) -> None:
    expected = single_process(Alternating(), partial(torch.optim.SGD, lr=0.1))
    assert_equal_training(two.run(train_alternating), expected)


def train_ddp_with_accumulation() -> Result:
    model = DistributedDataParallel(Network().to(ranks.device()))
    optimizer = sgd(model.parameters())
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        (first, second), (first_targets, second_targets) = (part.chunk(2) for part in share(step))
        with model.no_sync():
            loss = nn.functional.cross_entropy(model(first), first_targets) / 2
            loss.backward()
        second_loss = nn.functional.cross_entropy(model(second), second_targets) / 2
        second_loss.backward()
        optimizer.step()
        losses.append(average((loss + second_loss).detach()))
    return losses, on_cpu(model.module.state_dict())


def test_ddp_accumulates_gradients_without_synchronizing(two: Ranks) -> None:
    assert_equal_training(two.run(train_ddp_with_accumulation), single_process())


def average_by_hand(state: None, bucket):  # type: ignore[no-untyped-def]  # DDP refuses annotations that are strings
    future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
    return future.then(lambda done: done.value()[0] / dist.get_world_size())


def train_with_hook(hook: Callable[..., Any]) -> Result:
    model = DistributedDataParallel(Network().to(ranks.device()))
    model.register_comm_hook(None, hook)
    return train(model, sgd(model.parameters())), on_cpu(model.module.state_dict())


@pytest.mark.parametrize("hook", [default_hooks.allreduce_hook, average_by_hand])
def test_communication_hooks(two: Ranks, hook: Callable[..., Any]) -> None:
    assert_equal_training(two.run(train_with_hook, hook), single_process())


def train_in_shares(shares: int, parameter_dtype: torch.dtype, reduce_dtype: torch.dtype) -> Result:
    """Trains in one process as reduced precision means it. Forward and backward of each share use parameters of one
    type; gradients are averaged in another; parameters are updated in float32."""
    model = Network().to(ranks.device())
    optimizer = sgd(model.parameters())
    losses = []
    for step in range(STEPS):
        total = 0.0
        gradients = [torch.zeros_like(parameter, dtype=reduce_dtype) for parameter in model.parameters()]
        for inputs, targets in zip(*(part.to(ranks.device()).chunk(shares) for part in batch(step)), strict=True):
            copy = Network().to(ranks.device(), parameter_dtype)
            copy.load_state_dict(model.state_dict())
            loss = nn.functional.cross_entropy(copy(inputs.to(parameter_dtype)), targets)
            loss.backward()
            total += loss.item() / shares
            for gradient, parameter in zip(gradients, copy.parameters(), strict=True):
                assert parameter.grad is not None
                gradient += parameter.grad.to(reduce_dtype) / shares
        for gradient, parameter in zip(gradients, model.parameters(), strict=True):
            parameter.grad = gradient.to(parameter.dtype)
        optimizer.step()
        losses.append(total)
    return losses, on_cpu(model.state_dict())


COMPRESSING = {torch.float16: default_hooks.fp16_compress_hook, torch.bfloat16: default_hooks.bf16_compress_hook}


@pytest.mark.parametrize("dtype", COMPRESSING, ids=str)
def test_compressing_hooks_average_in_half_precision(two: Ranks, dtype: torch.dtype) -> None:
    expected = two.run(train_in_shares, 2, torch.float32, dtype)[0]
    assert_equal_training(two.run(train_with_hook, COMPRESSING[dtype]), expected)


def train_power_sgd(place: torch.device | None) -> Result:
    """On ``place``, or the rank's device; with this rank's losses."""
    group = dist.new_group(backend="gloo" if place else None)
    with mock.patch("support.ranks.device", return_value=place or ranks.device()):
        model = DistributedDataParallel(Network().to(ranks.device()), process_group=group)
        state = powerSGD_hook.PowerSGDState(group, matrix_approximation_rank=1, start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        optimizer = sgd(model.parameters())
        return [optimize(model, optimizer, *share(step)).item() for step in range(8)], on_cpu(model.module.state_dict())


def test_low_rank_hook_agrees_with_the_cpu(two: Ranks) -> None:
    results, expected = two.run(train_power_sgd, None), two.run(train_power_sgd, torch.device("cpu"))
    for rank in range(2):
        assert_equal_training([results[rank]], expected[rank])


def train_uneven(counts: list[int], divide: bool) -> dict[str, Tensor]:
    model = DistributedDataParallel(Network().to(ranks.device()))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Join([model], divide_by_initial_world_size=divide):
        for step in range(counts[dist.get_rank()]):
            optimize(model, optimizer, *share(step))
    return on_cpu(model.module.state_dict())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("divide", [True, False], ids=["by all", "by those with inputs"])
def test_ddp_with_uneven_inputs(group: Ranks, seed: int, divide: bool) -> None:
    """A rank without inputs adds nothing to the gradient, which is divided by the ranks that there are, or by those
    that have inputs."""
    counts = [random.Random(10 * seed + rank).randint(0 if rank else 1, 4) for rank in range(group.size)]
    network = Network()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(max(counts)):
        shares = list(zip(*(part.chunk(group.size) for part in batch(step)), strict=True))
        active = [share for share, count in zip(shares, counts, strict=True) if step < count]
        optimizer.zero_grad()
        for inputs, targets in active:
            loss = nn.functional.cross_entropy(network(inputs), targets)
            (loss / (group.size if divide else len(active))).backward()
        optimizer.step()
    for state in group.run(train_uneven, counts, divide):
        torch.testing.assert_close(state, dict(network.state_dict()))


class Normalized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return out


def train_sync_batch_norm() -> Result:
    network = nn.SyncBatchNorm.convert_sync_batchnorm(Normalized()).to(ranks.device())
    model = DistributedDataParallel(network)
    return train(model, sgd(model.parameters())), on_cpu(model.module.state_dict())


def test_sync_batch_norm_equals_batch_norm_of_the_whole_batch(two: Ranks) -> None:
    assert_equal_training(two.run(train_sync_batch_norm), single_process(Normalized()))


# --- ZeroRedundancyOptimizer ------------------------------------------------------------------------------------------


def train_zero() -> tuple[Result, int]:
    model = DistributedDataParallel(Network().to(ranks.device()))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-2)
    losses = train(model, optimizer)
    optimizer.consolidate_state_dict(to=0)
    states = len(optimizer.state_dict()["state"]) if dist.get_rank() == 0 else 0
    return (losses, on_cpu(model.module.state_dict())), states


def test_zero_redundancy_optimizer(two: Ranks) -> None:
    results = two.run(train_zero)
    assert_equal_training([result for result, _ in results], single_process(make_optimizer=adamw))
    assert results[0][1] == len(list(Network().parameters()))


# --- FSDP2 ------------------------------------------------------------------------------------------------------------


def train_fsdp2(options: dict[str, Any], optimizer_options: dict[str, Any]) -> Result:
    model = Network() if "offload_policy" in options else Network().to(ranks.device())
    shard_fully(model, mesh=all_ranks(), **options)
    return train(model, adamw(model.parameters(), **optimizer_options)), full_parameters(model)


FSDP2_OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "default": ({}, {}),
    "parameters kept after forward": ({"reshard_after_forward": False}, {}),
    "fused optimizer": ({}, {"fused": True}),
    "offloaded to the CPU": ({"offload_policy": CPUOffloadPolicy()}, {}),
    "offloaded to pageable memory": ({"offload_policy": CPUOffloadPolicy(pin_memory=False)}, {}),
}


@pytest.mark.parametrize("options", FSDP2_OPTIONS.values(), ids=FSDP2_OPTIONS.keys())
def test_fsdp2(two: Ranks, options: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert_equal_training(two.run(train_fsdp2, *options), single_process(make_optimizer=adamw))


def train_hybrid() -> Result:
    hybrid = init_device_mesh(ranks.device().type, (2, 2), mesh_dim_names=("replicas", "shards"))
    model = shard_fully(Network().to(ranks.device()), mesh=hybrid)
    return train(model, adamw(model.parameters())), full_parameters(model)


def test_fsdp2_sharded_in_groups_and_replicated_between_them(four: Ranks) -> None:
    assert_equal_training(four.run(train_hybrid), single_process(make_optimizer=adamw))


def train_fsdp2_with_accumulation() -> Result:
    model = shard_fully(Network().to(ranks.device()), mesh=all_ranks())
    optimizer = adamw(model.parameters())
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        total = torch.zeros((), device=ranks.device())
        for index, (inputs, targets) in enumerate(zip(*(part.chunk(2) for part in share(step)), strict=True)):
            model.set_requires_gradient_sync(index == 1)
            loss = nn.functional.cross_entropy(model(inputs), targets) / 2
            loss.backward()
            total += loss.detach()
        optimizer.step()
        losses.append(average(total))
    return losses, full_parameters(model)


def test_fsdp2_accumulates_gradients(two: Ranks) -> None:
    assert_equal_training(two.run(train_fsdp2_with_accumulation), single_process(make_optimizer=adamw))


def clipped_norms(model: nn.Module, next_batch: Callable[[int], tuple[Tensor, Tensor]]) -> list[float]:
    optimizer = adamw(model.parameters())
    norms = []
    for step in range(STEPS):
        optimizer.zero_grad()
        inputs, targets = next_batch(step)
        nn.functional.cross_entropy(model(inputs), targets).backward()
        norm = clip_grad_norm_(model.parameters(), 0.5)
        norms.append((norm.full_tensor() if isinstance(norm, DTensor) else norm).item())
        optimizer.step()
    return norms


def clipped_norms_sharded() -> list[float]:
    return clipped_norms(shard_fully(Network().to(ranks.device()), mesh=all_ranks()), share)


def test_fsdp2_clips_the_norm_of_the_whole_gradient(two: Ranks) -> None:
    expected = clipped_norms(Network(), batch)
    for norms in two.run(clipped_norms_sharded):
        torch.testing.assert_close(norms, expected)


def train_fsdp2_in_half_precision() -> Result:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = shard_fully(Network().to(ranks.device()), mesh=all_ranks(), mp_policy=policy)
    optimizer = sgd(model.parameters())
    return train(model, optimizer), full_parameters(model)


def test_fsdp2_in_mixed_precision(two: Ranks) -> None:
    expected = two.run(train_in_shares, 2, torch.bfloat16, torch.float32)[0]
    assert_equal_training(two.run(train_fsdp2_in_half_precision), expected)


def resume_fsdp2() -> Result:
    """Half of the training, the state carried over into a new model and optimizer, and the other half."""
    first = shard_fully(Network().to(ranks.device()), mesh=all_ranks())
    first_optimizer = adamw(first.parameters())
    losses = train(first, first_optimizer, range(2))
    model_state, optimizer_state = get_state_dict(first, first_optimizer)
    second = Network().to(ranks.device())
    nn.init.zeros_(second.inlet.weight)
    shard_fully(second, mesh=all_ranks())
    second_optimizer = adamw(second.parameters())
    set_state_dict(second, second_optimizer, model_state_dict=model_state, optim_state_dict=optimizer_state)
    return losses + train(second, second_optimizer, range(2, STEPS)), full_parameters(second)


def test_fsdp2_state_dicts_carry_a_training_over(two: Ranks) -> None:
    assert_equal_training(two.run(resume_fsdp2), single_process(make_optimizer=adamw))


# --- FSDP1 ------------------------------------------------------------------------------------------------------------


def wrap_fsdp1(**options: Any) -> FullyShardedDataParallel:
    return FullyShardedDataParallel(
        Network().to(ranks.device()),
        device_id=ranks.device(),
        auto_wrap_policy=lambda module, recurse, nonwrapped_numel: recurse or isinstance(module, Block),
        use_orig_params=True,
        **options,
    )


def whole_state(model: FullyShardedDataParallel) -> dict[str, Tensor]:
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT):
        return on_cpu(model.state_dict())


def train_fsdp1(options: dict[str, Any]) -> Result:
    model = wrap_fsdp1(**options)
    return train(model, adamw(model.parameters())), whole_state(model)


FSDP1_OPTIONS: dict[str, dict[str, Any]] = {
    "full shard": {},
    "gradients and optimizer only": {"sharding_strategy": ShardingStrategy.SHARD_GRAD_OP},
    "no shard": {"sharding_strategy": ShardingStrategy.NO_SHARD},
    "offloaded to the CPU": {"cpu_offload": CPUOffload(offload_params=True)},
}


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("options", FSDP1_OPTIONS.values(), ids=FSDP1_OPTIONS.keys())
def test_fsdp1(two: Ranks, options: dict[str, Any]) -> None:
    assert_equal_training(two.run(train_fsdp1, options), single_process(make_optimizer=adamw))


def train_fsdp1_in_half_precision() -> Result:
    model = wrap_fsdp1(mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
    optimizer = sgd(model.parameters())
    return train(model, optimizer), whole_state(model)


def test_fsdp1_in_mixed_precision(two: Ranks) -> None:
    expected = two.run(train_in_shares, 2, torch.bfloat16, torch.float32)[0]
    assert_equal_training(two.run(train_fsdp1_in_half_precision), expected)


def resume_fsdp1() -> Result:
    first = wrap_fsdp1()
    first_optimizer = adamw(first.parameters())
    losses = train(first, first_optimizer, range(2))
    model_state, optimizer_state = get_state_dict(first, first_optimizer)
    second = wrap_fsdp1()
    second_optimizer = adamw(second.parameters())
    set_state_dict(second, second_optimizer, model_state_dict=model_state, optim_state_dict=optimizer_state)
    return losses + train(second, second_optimizer, range(2, STEPS)), whole_state(second)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_fsdp1_state_dicts_carry_a_training_over(two: Ranks) -> None:
    assert_equal_training(two.run(resume_fsdp1), single_process(make_optimizer=adamw))


# --- the demo ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_demo_reaches_the_accuracy_of_one_process() -> None:
    script = ROOT / "examples" / "train_digits_distributed.py"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    result = subprocess.run(
        [*torchrun, str(script), "--rounds=1"],
        env=environment(OMP_NUM_THREADS="1"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert len(re.findall(r"test accuracy +9[89]\.", result.stdout)) == 3
    assert result.stdout.rstrip().endswith("demo: all is well")
