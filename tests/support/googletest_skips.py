"""Skips of googletests, which ctest counts as passed: ``python -m support.googletest_skips BUILD``, after all of ctest.

A test may be skipped with a driver, for a reason that tests/allowed_skips.txt has, and must run with another.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from .skips import LIST, is_allowed

_EVENT = re.compile(
    r'^Command: "(?:.*/)?(?P<program>[^"/]+)"'
    r"|^\S+:\d+: Skipped\n(?P<reason>.*)$"
    r"|\[ *(?P<result>OK|FAILED|SKIPPED) \] (?P<test>\S+?)(?:, where .*)? \(\d+ ms\)$",
    re.MULTILINE,
)


def faults(log: str) -> list[str]:
    """The faults of the skips in ctest's log."""
    program = reason = ""
    ran, skipped, not_allowed = set(), {}, set()
    for event in _EVENT.finditer(log):
        test = f"{program}: {event['test']}"
        if event["program"]:
            program = event["program"]
        elif not event["result"]:
            reason = event["reason"]
        elif event["result"] != "SKIPPED":
            ran.add(test)
        else:
            skipped[test] = reason
            if not is_allowed(reason):
                not_allowed.add(f"{test} is skipped for a reason that {LIST.name} does not have: {reason}")
    never = (f"{test} is skipped with each driver: {skipped[test]}" for test in skipped.keys() - ran)
    return sorted({*not_allowed, *never})


if __name__ == "__main__":
    path = Path(sys.argv[1]) / "Testing" / "Temporary" / "LastTest.log"
    sys.exit("\n".join(faults(path.read_text(encoding="utf-8", errors="replace"))) or 0)
