#!/usr/bin/env python3
"""Gives a wheel the manylinux tag that its libraries allow: tools/tag_wheel.py dist/torch_mydev-*.whl

auditwheel tells how new a glibc and libstdc++ they need, and which libraries are not in the wheel. Ends with an
explanation where torch does not bring one of these. Nothing is copied: ``auditwheel repair`` would give the wheel an
OpenMP runtime, so the process a second pool of threads. Prints the new path.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

#: Libraries that torch's wheels bring; importing torch loads them first.
OF_TORCH = re.compile(r"libc10\.so|libtorch(_cpu|_python)?\.so|libgomp\.so\.1")


class CannotTag(Exception):
    """The wheel is not one for other machines; the message says why."""


def platform_tag(report: dict[str, Any]) -> str:
    """The tag, from what ``auditwheel show --json`` says. Raises CannotTag."""
    others = sorted(name for name in report["external_libs"] if not OF_TORCH.fullmatch(name))
    if others:
        raise CannotTag(f"needs {', '.join(others)}, which neither it nor torch has; install them beside ours")
    tag = str(report["sym_tag"])
    if not tag.startswith("manylinux_"):
        raise CannotTag(f"needs symbols of no manylinux policy (auditwheel says {tag}); build it on an older system")
    return tag


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    wheel = parser.parse_args().wheel
    try:
        tag = platform_tag(json.loads(_run("auditwheel", "show", "--json", str(wheel))))
    except CannotTag as problem:
        sys.exit(f"tag_wheel: {wheel} {problem}")
    print(wheel.parent / _run("wheel", "tags", "--remove", "--platform-tag", tag, str(wheel)).strip())


def _run(*command: str) -> str:
    """Runs a tool of this interpreter and returns what it prints; its other messages go to stderr."""
    return subprocess.run([sys.executable, "-m", *command], check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()
