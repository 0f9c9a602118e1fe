"""The model set under PyTorch/XLA: losses, predictions and gradients are those of torch_xla's own CPU device.

Runs as test_torch_xla.py does, in an environment and in processes of its own.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from model_cases import NAMES
from processes import results


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.mark.parametrize("driver", ["host", "host:remote,async,guarded"])
@pytest.mark.parametrize("name", NAMES)
def test_model_is_as_on_the_cpu_forward_and_backward(name: str, driver: str, folder: Path) -> None:
    expected = results("model_cases.py", folder, "CPU", "host")[name]
    actual = results("model_cases.py", folder, "MYDEV", driver)[name]
    assert len(expected) > 2  # gradients too
    torch.testing.assert_close(actual, expected)
