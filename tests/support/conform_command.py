"""``mydev conform`` called in the test's own process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mydev.cli.conform import command

#: Takes arguments; gives exit code, output, errors.
Cli = Callable[..., tuple[int, str, str]]


def conform_command(capsys: pytest.CaptureFixture[str], *first: str) -> Cli:
    """The command with these arguments before others, a suite's name first."""

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            code = command.run((*first, *arguments))
        except SystemExit as exit_:
            code = int(str(exit_.code))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
