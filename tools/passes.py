"""Runs what a change must pass: tools/passes.py test|check [--keep-going] [--long]

``test`` runs the passes that say whether the project works; ``check`` runs all. A pass is a command. One that succeeded
on the same tree (the contents of all files that git tracks or would track) is not run again. The table at the end has
each pass's time; build/passes.json keeps what passed, when, and how long it took.

Passes of many tests ask a tenth of them each, and of those that are marked slow a third of that. Passes that ask the
same tests do not ask the same tenth. The tenths rotate by commit: ten commits that follow each other ask everything
but slow tests, 30 all. The googletests ask a sixth of the modes in which kernels are checked. The two sanitizers and
the other instruction sets, which need a build each, take turns by commit. With ``--long`` each pass asks all, and what
is repeated is repeated more often.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "build" / "passes.json"
PYTHON = ".venv/bin/python"
# Two workers share the processors.
PYTEST = f"{PYTHON} -m pytest -q --bar --strict-skips -n 2 --dist worksteal"
GOOGLETESTS = "tools/googletests.sh build/release"
SKIPPED = 77  # the status of a pass that has not what it needs, and says so
# Tests that choose their own driver, and those of builds with several instruction sets, are asked once.
MODE_PYTEST = f"{PYTEST} -m 'not any_driver and not instruction_sets'"
# The modes find operands that are used too early or too late, memory that is touched where it may not be, and one
# device taken for another. `remote` is a device whose memory the host does not reach, `faults` makes its streams late
# now and then, and the validation layer checks what orders streams, captures them and gives memory back.
MODES = "host:async,guarded,devices=2"
REMOTE = "host:remote,async,guarded,devices=2,faults=1"
COMPILED = "host:remote,kernels=compiled"  # a device that brings a compiler, and runs portable kernels
VALIDATED = "validate:host:remote,async,guarded,devices=2"
MODE_TESTS = "tests/device tests/drivers tests/ops tests/train tests/custom_call"


@dataclass(frozen=True)
class Pass:
    name: str
    command: str  #: for a shell; {shard} are options that choose a shard of the tests
    in_test: bool = False  #: part of `make test`
    shard: int = 0  #: which shard: passes with other numbers ask others
    of: int = 1  #: it is a pass of one commit in so many, that with `shard`
    environment: dict[str, str] = field(default_factory=dict)


PASSES = (
    Pass("lint", "tools/lint.sh"),
    Pass(
        "googletests",
        f"{GOOGLETESTS} {{shard}} --progress && PYTHONPATH=tests {PYTHON} -m support.googletest_skips build/release",
        in_test=True,
    ),
    Pass("Python tests, one in ten", f"{PYTEST} -m 'not instruction_sets' --part=quick tests", in_test=True),
    Pass(
        f"Python tests, {MODES}",
        f"{MODE_PYTEST} {{shard}} {MODE_TESTS} tests/distributed/test_distributed_training*.py",
        shard=2,
        environment={"MYDEV_DRIVER": MODES},
    ),
    # A vendor's package brings this driver, so the device has a name of its own.
    Pass(
        f"Python tests, {REMOTE}, called acme",
        f"PYTHONPATH=tests {PYTHON} -m support.renamed acme {REMOTE.removeprefix('host:')} "
        f"{MODE_PYTEST} --conformance-remainder=6 {{shard}} {MODE_TESTS} "
        "tests/conformance/test_opinfo.py tests/conformance/test_breadth.py tests/compile/test_programs.py "
        "tests/compile/test_program_memory.py tests/compile/test_compile_models.py tests/compile/test_kernel_graphs.py",
        shard=1,
    ),
    Pass(
        f"operators, {COMPILED}",
        f"{MODE_PYTEST} {{shard}} tests/conformance/test_opinfo.py",
        shard=4,
        environment={"MYDEV_DRIVER": COMPILED},
    ),
    Pass(
        "Python tests under the validation layer",
        f"{MODE_PYTEST} tests/device/test_stream.py tests/device/test_copy_on_write.py "
        "tests/device/test_memory.py tests/device/test_copy.py tests/device/test_graphs.py",
        environment={"MYDEV_DRIVER": VALIDATED},
    ),
    Pass(
        "compiled graphs on two devices",
        f"{PYTEST} -m devices tests/compile",
        environment={"MYDEV_DRIVER": "host:devices=2"},
    ),
    Pass(
        "Python tests, the rest",
        f"{PYTEST} -m 'not instruction_sets' --part=rest {{shard}} --ignore=tests/drivers/test_opencl.py tests",
    ),
    Pass(
        "PyTorch/XLA, a fifth",
        "tools/setup_torch_xla.sh --if-present && PYTHONPATH=$PWD/build/torch_xla_package build/torch_xla/bin/python "
        "-m pytest -q -c /dev/null -p no:cacheprovider --confcutdir tests/torch_xla tests/torch_xla --fifth",
    ),
    # Tests that compile many kernels are left to `make test-opencl`.
    Pass(
        "OpenCL",
        f"tools/opencl_present.sh && {PYTEST} -k 'not trains and not training and not portable and not promises' "
        "tests/drivers/test_opencl.py",
    ),
    Pass(
        "the other instruction sets",
        f"tools/build.sh -DMYDEV_ISA_VARIANTS=all && {GOOGLETESTS} -L instruction_sets --progress && "
        f"{PYTEST} -m instruction_sets tests",
        of=3,
    ),
    Pass("TSan", "tools/sanitize.sh thread build/tsan", shard=1, of=3),
    Pass("ASan and UBSan", "tools/sanitize.sh address,undefined build/asan {shard}", shard=2, of=3),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("test", "check"))
    parser.add_argument("--keep-going", action="store_true", help="run the other passes after one that failed")
    parser.add_argument("--long", action="store_true", help="ask all tests in each pass, and repeat more")
    arguments = parser.parse_args()

    record = _read_record()
    chosen = [step for step in PASSES if step.in_test or arguments.what == "check"]
    if not arguments.long:
        chosen = [step for step in chosen if (_commits() + step.shard) % step.of == 0]
    failed = []
    for step in chosen:
        command = _command(step, arguments.long)
        tree = _tree(command)
        if record.get(step.name, {}).get("tree") == tree:
            print(f"== {step.name}: passed before, on the same tree", flush=True)
            continue
        print(f"== {step.name}", flush=True)
        begin = time.monotonic()
        code = subprocess.run(["bash", "-c", command], cwd=ROOT, env=_environment(step), check=False).returncode
        if code == 0:
            record[step.name] = {"tree": tree, "seconds": round(time.monotonic() - begin)}
            RECORD.write_text(json.dumps(record, indent=1))
        elif code != SKIPPED:
            failed.append(step.name)
            if not arguments.keep_going:
                break
    _print_times(step for step in chosen if step.name in record and step.name not in failed)
    for name in failed:
        print(f"failed: {name}", flush=True)
    return 1 if failed else 0


def _command(step: Pass, long: bool) -> str:
    if long:
        return step.command.format(shard="--exits=50")
    return step.command.format(shard=f"--shard={(_commits() + step.shard) // step.of}")


def _environment(step: Pass) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name != "MYDEV_DRIVER"}
    # A thread that spins while it waits takes time from the other worker's.
    return {**environment, "OMP_WAIT_POLICY": "passive", **step.environment}


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False).stdout


def _commits() -> int:
    return int(_git("rev-list", "--count", "HEAD") or 0)


def _tree(command: str) -> str:
    """The content of what a pass runs on, and its command. Unlike any other where there is no git."""
    names = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split(b"\0")
    digest = hashlib.sha256(command.encode())
    for name in sorted({name.decode() for name in names if name}):
        path = ROOT / name
        if path.is_file():
            digest.update(f"\0{name}\0".encode() + path.read_bytes())
    return digest.hexdigest() if any(names) else str(time.time())


def _read_record() -> dict[str, dict[str, str | int]]:
    try:
        record: dict[str, dict[str, str | int]] = json.loads(RECORD.read_text())
    except (OSError, ValueError):
        return {}
    return record


def _print_times(steps: Iterable[Pass]) -> None:
    record = _read_record()
    print("\n| pass | minutes |\n| --- | --- |")
    for step in steps:
        print(f"| {step.name} | {int(record[step.name]['seconds']) / 60:.1f} |")


if __name__ == "__main__":
    sys.exit(main())
