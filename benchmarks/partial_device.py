"""Training on a device whose memory the host cannot touch: with the kernels that a vendor brings first, and with none.

python benchmarks/partial_device.py [--rounds N]

The drivers are those of tests/drivers, built with the tests (`make test`): one process each, in turns, since a process
has one driver. The models are those of examples/train_digits.py. Prints the time of a step with no kernel and with
matrix products, convolutions, pointwise operators and reductions, and the ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DRIVERS = ROOT / "build" / "release" / "drivers"
STEPS = 20
STEP = """
import json, sys, time
import torch, torch_mydev
sys.path.insert(0, sys.argv[1])
import train_digits

times = {}
for name in ("mlp", "convolutional"):
    torch.manual_seed(0)
    model = getattr(train_digits, name)().to(torch_mydev.device_name)
    images = torch.rand(train_digits.BATCH, 1, 8, 8).to(torch_mydev.device_name)
    labels = (torch.arange(train_digits.BATCH) % 10).to(torch_mydev.device_name)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    for _ in range(3):
        step()
    begin = time.perf_counter()
    for _ in range(int(sys.argv[2])):
        step()
    torch.mydev.synchronize()
    times[name] = (time.perf_counter() - begin) / int(sys.argv[2])
print(json.dumps(times))
"""


def measure(driver: str) -> dict[str, float]:
    environment = {**os.environ, "MYDEV_DRIVER": str(DRIVERS / driver)}
    command = [sys.executable, "-c", STEP, str(ROOT / "examples"), str(STEPS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    times: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="processes of each driver (3)")
    rounds = parser.parse_args().rounds
    found = [(measure("discrete_driver.so"), measure("core_driver.so")) for _ in range(rounds)]
    print(f"{'model':<14}  {'no kernel':>10}  {'core':>10}  {'ratio':>6}")
    for model in found[0][0]:
        bare, core = (statistics.median(pair[i][model] for pair in found) for i in (0, 1))
        print(f"{model:<14}  {bare * 1e3:>7.2f} ms  {core * 1e3:>7.2f} ms  {bare / core:>6.2f}")


if __name__ == "__main__":
    main()
