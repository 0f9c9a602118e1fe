"""A model split over ranks: DTensor, tensor, sequence and pipeline parallelism train like one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.testing._internal.distributed._tensor.common_dtensor import (
    DTensorConverter,
    DTensorOpTestBase,
    DTensorTestBase,
    with_comms,
)
from torch.testing._internal.distributed.multi_threaded_pg import _create_threaded_pg

import torch_mydev
from support import ranks
from support.ranks import Ranks
from support.sample_training import (
    STEPS,
    Network,
    Result,
    adamw,
    all_ranks,
    assert_equal_training,
    average,
    batch,
    full_parameters,
    optimize,
    sgd,
    shard_fully,
    single_process,
)

# --- DTensor and tensor parallelism -----------------------------------------------------------------------------------


def device_mesh_facts() -> dict[str, Any]:
    mesh = init_device_mesh(ranks.device().type, (2, 2), mesh_dim_names=("rows", "columns"))
    row = torch.tensor([float(dist.get_rank())], device=ranks.device())
    dist.all_reduce(row, group=mesh.get_group("columns"))
    return {
        "coordinate": tuple(mesh.get_coordinate() or ()),
        "device": mesh.device_type,
        "sum of row": row.item(),
        "size": mesh["rows"].size(),
        "flat": mesh["rows", "columns"]._flatten("all").size(),
    }


def test_device_mesh(four: Ranks) -> None:
    facts = four.run(device_mesh_facts)
    assert [fact["coordinate"] for fact in facts] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [fact["sum of row"] for fact in facts] == [1.0, 1.0, 5.0, 5.0]
    assert [(fact["device"], fact["size"], fact["flat"]) for fact in facts] == [("mydev", 2, 4)] * 4


def redistribute() -> list[Tensor]:
    mesh = all_ranks()
    whole = torch.arange(20.0).view(5, 4)  # 5 rows on 2 ranks: uneven shards
    tensor = distribute_tensor(whole.to(ranks.device()), mesh, [Shard(0)])
    return [
        tensor.full_tensor().cpu(),
        tensor.redistribute(mesh, [Shard(1)]).full_tensor().cpu(),
        tensor.redistribute(mesh, [Replicate()]).to_local().cpu(),
        (tensor @ tensor.T).full_tensor().cpu(),
        tensor.sum(0).full_tensor().cpu(),
        tensor.softmax(0).full_tensor().cpu(),
        distribute_tensor(whole.to(ranks.device()), mesh, [Shard(1)]).to_local().cpu(),
    ]


def test_dtensors_hold_and_compute_the_whole(two: Ranks) -> None:
    whole = torch.arange(20.0).view(5, 4)
    for rank, results in enumerate(two.run(redistribute)):
        expected = [whole, whole, whole, whole @ whole.T, whole.sum(0), whole.softmax(0), whole.chunk(2, 1)[rank]]
        torch.testing.assert_close(results, expected)


def parallelize(block: nn.Module, mesh: dist.DeviceMesh) -> None:
    parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})


def train_whole_batches(model: nn.Module) -> Result:
    """Every rank gets the same batches."""
    optimizer = adamw(model.parameters(), foreach=False)  # which takes no mix of ordinary tensors and DTensors
    losses = []
    for step in range(STEPS):
        inputs, targets = (part.to(ranks.device()) for part in batch(step))
        losses.append(average(optimize(model, optimizer, inputs, targets)))
    return losses, full_parameters(model)


def train_tensor_parallel() -> Result:
    model = Network().to(ranks.device())
    for block in model.blocks:
        parallelize(block, all_ranks())
    return train_whole_batches(model)


def test_tensor_parallel(two: Ranks) -> None:
    assert_equal_training(two.run(train_tensor_parallel), single_process(make_optimizer=adamw))


def train_sequence_parallel() -> Result:
    """Between the inlet and the outlet, each rank has some rows only."""
    mesh, rows = all_ranks(), Shard(0)
    model = Network().to(ranks.device())
    spread = PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=rows)
    collect = PrepareModuleInput(input_layouts=rows, desired_input_layouts=Replicate(), use_local_output=True)
    parallelize_module(model.inlet, mesh, spread)
    parallelize_module(model.outlet, mesh, collect)
    plan = {
        "norm": SequenceParallel(sequence_dim=0),
        "up": ColwiseParallel(input_layouts=rows),
        "down": RowwiseParallel(output_layouts=rows),
    }
    for block in model.blocks:
        parallelize_module(block, mesh, plan)
    return train_whole_batches(model)


def test_sequence_parallel(two: Ranks) -> None:
    assert_equal_training(two.run(train_sequence_parallel), single_process(make_optimizer=adamw))


def train_loss_parallel() -> Result:
    mesh = all_ranks()
    model = Network().to(ranks.device())
    parallelize_module(model.outlet, mesh, ColwiseParallel(output_layouts=Shard(-1), use_local_output=False))
    optimizer = sgd(model.parameters(), foreach=False)
    losses = []
    for step in range(STEPS):
        inputs, targets = (part.to(ranks.device()) for part in batch(step))
        optimizer.zero_grad()
        with loss_parallel():
            loss = nn.functional.cross_entropy(model(inputs), targets)
            loss.backward()
        optimizer.step()
        losses.append(loss.full_tensor().item() if isinstance(loss, DTensor) else loss.item())
    return losses, full_parameters(model)


def test_loss_parallel(two: Ranks) -> None:
    assert_equal_training(two.run(train_loss_parallel), single_process())


def train_two_dimensional() -> Result:
    mesh = init_device_mesh(ranks.device().type, (2, 2), mesh_dim_names=("data", "tensor"))
    model = Network().to(ranks.device())
    for block in model.blocks:
        parallelize(block, mesh["tensor"])
    shard_fully(model, mesh=mesh["data"])
    optimizer = adamw(model.parameters())
    losses = []
    for step in range(STEPS):
        inputs, targets = (part.chunk(2)[mesh["data"].get_local_rank()].to(ranks.device()) for part in batch(step))
        losses.append(average(optimize(model, optimizer, inputs, targets)))
    return losses, full_parameters(model)


def test_fsdp2_over_tensor_parallel(four: Ranks) -> None:
    assert_equal_training(four.run(train_two_dimensional), single_process(make_optimizer=adamw))


# --- pipeline parallelism ---------------------------------------------------------------------------------------------


def stages_of(model: Network, count: int) -> list[nn.Module]:
    layers = [model.inlet, *model.blocks, model.outlet]
    return [nn.Sequential(*layers[i * 4 // count : (i + 1) * 4 // count]) for i in range(count)]


SCHEDULES: dict[str, tuple[type[Any], int]] = {  # and the stages on each rank
    "gpipe": (ScheduleGPipe, 1),
    "1f1b": (Schedule1F1B, 1),
    "interleaved 1f1b": (ScheduleInterleaved1F1B, 2),
}


def train_pipeline(schedule: str) -> tuple[list[float], list[Tensor]]:
    make_schedule, stages_here = SCHEDULES[schedule]
    rank, size = dist.get_rank(), dist.get_world_size()
    modules = [module.to(ranks.device()) for module in stages_of(Network(), size * stages_here)]
    indices = range(rank, size * stages_here, size)
    stages = [PipelineStage(modules[index], index, len(modules), ranks.device()) for index in indices]
    scheduled = make_schedule(
        stages if stages_here > 1 else stages[0], n_microbatches=4, loss_fn=nn.functional.cross_entropy
    )
    parameters = [parameter for index in indices for parameter in modules[index].parameters()]
    optimizer = sgd(parameters)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        inputs, targets = (part.to(ranks.device()) for part in batch(step))
        parts: list[Tensor] = []
        arguments = [inputs] if rank == 0 else []
        if rank == size - 1:
            scheduled.step(*arguments, target=targets, losses=parts)
        else:
            scheduled.step(*arguments)
        optimizer.step()
        losses.append(sum(part.item() for part in parts) / 4)
    return losses, [parameter.detach().cpu() for parameter in parameters]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_pipeline(two: Ranks, schedule: str) -> None:
    expected_losses, expected_state = single_process()
    results = two.run(train_pipeline, schedule)
    torch.testing.assert_close(results[1][0], expected_losses)
    network = Network()
    network.load_state_dict(expected_state)
    stages = stages_of(network, 2 * SCHEDULES[schedule][1])
    for rank, (_, parameters) in enumerate(results):
        expected = [parameter.detach() for stage in stages[rank::2] for parameter in stage.parameters()]
        torch.testing.assert_close(parameters, expected)


# --- PyTorch's own test bases for DTensor ----------------------------------------------------------------------------

OPERATORS: dict[str, tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = {
    "add": (torch.add, ((4, 6), (4, 6))),
    "gelu": (nn.functional.gelu, ((4, 6),)),
    "layer_norm": (lambda x: nn.functional.layer_norm(x, (6,)), ((4, 6),)),
    "log_softmax": (lambda x: nn.functional.log_softmax(x, -1), ((4, 6),)),
    "mm": (torch.mm, ((4, 6), (6, 2))),
    "sum": (lambda x: x.sum(0), ((4, 6),)),
    "transpose": (torch.t, ((4, 6),)),
}


def check_operators(base: Any) -> None:
    """Every operator, over all placements of its operands, gives what it gives for whole tensors."""
    mesh = base.build_device_mesh()
    for name, (operator, shapes) in OPERATORS.items():
        generator = torch.Generator().manual_seed(0)  # ranks may be threads, which share the default one
        arguments = tuple(torch.randn(shape, generator=generator).to(base.device_type) for shape in shapes)
        expected = operator(*arguments)
        converter = DTensorConverter(mesh, arguments, {})
        results = [operator(*sharded).full_tensor() for sharded, _ in converter if converter.successful()]
        assert results
        for result in results:
            torch.testing.assert_close(result, expected, msg=lambda text, n=name: f"{n}: {text}")


class DTensorBaseTest(DTensorTestBase):  # type: ignore[misc]
    """On two ranks, with the backends named as users name them."""

    @property
    def world_size(self) -> int:
        return 2

    @property
    def device_type(self) -> str:  # the CPU, where ranks outnumber devices
        return torch_mydev.device_name

    def destroy_pg(self, device_id: int | None = None) -> None:  # of the device with the rank's number, otherwise
        super().destroy_pg(torch.accelerator.current_device_index())

    @with_comms(
        backend=f"cpu:gloo,{torch_mydev.device_name}:{dist.get_default_backend_for_device(torch_mydev.device_name)}"
    )
    def test_operators_agree_over_all_placements(self) -> None:
        check_operators(self)


@pytest.fixture(autouse=True)
def _restored_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's bases of tests set the variable for good, and errors of child processes would have stack traces."""
    monkeypatch.setenv("TORCH_SHOW_CPP_STACKTRACES", "0")


class DTensorThreadsTest(DTensorOpTestBase):  # type: ignore[misc]
    """On four ranks that are threads of this process; torch's own backend for that is one for the CPU and CUDA."""

    @property
    def world_size(self) -> int:
        return 4

    @property
    def device_type(self) -> str:
        return torch_mydev.device_name

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        dist.Backend.register_backend("threaded", _create_threaded_pg, devices=["cpu", torch_mydev.device_name])

    def test_operators_agree_over_all_placements(self) -> None:
        check_operators(self)
