"""The cost of the validation layer: a launch, and a training step, with and without it.

python benchmarks/validation.py [--rounds N]

A process has one driver, so each has a process of its own; they take turns, task by task. Prints the fastest turn of
each, and how much longer the task takes behind the layer.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DRIVERS = ("host", "host:async", "host:remote,async")
TASKS = ("launch", "mlp", "convolutional")
SECONDS = 0.1  #: of a turn

#: Answers each name of a task with the seconds that it takes: a launch of few elements, or a training step.
WORKER = """
import sys, time
import torch, torch_mydev
sys.path.insert(0, sys.argv[1])
import train_digits

def step_of(name):
    torch.manual_seed(0)
    device = torch.device(torch_mydev.device_name)
    if name == "launch":
        a = torch.ones(16, device=device)
        return 100, lambda: [a.neg_() for _ in range(100)]
    model = {"mlp": train_digits.mlp, "convolutional": train_digits.convolutional}[name]().to(device)
    images = torch.rand(train_digits.BATCH, 1, 8, 8).to(device)
    labels = (torch.arange(train_digits.BATCH) % 10).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
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
    while time.perf_counter() - begin < float(sys.argv[2]):
        step()
        torch.mydev.synchronize()
        count += pieces
    print((time.perf_counter() - begin) / count, flush=True)
"""


class Worker:
    """A process with one driver."""

    def __init__(self, driver: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(ROOT / "examples"), str(SECONDS)],
            env={**os.environ, "MYDEV_DRIVER": driver},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, task: str) -> float:
        """The seconds that the task takes."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(task + "\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="turns of each driver and task (9)")
    rounds = parser.parse_args().rounds
    print(f"{'driver':<20}{'task':<15}{'plain us':>10}{'validated us':>14}{'ratio':>8}")
    for driver in DRIVERS:
        plain, validated = Worker(driver), Worker(f"validate:{driver}")
        for task in TASKS:
            turns = [(plain.ask(task), validated.ask(task)) for _ in range(rounds + 1)][1:]
            without, with_layer = (min(turn[lane] for turn in turns) * 1e6 for lane in range(2))
            print(f"{driver:<20}{task:<15}{without:>10.2f}{with_layer:>14.2f}{with_layer / without:>7.2f}x", flush=True)


if __name__ == "__main__":
    main()
