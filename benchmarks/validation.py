"""The cost of the validation layer: a launch, and a training step, with and without it.

python benchmarks/validation.py [--rounds N]

A process has one driver, so each has a process of its own; they take turns, task by task. Prints the fastest turn of
each, and how much longer the task takes behind the layer.
"""

from __future__ import annotations

import argparse

from remote_device import Worker

DRIVERS = ("host", "host:async", "host:remote,async")
TASKS = ("launch", "mlp", "convolutional")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="turns of each driver and task (9)")
    rounds = parser.parse_args().rounds
    print(f"{'driver':<20}{'task':<15}{'plain us':>10}{'validated us':>14}{'ratio':>8}")
    for driver in DRIVERS:
        plain, validated = Worker(driver), Worker(f"validate:{driver}")
        for task in TASKS:
            turns = [(plain.ask(task)[0], validated.ask(task)[0]) for _ in range(rounds + 1)][1:]
            without, with_layer = (min(turn[lane] for turn in turns) * 1e6 for lane in range(2))
            print(f"{driver:<20}{task:<15}{without:>10.2f}{with_layer:>14.2f}{with_layer / without:>7.2f}x", flush=True)


if __name__ == "__main__":
    main()
