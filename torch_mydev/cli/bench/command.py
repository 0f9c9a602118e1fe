"""``mydev bench``: times the device against the CPU in turns; prints a table, and writes a page or JSON."""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.cli.bench.limits import Limits, measured
from torch_mydev.cli.bench.page import Result, bench_page, means, share_of_limit
from torch_mydev.cli.bench.timing import ROUNDS, compare, duration
from torch_mydev.cli.bench.work import Function, Lane, Work, all_work

_SEED = 0


def run(arguments: Sequence[str]) -> int:
    """The subcommand; returns 2 where no row is asked for, and 1 where there is no device or a row failed."""
    parser = argparse.ArgumentParser(
        prog="mydev bench",
        description="Times the device against the CPU of this machine, turn by turn. All rows take some three minutes.",
    )
    parser.add_argument("only", nargs="?", default="", help="run the rows of which group and name contain this")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help=f"turns of each ({ROUNDS})")
    parser.add_argument("--list", action="store_true", help="print the rows, and run none")
    parser.add_argument("--html", metavar="FILE", default="", help="write a page there, with charts")
    parser.add_argument("--json", metavar="FILE", default="", help="write the figures there")
    options = parser.parse_args(arguments)
    chosen = [work for work in all_work() if options.only in f"{work.group}: {work.name}"]
    if not chosen or options.rounds < 1:
        wrong = f"no row contains '{options.only}'" if not chosen else f"--rounds {options.rounds} is less than 1"
        print(f"mydev bench: {wrong}; --list prints all rows", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(f"{work.group}: {work.name}" for work in chosen))
        return 0
    lanes = Lane("cpu"), Lane(DEVICE_NAME)
    finish = getattr(torch, DEVICE_NAME).synchronize
    try:
        limits = measured(lanes, finish)
    except RuntimeError as error:
        print(f"mydev bench: {str(error).splitlines()[0]}", file=sys.stderr)
        return 1
    facts = _facts(limits)
    for name, value in facts.items():
        print(f"{name:<22} {value}")
    results, failed = _time_all(chosen, lanes, finish, options.rounds, limits)
    print(f"\n{'geometric means':<34} {'CPU/device':>10} {'lowest':>7} {'rows':>5}")
    for group, (mean, lowest, count) in means(results).items():
        print(f"{group:<34} {mean:>10.2f} {lowest:>7.2f} {count:>5}")
    if options.html:
        title = f"{DEVICE_NAME} against the CPU"
        Path(options.html).write_text(bench_page(title, facts, results, limits), encoding="utf-8")
    if options.json:
        rows = [{"group": work.group, **dataclasses.asdict(row)} for work, row in results]
        Path(options.json).write_text(json.dumps({"machine": facts, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    return 1 if failed else 0


def _time_all(
    chosen: Sequence[Work], lanes: tuple[Lane, Lane], finish: Callable[[], object], rounds: int, limits: Limits
) -> tuple[list[Result], bool]:
    results: list[Result] = []
    failed = False
    group = ""
    for work in chosen:
        if work.group != group:
            group = work.group
            print(f"\n{group:<46} {'CPU':>10} {'device':>10} {'ratio':>7} {'median':>7} {'limit':>6}")
        try:
            cpu, device = (_made(work, lane) for lane in lanes)
            row = compare(work.name, cpu, _finished(device, finish), rounds)
        except Exception as error:  # the other rows still say something
            print(f"{work.name:<46} failed: {str(error).splitlines()[0]}", flush=True)
            failed = True
            continue
        results.append((work, row))
        share = share_of_limit(work, row.device_seconds, limits)
        print(
            f"{work.name:<46} {duration(row.rival_seconds):>10} {duration(row.device_seconds):>10} "
            f"{row.ratio:>6.2f}{'~' if row.noisy else ' '} {row.median_ratio:>7.2f} "
            f"{'' if share is None else f'{100 * share:.0f} %':>6}",
            flush=True,
        )
    return results, failed


def _made(work: Work, lane: Lane) -> Function:
    torch.manual_seed(_SEED)
    return work.make(lane)


def _finished(function: Function, finish: Callable[[], object]) -> Function:
    """The function with the wait for its work, where the device works on while the host goes on."""
    if not _C.device_properties(0)["asynchronous"]:
        return function

    def run_and_wait() -> None:
        function()
        finish()

    return run_and_wait


def _facts(limits: Limits) -> dict[str, str]:
    """The machine, for the head of the table and of the page."""
    properties = _C.device_properties(0)
    processor = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if sys.platform == "linux" else ():
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
            break
    return {
        "processor": f"{processor}, {torch.get_num_threads()} threads",
        "PyTorch's instructions": torch.backends.cpu.get_cpu_capability(),
        "device": f"{properties['name']}, driver {properties['driver']}",
        "torch": str(torch.__version__),
        "memory": f"{limits.bytes_per_second / 1e9:.1f} GB/s, the fastest sum or copy of 64 MiB",
        "arithmetic": f"{limits.operations_per_second / 1e9:.0f} GFLOP/s, the fastest product of 1024 x 1024 in f32",
    }
