"""Runs a script as Python would and reports what the device did meanwhile: the ``report`` command's other half."""

from __future__ import annotations

import contextlib
import json
import runpy
import sys
import time
import traceback
from pathlib import Path

import torch

from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.device.statistics import launch_statistics
from torch_mydev.observe import timeline
from torch_mydev.observe.compile_report import compile_report
from torch_mydev.observe.fallback import fallback_census
from torch_mydev.observe.memory_kinds import MemoryRecording
from torch_mydev.observe.report_page import ProgramReport, program_page


def run_and_report(how: str, json_file: str, html_file: str, script: str, *arguments: str) -> int:
    """Runs a script (``how`` is "file") or a module ("module") as the main program; returns its exit code.

    The report goes to ``json_file`` and, as a page, to ``html_file``, each if it is not empty; to stderr if both are.
    """
    kept: list[object] = []  # what the script leaves in its globals, whose memory is looked at
    begin = time.monotonic()
    with contextlib.ExitStack() as recordings:
        census = recordings.enter_context(fallback_census())
        statistics = recordings.enter_context(launch_statistics())
        memory = recordings.enter_context(MemoryRecording()) if html_file else None
        if html_file:
            timeline.begin()
        code = _run(how, script, arguments, kept)
        with contextlib.suppress(RuntimeError):  # earlier failures have been reported
            getattr(torch, DEVICE_NAME).synchronize()
    sys.stdout.flush()
    if json_file:
        report = {"commands": json.loads(statistics.to_json()), "fallbacks": json.loads(census.to_json())}
        Path(json_file).write_text(json.dumps(report, indent=2) + "\n")
    if memory is not None:
        whole = ProgramReport(
            script,
            time.monotonic() - begin,
            code,
            statistics.rows,
            census.rows,
            compile_report().graphs,
            timeline.end(),
            memory.lines,
        )
        Path(html_file).write_text(program_page(whole))
    if not json_file and not html_file:
        print(f"\n{statistics}\n\n{census}", file=sys.stderr)
    return code


def _run(how: str, script: str, arguments: tuple[str, ...], kept: list[object]) -> int:
    sys.argv = [script, *arguments]
    # Python puts the script's directory first, or for a module the current one; -c has put the latter.
    if how == "file":
        sys.path[0] = str(Path(script).resolve().parent)
    try:
        if how == "file":
            kept.append(runpy.run_path(script, run_name="__main__"))
        else:
            kept.append(runpy.run_module(script, run_name="__main__", alter_sys=True))
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
