"""The command ``mydev new-device``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from mydev import COMMAND
from mydev.new_device import COMPILERS, LANGUAGES, write


def run(arguments: Sequence[str]) -> int:
    """Writes a package; returns the exit code: 1 for a name or a folder that cannot be taken."""
    parser = argparse.ArgumentParser(
        prog=f"{COMMAND} new-device",
        description="Writes a package for a device of your own, over a simulated card. It builds, and its tests pass.",
    )
    parser.add_argument("name", help="what the device is called: torch.device(NAME), JAX_PLATFORMS=NAME")
    parser.add_argument("--language", choices=LANGUAGES, default=LANGUAGES[0], help="of the driver (%(default)s)")
    parser.add_argument("--compiler", choices=COMPILERS, default="", help="a compiler that takes this language")
    parser.add_argument("--output", type=Path, help="the folder to write (NAME-torch)")
    options = parser.parse_args(arguments)
    directory: Path = options.output or Path(f"{options.name}-torch")
    try:
        files = write(options.name, directory, language=options.language, compiler=options.compiler)
    except (ValueError, OSError) as error:
        print(f"{COMMAND} new-device: {error}", file=sys.stderr)
        return 1
    print(f"{directory}: {len(files)} files. Build and try it:")
    print("  pip install 'setuptools>=77' cmake")
    print(f"  cd {directory} && pip install --no-build-isolation -e '.[test]' && {COMMAND} doctor")
    return 0
