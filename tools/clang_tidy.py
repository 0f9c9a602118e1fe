"""Runs clang-tidy over the layers that have no torch in them, two units at a time, and skips what it has passed before.

A unit is what the build compiles at once: some files of a folder (cmake/unity.cmake). It takes a fifth of the time that
its files take one by one. Units that passed are remembered outside the checkout, by content: a unit's files, the
headers of this project that they include, how the unit is compiled, .clang-tidy, and clang-tidy's and the compiler's
versions. So a second clone checks only units that differ, and its files need not lie in the same place. Files that are
compiled once per instruction set are checked in their baseline form only.
"""

from __future__ import annotations

import concurrent.futures
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "lint"
PASSED = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "torch_mydev" / "clang-tidy"
FORGET_AFTER_DAYS = 60
INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def main() -> int:
    scripts = Path(sys.executable).parent
    tidy = scripts / "clang-tidy"
    configure = ["cmake", "-S", str(ROOT), "-B", str(BUILD), "-G", "Ninja", "-DMYDEV_BUILD_TORCH=OFF"]
    configure += ["-DCMAKE_COMPILE_WARNING_AS_ERROR=OFF"]  # clang warns of other things than GCC
    configure += ["-DMYDEV_ISA_VARIANTS=baseline", f"-DPython_EXECUTABLE={sys.executable}"]
    environment = dict(os.environ, PATH=f"{scripts}{os.pathsep}{os.environ['PATH']}")
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL, env=environment)
    commands = {
        Path(entry["file"]): entry["command"].replace(str(ROOT), "")
        for entry in json.loads((BUILD / "compile_commands.json").read_text())
    }

    # omp.h is the compiler's own; after all other directories, so that clang keeps its own versions of the rest.
    extra = [f"--extra-arg=-idirafter{_output_of('g++', '-print-file-name=include').strip()}"]
    extra += [
        "--extra-arg=-Wno-unknown-warning-option",
        f"--config-file={ROOT / '.clang-tidy'}",
    ]  # GCC's; units' config
    shared = [_output_of(tidy, "--version"), _output_of("g++", "--version"), extra[0]]
    names = (".clang-tidy", "requirements/build.txt", "requirements/ducc.txt")  # with the headers of others
    shared += [(ROOT / name).read_text() for name in names]

    def check(source: Path) -> str:
        digest = hashlib.sha256("\0".join([*shared, commands.get(source, "")]).encode())
        for path in sorted(_with_includes(source)):
            digest.update(f"\0{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
        stamp = PASSED / digest.hexdigest()
        if not stamp.exists():
            command = [str(tidy), "--quiet", f"-p={BUILD}", *extra, str(source)]
            result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
            if result.returncode != 0:
                return result.stdout + result.stderr
        stamp.touch()
        return ""

    PASSED.mkdir(parents=True, exist_ok=True)
    _forget()
    sources = sorted(commands)
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        complaints = [complaint for complaint in pool.map(check, sources) if complaint]
    print("".join(complaints), end="", file=sys.stderr)
    return 1 if complaints else 0


def _output_of(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@functools.cache
def _includes(path: Path) -> tuple[Path, ...]:
    """The project's headers that a file includes: by their path below csrc, below csrc/include, or beside it."""
    names = [name.decode() for name in INCLUDE.findall(path.read_bytes())]
    places = (ROOT / "csrc", ROOT / "csrc" / "include", path.parent, ROOT)
    return tuple(place / name for name in names for place in places if (place / name).is_file())


def _with_includes(path: Path) -> set[Path]:
    """The file and all that it includes, directly or not."""
    found, unread = {path}, [path]
    while unread:
        new = set(_includes(unread.pop())) - found
        found |= new
        unread += new
    return found


def _forget() -> None:
    """Removes what no checkout has asked for in a long time."""
    oldest = time.time() - FORGET_AFTER_DAYS * 24 * 3600
    for stamp in PASSED.iterdir():
        if stamp.stat().st_mtime < oldest:
            stamp.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
