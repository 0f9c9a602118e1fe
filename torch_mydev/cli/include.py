"""``include``: prints where the C headers are that drivers and kernels are built with. Works without torch."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.headers import include_dir


def run(arguments: Sequence[str]) -> int:
    """The subcommand: prints the directory; 1 where the headers are not there, since the package was not built."""
    parser = argparse.ArgumentParser(prog=f"{DEVICE_NAME} include", description="Prints where the C headers are.")
    parser.parse_args(arguments)
    if not (Path(include_dir()) / DEVICE_NAME / "custom_call.h").exists():
        print(f"{include_dir()} has no headers; build the package first: make build", file=sys.stderr)
        return 1
    print(include_dir())
    return 0
