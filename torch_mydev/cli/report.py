"""``report``: runs a script, then says what the device was given to do and which operators fell back to the CPU.

The script runs in a Python of its own, as ``python script.py arguments`` would run it; its exit code is the command's.
The report goes to stderr, or to files, when it ends, however it ends.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_RUN = "import sys; from torch_mydev.observe.report import run_and_report; sys.exit(run_and_report(*sys.argv[1:]))"


def run(arguments: Sequence[str]) -> int:
    """The subcommand; returns the script's exit code, 2 if there is no such script."""
    parser = argparse.ArgumentParser(
        prog="mydev report", description="Runs a script; then says what the device did, and what fell back."
    )
    parser.add_argument("--json", metavar="FILE", default="", help="write the report there, as JSON, and print nothing")
    parser.add_argument(
        "--html", metavar="FILE", default="", help="write a page there, with time line and memory, and print nothing"
    )
    parser.add_argument("-m", dest="module", action="store_true", help="the script is a module, as in python -m")
    parser.add_argument("script", help="what to run")
    rest = parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what it is given")
    rest.required = False  # else a missing script reads as if both were missing
    options = parser.parse_args(arguments)
    if not options.module and not Path(options.script).is_file():
        print(f"mydev report: there is no script '{options.script}'", file=sys.stderr)
        return 2
    how = "module" if options.module else "file"
    command = [sys.executable, "-c", _RUN, how, options.json, options.html, options.script, *options.arguments]
    return subprocess.run(command, check=False).returncode
