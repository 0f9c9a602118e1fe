"""Runs a command where the device has another name: python -m support.renamed NAME OPTIONS COMMAND...

The tests and examples say `mydev`. This program copies them to build/NAME, where the device is called NAME in each,
beside links to all else of the checkout. There it installs a vendor's package that brings the host's driver under that
name, with the OPTIONS, and runs the command. The project's own names stay: torch_mydev, `torch.ops.mydev`, the kernels
`mydev.*`, the command line, and the backend of torch.distributed.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

from support import vendor
from support.checkout import BUILD, ROOT

#: Words for the device, in the source of a test. A quoted `mydev` after those that are excluded is the project's.
DEVICE = re.compile(
    r"""
      (?<=\btorch\.)mydev\b                         # torch.mydev
    | (?<=[\w)\]]\.)mydev(?=\()                     # tensor.mydev()
    | (?<=\bis_)mydev\b                             # tensor.is_mydev
    | (?<!torch\.ops,\ ")(?<!backend=")(?<!-m",\ ")(?<!/\ ")(?<=["'`])mydev(?=["'`\\])(?!",\ "torch_)
    | \bmydev(?=:[\d{*\\])                          # mydev:0, also in the middle of a text
    | \bmydev(?=_(?:program|kernels)\b)             # backends of torch.compile
    | (?<=["'])mydev(?=[A-Z]\w+["'])                 # mydevMemset, a row of the profiler
    | (?<=\bDeviceType\.)MYDEV\b | (?<=\bProfilerActivity\.)MYDEV\b | \bMYDEV(?=\ total\b)
    | (?<=\ for\ )mydev(?=\ in) | (?<=\ of\ )mydev(?=,) | (?<=\ a\ )mydev(?=\ stream)
    | (?<=["'])host(?=:\w)                          # the driver, in MYDEV_DRIVER
    | (?<=MYDEV_DRIVER=["'])host(?=["'])
    """,
    re.VERBOSE,
)


def copy(name: str) -> Path:
    """The folder with the renamed files, and links to what else the checkout has."""

    def renamed(match: re.Match[str]) -> str:
        return name.upper() if match[0].isupper() else name

    folder = ROOT / "build" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in ROOT.iterdir():
        if path.name in ("examples", "tests"):
            shutil.copytree(path, folder / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif path.name != "build":
            (folder / path.name).symlink_to(path)
    # Examples that tests build from the copies have a build folder apart from the checkout's.
    (folder / "build").mkdir()
    (folder / "build" / "release").symlink_to(BUILD)
    for pattern in ("examples/**/*.py", "tests/**/*.py"):
        for path in folder.glob(pattern):
            path.write_text(DEVICE.sub(renamed, path.read_text(encoding="utf-8")), encoding="utf-8")
    return folder


def main() -> None:
    name, options, *command = sys.argv[1:]
    folder = copy(name)
    packages = folder / "packages"
    vendor.install(packages, name, f"{{'library': {str(vendor.HOST_DRIVER)!r}}}")
    path = os.pathsep.join(filter(None, [str(packages), os.environ.get("PYTHONPATH", "")]))
    os.chdir(folder)
    os.execvpe(command[0], command, {**os.environ, "PYTHONPATH": path, "MYDEV_DRIVER": f"{name}:{options}"})


if __name__ == "__main__":
    main()
