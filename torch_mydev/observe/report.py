"""Runs a script as Python would and reports what the device did meanwhile: the ``report`` command's other half."""

from __future__ import annotations

import contextlib
import json
import runpy
import sys
import traceback
from pathlib import Path

import torch

from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.device.statistics import launch_statistics
from torch_mydev.observe.fallback import fallback_census


def run_and_report(how: str, json_file: str, script: str, *arguments: str) -> int:
    """Runs a script (``how`` is "file") or a module ("module") as the main program; returns its exit code.

    The report goes to ``json_file``, or to stderr if that is empty.
    """
    with fallback_census() as census, launch_statistics() as statistics:
        code = _run(how, script, arguments)
        with contextlib.suppress(RuntimeError):  # earlier failures have been reported
            getattr(torch, DEVICE_NAME).synchronize()
    sys.stdout.flush()
    if json_file:
        report = {"commands": json.loads(statistics.to_json()), "fallbacks": json.loads(census.to_json())}
        Path(json_file).write_text(json.dumps(report, indent=2) + "\n")
    else:
        print(f"\n{statistics}\n\n{census}", file=sys.stderr)
    return code


def _run(how: str, script: str, arguments: tuple[str, ...]) -> int:
    sys.argv = [script, *arguments]
    # Python puts the script's directory first, or for a module the current one; -c has put the latter.
    if how == "file":
        sys.path[0] = str(Path(script).resolve().parent)
    try:
        if how == "file":
            runpy.run_path(script, run_name="__main__")
        else:
            runpy.run_module(script, run_name="__main__", alter_sys=True)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    except BaseException as error:
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_globals["__name__"] in (__name__, "runpy"):
            frames = frames.tb_next
        traceback.print_exception(error.with_traceback(frames))
        return 1
    return 0
