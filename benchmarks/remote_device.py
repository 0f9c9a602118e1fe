"""Training on devices whose memory the host does not reach: with no kernel, with those that a vendor brings first, with
all, and with those that a compiler makes; and on the host driver, whose memory it reaches.

python benchmarks/remote_device.py [--rounds N]

A process has one driver, so each has a process of its own; they take turns, model by model. Drivers without kernels,
and with matrix products, convolutions, pointwise operators and reductions, are those of tests/drivers, built with the
tests (`make test`). Models are those of examples/train_digits.py, and two of tests/support/models.py.

Prints the fastest turn's time of a step, and ratios. "core", "all" and "host" are how much faster these are than the
device without a kernel; on this machine, whose processor is the device, kernels cannot give more than "host". "remote"
is the time on host:remote over that on host, and "portable" that on host:remote,kernels=compiled.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DRIVERS = ROOT / "build" / "release" / "drivers"
LANES = {
    "none": str(DRIVERS / "discrete_driver.so"),
    "core": str(DRIVERS / "core_driver.so"),
    "all": "host:remote",
    "compiled": "host:remote,kernels=compiled",
    "host": "host",
}
MODELS = ("mlp", "convolutional", "gpt2", "llama", "bert", "vit", "resnet", "convnext", "unet", "lstm")
SECONDS = 0.1  #: of a turn

#: Answers each name of a model with the seconds of one training step, and its fallbacks; "launch" with those of one
#: launch of few elements, of which a step has many.
WORKER = """
import json, sys, time
import torch, torch_mydev
sys.path[:0] = sys.argv[1:3]
import train_digits
from support import models

def digits(name):
    torch.manual_seed(0)
    model = getattr(train_digits, name)().to(torch_mydev.device_name)
    images = torch.rand(train_digits.BATCH, 1, 8, 8).to(torch_mydev.device_name)
    labels = (torch.arange(train_digits.BATCH) % 10).to(torch_mydev.device_name)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return optimizer, lambda: torch.nn.functional.cross_entropy(model(images), labels)

def support(name):
    example = models.build(name).to(torch.device(torch_mydev.device_name))
    return example.make_optimizer(example.module.parameters()), lambda: example.loss(example.module)

def step_of(name):
    if name == "launch":
        few = torch.ones(16, device=torch_mydev.device_name)
        return 100, lambda: [few.neg_() for _ in range(100)]
    optimizer, loss = (support if name in models.MODELS else digits)(name)
    def step():
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    return 1, step

steps = {}
for line in sys.stdin:
    name = line.strip()
    if name not in steps:
        steps[name] = step_of(name)
    pieces, step = steps[name]
    step()
    torch.mydev.synchronize()
    count, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < float(sys.argv[3]):
        step()
        torch.mydev.synchronize()
        count += pieces
    seconds = (time.perf_counter() - begin) / count
    with torch_mydev.fallback_census() as census:
        step()
    print(json.dumps({"seconds": seconds, "fallbacks": sum(row.calls for row in census.rows)}), flush=True)
"""


class Worker:
    """A process with one driver."""

    def __init__(self, driver: str) -> None:
        command = [sys.executable, "-c", WORKER, str(ROOT / "examples"), str(ROOT / "tests"), str(SECONDS)]
        self._process = subprocess.Popen(
            command,
            env={**os.environ, "MYDEV_DRIVER": driver},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, model: str) -> tuple[float, int]:
        """The seconds of one step, and how many operators of a step fall back."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(model + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return answer["seconds"], answer["fallbacks"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="turns of each driver and model (9)")
    parser.add_argument("models", nargs="*", default=MODELS, help=f"of {', '.join(MODELS)}; all by default")
    arguments = parser.parse_args()
    rounds = arguments.rounds
    workers = {lane: Worker(driver) for lane, driver in LANES.items()}
    print(
        f"{'ms a step':<14}"
        + "".join(f"{lane:>9}" for lane in LANES)
        + f"{'core':>8}{'all':>7}{'host':>7}{'remote':>8}{'portable':>10}"
    )
    for model in arguments.models:
        turns = [{lane: worker.ask(model) for lane, worker in workers.items()} for _ in range(rounds + 1)][1:]
        best = {lane: min(turn[lane][0] for turn in turns) for lane in LANES}
        ratios = [best["none"] / best[lane] for lane in ("core", "all", "host")]
        print(
            f"{model:<14}"
            + "".join(f"{best[lane] * 1e3:>9.2f}" for lane in LANES)
            + f"{ratios[0]:>7.2f}x{ratios[1]:>6.2f}x{ratios[2]:>6.2f}x{best['all'] / best['host']:>7.2f}x"
            + f"{best['compiled'] / best['host']:>9.2f}x",
            flush=True,
        )
        fallbacks = ", ".join(f"{lane} {turns[-1][lane][1]}" for lane in LANES)
        print(f"{'':<14}fall back in a step: {fallbacks}", flush=True)


if __name__ == "__main__":
    main()
