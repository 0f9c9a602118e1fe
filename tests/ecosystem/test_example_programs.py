"""Short programs of libraries that need nothing changed: the device computes what the CPU computes."""

from __future__ import annotations

from typing import Any

import pytest

from support.programs import assert_same, program

pytestmark = [pytest.mark.program, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize(
    ("name", "library", "options"),
    [
        ("geometric", "torch_geometric", {}),
        ("metrics", "torchmetrics", {}),
        ("low_rank", "peft", {}),
        ("quantized", "torchao", {"kind": "int8"}),
        ("quantized", "torchao", {"kind": "float8"}),
        ("quantized", "torch", {"kind": "dynamic"}),
        ("mixture_of_experts", "transformers", {"name": "Mixtral"}),
        ("mixture_of_experts", "transformers", {"name": "Qwen3"}),
        ("averaged", "torch", {}),
        ("policy_gradient", "torch", {}),
        ("vision_and_sound", "torchvision", {}),
        ("speech", "torchaudio", {}),
    ],
)
def test_device_agrees_with_the_cpu(name: str, library: str, options: dict[str, Any]) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed; requirements/ecosystem.txt has it")
    run = program(name)
    result = run("mydev", **options)
    assert result["device"] == "mydev:0"
    assert_same(result, run("cpu", **options))
