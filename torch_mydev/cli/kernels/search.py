"""``kernels why``: why a kernel is found, or not: where it was looked for, what was refused, what shadows what.

Files that are not loaded in this process are not loaded for the question either: their tables are read in a child.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from mydev.cli.finding import Finding
from mydev.cli.kernels import elf_file
from mydev.cli.kernels.check import probe
from mydev.wording import did_you_mean
from torch_mydev import _C, custom_call
from torch_mydev.custom_call.discovery import ENTRY_POINTS

VARIABLE = "MYDEV_CUSTOM_CALLS"
# Reasons for which a file is not to be loaded at all, not even to answer the question.
_DISTRUST = re.compile("no such file|world-writable|owned by another user|more rights than its user")


def why(name: str) -> list[Finding]:
    """The findings; the first says whether there is such a kernel."""
    names = custom_call.kernels()
    if name in names:
        info = custom_call.kernel_info(name)
        where = info["file"] or info["library"]
        findings = [Finding("ok", name, f"is registered, a kernel of kind {info['kind']} from {where}")]
        if info["file"]:
            findings.append(Finding("ok", "library", info["library"]))
    else:
        remedy = did_you_mean(name, names, otherwise="mydev kernels list shows what there is")
        findings = [Finding("problem", name, "is not registered", remedy)]
    refused = dict(_C.refused_kernel_libraries())
    for path, reason in refused.items():
        findings.append(Finding("problem", "refused", f"{path}: {reason}", f"mydev kernels check {path}"))
    files = list(_candidates())
    for point in metadata.entry_points(group=ENTRY_POINTS):
        more, failure = _entry_point_files(point)
        files += more
        if failure:
            findings.append(Finding("problem", "entry point", f"{point.name} = {point.value}: {failure}"))
    if not files and not refused:
        text = f"{VARIABLE} is not set and no package has an entry point {ENTRY_POINTS}"
        findings.append(Finding("note", "search", text, "load_custom_calls(path), or --load FILE here"))
    for file in files:
        if not _DISTRUST.search(refused.get(str(file), "")):
            findings += _examine_candidate(name, file, found=name in names)
    return findings


def _candidates() -> Iterator[Path]:
    """The files that the environment names, in the order in which they are looked at."""
    for entry in filter(None, os.environ.get(VARIABLE, "").split(":")):
        path = Path(entry)
        yield from sorted(path.glob("*.so")) if path.is_dir() else [path]


def _entry_point_files(point: metadata.EntryPoint) -> tuple[list[Path], str]:
    try:
        return [Path(path) for path in point.load()()], ""
    except Exception as error:  # whatever a package's function may raise
        return [], f"{type(error).__name__}: {error}"


def _examine_candidate(name: str, file: Path, found: bool) -> Iterator[Finding]:
    loaded = {library.file: library for library in custom_call.libraries()}
    library = loaded.get(str(file.resolve()))
    if library is not None:
        yield Finding("ok", "loaded", f"{file}: {', '.join(library.kernels)}")
        return
    remedy = f"mydev kernels check {file}"
    try:
        child = probe(file, elf_file.read_elf(file).undefined)
    except (OSError, elf_file.ElfError) as error:
        yield Finding("problem", "search", f"{file}: {error}", remedy)
        return
    offered = [str(line["record"].get("name")) for line in child.objects if "record" in line]
    if name in offered and found:
        yield Finding("problem", "shadowed", f"{file} has {name} too; the first that was registered is used")
    elif name in offered:
        yield Finding("problem", "search", f"{file} has {name} but was not loaded", remedy)
    elif child.failure or not offered:
        yield Finding("problem", "search", f"{file} cannot be loaded", remedy)
    else:
        yield Finding("note", "search", f"{file} has other kernels: {', '.join(offered)}")
