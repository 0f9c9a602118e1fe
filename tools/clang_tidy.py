"""Runs clang-tidy over the layers that have no torch in them, two files at a time, and skips what it has passed before.

A file is checked again when it, any header, .clang-tidy or clang-tidy's version has changed. Files that are compiled
once per instruction set are checked in their baseline form only.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "lint"
LAYERS = ("runtime", "kernels")


def main() -> int:
    scripts = Path(sys.executable).parent
    tidy = scripts / "clang-tidy"
    configure = ["cmake", "-S", str(ROOT), "-B", str(BUILD), "-G", "Ninja", "-DMYDEV_BUILD_TORCH=OFF"]
    configure += ["-DMYDEV_ISA_VARIANTS=baseline", f"-DPython_EXECUTABLE={sys.executable}"]
    environment = dict(os.environ, PATH=f"{scripts}{os.pathsep}{os.environ['PATH']}")
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL, env=environment)

    # omp.h is the compiler's own; after all other directories, so that clang keeps its own versions of the rest.
    compiler_headers = subprocess.run(["g++", "-print-file-name=include"], check=True, capture_output=True, text=True)
    extra = f"--extra-arg=-idirafter{compiler_headers.stdout.strip()}"

    shared = hashlib.sha256(subprocess.run([tidy, "--version"], check=True, capture_output=True).stdout)
    headers = sorted(path for path in (ROOT / "csrc").rglob("*.h"))
    for path in [ROOT / ".clang-tidy", ROOT / "CMakeLists.txt", *headers]:
        shared.update(path.read_bytes())

    def check(source: Path) -> str:
        digest = shared.copy()
        digest.update(source.read_bytes())
        stamp = BUILD / "passed" / source.relative_to(ROOT).with_suffix(".sha256")
        if stamp.exists() and stamp.read_text() == digest.hexdigest():
            return ""
        command = [str(tidy), "--quiet", f"-p={BUILD}", extra, str(source)]
        result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        if result.returncode != 0:
            return result.stdout + result.stderr
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(digest.hexdigest())
        return ""

    sources = sorted(path for layer in LAYERS for path in (ROOT / "csrc" / layer).rglob("*.cpp"))
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        complaints = [complaint for complaint in pool.map(check, sources) if complaint]
    print("".join(complaints), end="", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
