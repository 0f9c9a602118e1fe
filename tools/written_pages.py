"""The pages that programs write: a program without arguments writes them, with --check it only compares."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def parser(description: str | None) -> argparse.ArgumentParser:
    """The arguments of such a program."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--check", action="store_true", help="do not write; fail if a page is out of date")
    return made


def write_or_check(pages: Mapping[Path, str], *, check: bool) -> int:
    """Writes the pages that are out of date, or names them; returns the exit code: 1 if there are some to name."""
    outdated = [path for path, text in pages.items() if path.read_text(encoding="utf-8") != text]
    if not check:
        for path in outdated:
            path.write_text(pages[path], encoding="utf-8")
    elif outdated:
        names = ", ".join(str(path.relative_to(ROOT)) for path in outdated)
        print(f"{names}: out of date; run python tools/{Path(sys.argv[0]).name}", file=sys.stderr)
        return 1
    return 0
