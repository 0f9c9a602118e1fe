"""PyTorch's own comparison of FSDP with DDP, as it is in its wheel, for the ranks of a test.

The module chooses its device while it is imported, and knows CUDA, HPU, XPU and the CPU; ``_load`` reads it with the
device's name and backend in CUDA's place.
"""

from __future__ import annotations

import os
import re
import sys
import types
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import BackwardPrefetch, CPUOffload, MixedPrecision, ShardingStrategy
from torch.testing._internal.common_utils import TestCase

from .upstream_distributed import BACKEND, DEVICE, source

_NAME = "torch.testing._internal.common_fsdp"

#: Classes of the module. The first has parameters that its ranks do not share, the last one weight in two places.
MODELS = ["MixtureOfExperts", "NestedWrappedModule", "TransformerWithSharedParams"]

#: Sharding options, as arguments of the comparison.
OPTIONS: dict[str, dict[str, Any]] = {
    "full shard": {"sharding_strategy": ShardingStrategy.FULL_SHARD},
    "gradients": {"sharding_strategy": ShardingStrategy.SHARD_GRAD_OP},
    "no shard": {"sharding_strategy": ShardingStrategy.NO_SHARD},
    "prefetch before": {"backward_prefetch": BackwardPrefetch.BACKWARD_PRE, "forward_prefetch": True},
    "prefetch after": {"backward_prefetch": BackwardPrefetch.BACKWARD_POST},
    "original parameters": {"use_orig_params": True},
    "offload": {"cpu_offload": CPUOffload(offload_params=True)},
    "bfloat16": {
        "mixed_precision": MixedPrecision(
            param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16, buffer_dtype=torch.bfloat16
        )
    },
}

#: The comparison gives DDP its inputs in half precision where FSDP's are mixed; the transformer's are indices.
COMPARISONS = [
    (model, options)
    for model in MODELS
    for options in OPTIONS
    if (model, options) != ("TransformerWithSharedParams", "bfloat16")
]


def _load() -> types.ModuleType:
    """The module, read as one for the device."""
    name = "translated_common_fsdp"
    if name not in sys.modules:
        text = re.sub(r"\bcuda\b", DEVICE, source(_NAME)).replace('"nccl"', f'"{BACKEND}"')
        text = text.replace("\nif TEST_CUDA:", "\nif True:", 1)
        sys.modules[name] = module = types.ModuleType(name)
        exec(compile(text, name, "exec", dont_inherit=True), module.__dict__)
    return sys.modules[name]


def compare(model: str, options: str, before: bool) -> None:
    """Trains with FSDP and with DDP; they must agree in losses and parameters.

    ``before``: whether the model moves to the device before FSDP has it, or after.
    """
    module = _load()
    case = type("Case", (module.FSDPTestMixin, TestCase), {})()
    case.rank = int(os.environ["RANK"])
    case.process_group = dist.distributed_c10d._get_default_group()
    torch.manual_seed(0)
    case._test_fsdp_parity(
        getattr(module, model),
        module.FSDPInitMode.RECURSIVE,
        module.DEVICEInitMode.DEVICE_BEFORE if before else module.DEVICEInitMode.DEVICE_AFTER,
        ref_init_fn=module.DummyDDP if model == "MixtureOfExperts" else None,
        **OPTIONS[options],
    )
