"""PyTorch's own tests of collectives and DDP, as they are in its wheel, for the ranks of a test.

They are written for CUDA with NCCL and for the CPU with gloo. ``translated`` reads them as tests of the device. Its
name stands for CUDA's, its backend's for NCCL's and gloo's. Tensors are made on it where no device is named. Marks that
leave tests out for want of GPUs are without effect. Each runs in a process group of its own.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import sys
import tempfile
import types
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist

import torch_mydev

from .ranks import TIMEOUT

DEVICE = torch_mydev.device_name
BACKEND = dist.get_default_backend_for_device(DEVICE)
_NAME = "torch.testing._internal.distributed.distributed_test"


def source(name: str = _NAME) -> str:
    """Source text of a module, which is not imported."""
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).read_text(encoding="utf-8")


def names() -> list[str]:
    """Names of all tests of the base class, in alphabetical order."""
    classes = [node for node in ast.walk(ast.parse(source())) if isinstance(node, ast.ClassDef)]
    (base,) = [node for node in classes if node.name == "_DistTestBase"]
    functions = {node.name for node in base.body if isinstance(node, ast.FunctionDef)}
    return sorted(name for name in functions if name.startswith("test_"))


def translated() -> str:
    text = source().replace("from torch.cuda.amp import autocast, GradScaler", "")
    text = re.sub(r"\bcuda\b", DEVICE, text)
    for backend in ("nccl", "gloo"):
        text = text.replace(f'"{backend}"', f'"{BACKEND}"')
    # The first rank removes the file that it made as soon as it is done, also under ranks that have yet to read it.
    # Here it goes with the test's folder.
    text = text.replace("            os.remove(name)\n", "            pass\n", 1)
    # Conditions that hold for all tests of a wheel of the CPU's; torchvision's may hold.
    text = text.replace(
        "skipIfNoTorchVision = skip_but_pass_in_sandcastle_if(", "skipIfNoTorchVision = unittest.skipIf("
    )
    return text.replace("\nBACKEND = ", "\nglobals().update(REPLACED)\nBACKEND = ", 1)


def _always(*arguments: Any) -> Any:
    """A decorator, or what makes one, that lets the test run."""
    return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else lambda test: test


_CONDITIONS = (
    "nccl_skip_if_lt_x_gpu",
    "require_n_gpus_for_nccl_backend",
    "requires_nccl_version",
    "skip_but_pass_in_sandcastle",
    "skip_but_pass_in_sandcastle_if",
    "skip_if_lt_x_gpu",
    "skip_if_no_gpu",
    "skip_if_rocm_multiprocess",
    "skip_if_small_worldsize",
)


def _replaced() -> dict[str, Any]:
    return {
        **dict.fromkeys(_CONDITIONS, _always),
        "autocast": lambda **options: torch.autocast(DEVICE, **options),
        "GradScaler": lambda **options: torch.amp.GradScaler(DEVICE, **options),
        "init_multigpu_helper": lambda size, backend: {rank: [rank] for rank in range(size)},
        "unittest": unittest,
    }


def _load() -> types.ModuleType:
    """The tests, in a module of this process."""
    name = "translated_distributed_test"
    if name not in sys.modules:
        from torch.testing._internal.common_distributed import DistTestCases

        os.environ.update(BACKEND=BACKEND, MASTER_ADDR="127.0.0.1")
        for feature in (
            *DistTestCases.backend_feature.values(),
            DistTestCases.backend_feature.setdefault(DEVICE, set()),
        ):
            feature.add(BACKEND)
        sys.modules[name] = module = types.ModuleType(name)
        module.__dict__["REPLACED"] = _replaced()
        exec(compile(translated(), name, "exec", dont_inherit=True), module.__dict__)
    return sys.modules[name]


def run(name: str, folder: str, on_cpu: bool) -> str:
    """Runs a test, with all its parameters, on this rank; returns why it was skipped, or nothing.

    ``on_cpu``: where it makes its tensors.
    """
    module = _load()
    module.Barrier.barrier_id = 0
    cases = type("Case", (module.TestDistBackend, module.DistributedTest._DistTestBase), {})
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.accelerator.set_device_index(rank)
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group(BACKEND, init_method=f"file://{folder}/store", rank=rank, world_size=size, timeout=TIMEOUT)
    torch.set_default_device(None if on_cpu else DEVICE)
    try:
        with mock.patch.dict(os.environ, TEMP_DIR=folder), mock.patch.object(tempfile, "tempdir", folder):
            case_names = [name] if hasattr(cases, name) else [x for x in dir(cases) if x.startswith(f"{name}_")]
            assert case_names, f"there is no test {name}"
            for case_name in case_names:
                case = cases(case_name)
                case.rank, case.file_name = rank, os.path.join(folder, "file")
                torch.manual_seed(0)
                getattr(case, case_name)()
    except unittest.SkipTest as skip:
        return str(skip)
    finally:
        torch.set_default_device(None)
        dist.set_debug_level_from_env()
    return ""
