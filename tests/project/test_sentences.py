"""Comments, docstrings and pages are made of plain sentences: with a subject, and it comes first."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.checkout import ROOT
from support.sentences import C_SUFFIXES, blocks, is_counted, is_hard, sentences

#: Sentences that begin with As, Where, Those or That, of which some are plain. The number may only fall.
MOST_COUNTED = 6


def found(matches: Callable[[str], bool]) -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]  # those to come, too
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [
        f"{name}:{line}: {sentence}"
        for name in listed
        if Path(name).suffix in C_SUFFIXES | {".py", ".md"} and (ROOT / name).is_file()
        for block in blocks(ROOT / name)
        for line, sentence in sentences(block)
        if matches(sentence)
    ]


def test_sentences_have_their_subject() -> None:
    assert found(is_hard) == []


def test_no_more_sentences_begin_with_a_clause() -> None:
    counted = found(is_counted)
    assert len(counted) <= MOST_COUNTED, "\n".join(counted)
    assert len(counted) == MOST_COUNTED, f"there are {len(counted)}: lower MOST_COUNTED"


@pytest.mark.parametrize(
    ("name", "text", "hard"),
    [
        ("a.cpp", "// Of the last run.\nint x;\n", ["Of the last run."]),
        ("a.cpp", "// The state. Whose memory\n// is another's.\n", ["Whose memory is another's."]),
        ("a.cpp", 'f("// Of"); // of the last run\n', []),
        ("a.py", '"""What it does."""\n', ["What it does."]),
        ("a.py", '"""What does it do?"""\n', []),
        ("a.py", "x = 1\n# One.\n# Of two.\n", ["Of two."]),
        ("a.md", "One.\nWhat works is here.\n\n```text\nOf code.\n```\n", ["What works is here."]),
        ("a.md", "| a | Of b |\n", ["Of b"]),
    ],
)
def test_hard_sentences_are_found(tmp_path: Path, name: str, text: str, hard: list[str]) -> None:
    (tmp_path / name).write_text(text)
    all_sentences = [sentence for block in blocks(tmp_path / name) for _, sentence in sentences(block)]
    assert [sentence for sentence in all_sentences if is_hard(sentence)] == hard
