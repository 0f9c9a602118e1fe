"""The programs in examples/ecosystem/, whole, on the CPU and on the device: tools/setup.sh ecosystem, then
python benchmarks/ecosystem.py [part of a name]

A turn is a program's run, from making its model to its last loss: sizes are small, and the host's own work counts.
A program whose library is not installed is left out, with a message.
"""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from interleaved import Benchmark

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from support.programs import program

MOST_ROUNDS = 7  #: since a turn takes a second or so

DEVICES = ({"device": "cpu"}, {"device": "mydev"})
#: Name, program, and what its ``run`` is given in the two lanes.
ROWS: list[tuple[str, str, tuple[dict[str, Any], dict[str, Any]]]] = [
    ("Lightning Trainer", "lightning_trainer", ({"accelerator": "cpu", "devices": 1}, {"devices": 1})),
    ("Lightning Fabric", "lightning_fabric", ({"accelerator": "cpu", "devices": 1}, {"devices": 1})),
    ("transformers Trainer", "trainer", ({"use_cpu": True}, {})),
    ("transformers Trainer, bf16", "trainer", ({"use_cpu": True, "bf16": True}, {"bf16": True})),
    (
        "flex attention, eager",  # without the gradient, which the CPU does not have
        "flexible_attention",
        ({"device": "cpu", "gradient": False}, {"device": "mydev", "gradient": False}),
    ),
    ("PyTorch Geometric", "geometric", DEVICES),
    ("torchmetrics", "metrics", DEVICES),
    ("peft LoRA", "low_rank", DEVICES),
    ("Mixtral", "mixture_of_experts", DEVICES),
    ("Qwen3-MoE", "mixture_of_experts", ({"device": "cpu", "name": "Qwen3"}, {"device": "mydev", "name": "Qwen3"})),
    ("torchao int8", "quantized", DEVICES),
    ("torchao float8", "quantized", ({"device": "cpu", "kind": "float8"}, {"device": "mydev", "kind": "float8"})),
    ("quantize_dynamic", "quantized", ({"device": "cpu", "kind": "dynamic"}, {"device": "mydev", "kind": "dynamic"})),
    ("policy gradient", "policy_gradient", DEVICES),
    ("averaged weights", "averaged", DEVICES),
    ("torchvision, spectra", "vision_and_sound", DEVICES),
    ("torchaudio", "speech", DEVICES),
    ("safetensors, from_pretrained", "straight_to_device", DEVICES),
]


def lane(name: str, arguments: dict[str, Any]) -> Callable[[], None]:
    """Runs a program without what it and its libraries print."""
    run = program(name)
    call = partial(run, *arguments) if name == "trainer" else partial(run, **arguments)

    def quietly() -> None:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            call()

    return quietly


def main() -> None:
    warnings.simplefilter("ignore")
    benchmark = Benchmark("programs of other libraries")
    benchmark.rounds = min(benchmark.rounds, MOST_ROUNDS)
    for title, name, lanes in ROWS:
        if not benchmark.wants(title):
            continue
        try:
            rival, device = (lane(name, arguments) for arguments in lanes)
        except ImportError as error:
            print(f"{title:<34} left out: {error}")
            continue
        benchmark.row(title, rival, device)
    benchmark.print_mean()


if __name__ == "__main__":
    main()
