#!/usr/bin/env python3
"""Gives a wheel the manylinux tag that its libraries allow: tools/tag_wheel.py dist/mydev-*.whl

auditwheel tells how new a glibc and libstdc++ they need, and which libraries are not in the wheel. mydev's has all that
it needs, and torch_mydev's needs those of mydev and torch. Ends with an explanation if a wheel needs another library,
or a newer glibc than NEWEST. Nothing is copied: ``auditwheel repair`` would give each wheel an OpenMP runtime of its
own name, so the process several pools of threads. Prints the new path.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

#: Libraries that others bring, by the name of the wheel: torch's, which importing torch loads first, and mydev's.
OF_OTHERS = {
    "mydev": re.compile(r"(?!)"),
    "torch_mydev": re.compile(r"libc10\.so|libtorch(_cpu|_python)?\.so|libgomp\.so\.1|libmydev_\w+\.so\.\d+\.\d+"),
}
#: The newest glibc that a wheel may need: that of Debian 12.
NEWEST = (2, 36)


class CannotTag(Exception):
    """The wheel is not one for other machines; the message says why."""


def platform_tag(distribution: str, report: dict[str, Any]) -> str:
    """The tag, from what ``auditwheel show --json`` says. Raises CannotTag."""
    others = sorted(name for name in report["external_libs"] if not OF_OTHERS[distribution].fullmatch(name))
    if others:
        raise CannotTag(f"needs {', '.join(others)}, which nothing that it requires has; install them beside ours")
    tag = str(report["sym_tag"])
    version = re.match(r"manylinux_(\d+)_(\d+)_", tag)
    if version is None:
        raise CannotTag(f"needs symbols of no manylinux policy (auditwheel says {tag}); build it on an older system")
    if (int(version[1]), int(version[2])) > NEWEST:
        limit = "manylinux_{}_{}".format(*NEWEST)
        raise CannotTag(f"needs the tag {tag}, which is newer than {limit}, the limit; build it on an older system")
    return tag


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    wheel = parser.parse_args().wheel
    try:
        tag = platform_tag(wheel.name.partition("-")[0], json.loads(_run("auditwheel", "show", "--json", str(wheel))))
    except CannotTag as problem:
        sys.exit(f"tag_wheel: {wheel} {problem}")
    print(wheel.parent / _run("wheel", "tags", "--remove", "--platform-tag", tag, str(wheel)).strip())


def _run(*command: str) -> str:
    """Runs a tool of this interpreter and returns what it prints; its other messages go to stderr."""
    return subprocess.run([sys.executable, "-m", *command], check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()
