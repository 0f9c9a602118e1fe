#!/usr/bin/env python3
"""Makes one wheel of several, each of which was built with another minor version of torch.

    tools/join_wheels.py built-with-2.13/torch_mydev-*.whl built-with-2.14/torch_mydev-*.whl --output dist

The first wheel gives all that knows nothing of torch, and each of them its ``torch_mydev/lib/torch-<minor>``;
at run time the one for the torch that is there is loaded. Ends with an explanation where the wheels are not of one
source, Python and platform, or have a part for one torch twice.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import io
import re
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

PART = re.compile(r"torch_mydev/lib/torch-(\d+)\.(\d+)/")
REQUIREMENT = re.compile(r"^Requires-Dist: torch==.*$", re.MULTILINE)
SOURCES = (".cmake", ".py", ".pyi", ".h", ".in")


class CannotJoin(Exception):
    """The wheels cannot be joined; the message says why."""


def join(wheels: list[Path], output: Path) -> Path:
    """Writes the wheel into the directory ``output``, under the name that all have. Raises CannotJoin."""
    names = {wheel.name for wheel in wheels}
    if len(names) != 1:
        raise CannotJoin(f"the wheels have different names, so another version, Python or platform: {sorted(names)}")
    contents = [_read(wheel) for wheel in wheels]
    joined = dict(contents[0])
    for wheel, content in zip(wheels[1:], contents[1:], strict=True):
        _check_same_source(wheels[0], contents[0], wheel, content)
        for name, data in content.items():
            if PART.match(name):
                if name in joined:
                    raise CannotJoin(f"{wheel} and a wheel before it both have {name}")
                joined[name] = data
    minors = sorted({(int(match[1]), int(match[2])) for name in joined if (match := PART.match(name))})
    (metadata,) = [name for name in joined if name.endswith(".dist-info/METADATA")]
    text, replaced = REQUIREMENT.subn(f"Requires-Dist: torch{_requirement(minors)}", joined[metadata].decode())
    if replaced != 1:
        raise CannotJoin(f"{wheels[0]} requires no one version of torch")
    joined[metadata] = text.encode()
    output.mkdir(parents=True, exist_ok=True)
    result = output / wheels[0].name
    if any(wheel.resolve() == result.resolve() for wheel in wheels):
        raise CannotJoin(f"{result} is one of the wheels; choose another --output")
    _write(result, joined, modes=_modes(wheels))
    return result


def _requirement(minors: list[tuple[int, int]]) -> str:
    """``>=2.13,<2.15``, without what lies between and has no part."""
    (low_major, low), (high_major, high) = minors[0], minors[-1]
    if low_major != high_major:
        raise CannotJoin(f"the wheels are for torch {low_major} and {high_major}; one wheel is for one of them")
    between = [f"!={low_major}.{minor}.*" for minor in range(low, high) if (low_major, minor) not in minors]
    return ",".join([f">={low_major}.{low}", f"<{high_major}.{high + 1}", *between])


def _read(wheel: Path) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            content = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    except (OSError, zipfile.BadZipFile) as error:
        raise CannotJoin(f"{wheel} cannot be read: {error}") from error
    if not any(PART.match(name) for name in content):
        raise CannotJoin(f"{wheel} has no torch_mydev/lib/torch-<minor>")
    return content


def _check_same_source(first: Path, expected: dict[str, bytes], other: Path, content: dict[str, bytes]) -> None:
    def sources(of: dict[str, bytes]) -> dict[str, bytes]:
        return {name: data for name, data in of.items() if name.endswith(SOURCES)}

    names = sources(expected).keys() ^ sources(content).keys()
    names |= {name for name, data in sources(expected).items() if name in content and content[name] != data}
    if names:
        raise CannotJoin(f"{first} and {other} are of different sources: they differ in {', '.join(sorted(names)[:5])}")


def _modes(wheels: Iterable[Path]) -> dict[str, int]:
    modes = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            modes.update({info.filename: info.external_attr for info in archive.infolist()})
    return modes


def _write(path: Path, content: dict[str, bytes], modes: dict[str, int]) -> None:
    """Writes the wheel. The record of all files and their digests comes last, as the format wants it."""
    (record,) = [name for name in content if name.endswith(".dist-info/RECORD")]
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(content, key=lambda name: (".dist-info/" in name, name)):
            if name == record:
                continue
            _add(archive, name, content[name], modes[name])
            digest = base64.urlsafe_b64encode(hashlib.sha256(content[name]).digest()).rstrip(b"=").decode()
            writer.writerow([name, f"sha256={digest}", len(content[name])])
        writer.writerow([record, "", ""])
        _add(archive, record, rows.getvalue().encode(), modes[record])


def _add(archive: zipfile.ZipFile, name: str, data: bytes, mode: int) -> None:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", nargs="+", type=Path)
    parser.add_argument("--output", type=Path, default=Path("dist"), help="a directory (default: dist)")
    options = parser.parse_args()
    try:
        print(join(options.wheels, options.output))
    except CannotJoin as problem:
        sys.exit(f"join_wheels: {problem}")


if __name__ == "__main__":
    main()
