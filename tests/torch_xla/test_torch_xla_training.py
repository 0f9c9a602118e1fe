"""Training under PyTorch/XLA is as on the CPU, with each optimizer, and what goes with them.

Runs as test_torch_xla.py does, in an environment and in processes of its own.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from processes import results
from training_cases import cases

_CASES = dict(cases())


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("training")


@pytest.mark.parametrize("driver", ["host", "host:remote,async,guarded"])
@pytest.mark.parametrize("name", _CASES)
def test_training_is_as_on_the_cpu(name: str, driver: str, folder: Path) -> None:
    actual = results("training_cases.py", folder, "MYDEV", driver)[name]
    assert not isinstance(actual, str), actual
    torch.testing.assert_close(actual, _CASES[name](torch.device("cpu")))
