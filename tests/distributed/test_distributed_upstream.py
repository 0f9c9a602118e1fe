"""PyTorch's own tests of collectives, DDP and FSDP pass on ranks with a device each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import upstream_distributed as upstream
from support import upstream_fsdp
from support.ranks import Ranks

#: Tests that want their tensors, or what a generator of the CPU draws, on the CPU until they move them.
ON_CPU = {
    "test_DistributedSampler_padding",
    "test_all_gather_object_default_pg",
    "test_all_gather_object_subgroup",
    "test_ddp_device",
    "test_gather_object",
    "test_gather_object_subgroup",
    "test_scatter_object_list",
}

#: Tests that do not apply, and why.
LEFT_OUT = {
    "test_barrier": "broadcasts a DoubleTensor, which is on the CPU",
    "test_barrier_full_group": "broadcasts a DoubleTensor, which is on the CPU",
    "test_barrier_group": "broadcasts a DoubleTensor, which is on the CPU",
    "test_ddp_hook_pickling_powerSGD": "torch.load refuses the hook's global by default, on each device",
    "test_ddp_logging_data_cpu": "asks the logger for the backend's name, which it calls custom",
    "test_ddp_logging_data_gpu": "asks the logger for the backend's name, which it calls custom",
    "test_ddp_profiling_torch_profiler": "reads the metadata that NCCL records beside its events",
    "test_ddp_uneven_inputs": "makes hundreds of convolutions of a million pixels",
    "test_barrier_timeout_global": "makes its group from the environment of a launcher",
    "test_monitored_barrier_gloo_rank_0_timeout": "calls ProcessGroup's method, which asks for a backend of the CPU",
    "test_monitored_barrier_allreduce_hang": "makes a group of NCCL",
    "test_monitored_barrier_allreduce_hang_wait_all_ranks": "makes a group of NCCL",
    "test_nccl_high_priority_stream": "takes NCCL's options",
}

#: Tests that PyTorch itself skips on each device, for an issue of its own or for want of torchvision.
SKIPPED = {
    "test_DistributedDataParallel",
    "test_DistributedDataParallel_non_default_stream",
    "test_SyncBatchNorm_process_group",
    "test_barrier_timeout_arg",
    "test_broadcast_object_list",
    "test_compute_bucket_assignment_by_size_sparse_error_with_logger",
    "test_ddp_has_finalized",
    "test_ddp_model_diff_shape_across_ranks",
    "test_ddp_profiling_autograd_profiler",
    "test_ddp_profiling_execution_trace",
    "test_ddp_sync_bn_training_vs_eval",
    "test_new_subgroups",
    "test_new_subgroups_by_enumeration",
}


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    ranks = Ranks(4, MYDEV_DRIVER="host:devices=4")
    yield ranks
    ranks.stop()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in upstream.names() if name not in LEFT_OUT])
def test_upstream(ranks: Ranks, tmp_path: Path, name: str) -> None:
    for folder in ("barrier", "test_dir", "init_dir"):
        (tmp_path / folder).mkdir()
    skipped = set(ranks.run(upstream.run, name, str(tmp_path), name in ON_CPU))
    assert (skipped != {""}) == (name in SKIPPED), skipped
    if name in SKIPPED:
        pytest.skip(f"PyTorch skips this test of its own: {'; '.join(skipped)}")


def test_tests_that_are_left_out_exist() -> None:
    assert {*LEFT_OUT, *ON_CPU, *SKIPPED} <= set(upstream.names())


# --- FSDP -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_ranks() -> Iterator[Ranks]:
    ranks = Ranks(2, MYDEV_DRIVER="host:devices=2")
    yield ranks
    ranks.stop()


@pytest.mark.slow
@pytest.mark.parametrize("before", [True, False], ids=["moved before", "moved after"])
@pytest.mark.parametrize(("model", "options"), upstream_fsdp.COMPARISONS)
def test_fsdp_agrees_with_ddp(two_ranks: Ranks, model: str, options: str, before: bool) -> None:
    two_ranks.run(upstream_fsdp.compare, model, options, before)
