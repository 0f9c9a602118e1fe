"""Comments, docstrings and pages are made of plain sentences: with a subject, and it comes first."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.checkout import ROOT
from support.sentences import blocks, is_hard, is_read, sentences


def test_sentences_have_their_subject() -> None:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]  # those to come, too
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    found = [
        f"{name}:{line}: {sentence}"
        for name in listed
        if is_read(Path(name)) and (ROOT / name).is_file()
        for block in blocks(ROOT / name)
        for line, sentence in sentences(block)
        if is_hard(sentence)
    ]
    assert found == []


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
        ("a.md", "It works. That is rare.\n", ["That is rare."]),
        ("a.md", "That table is short. Where is it?\n", []),
        ("a.inc", "// As said.\n#define A\n", ["As said."]),
        ("a.sh", "#!/bin/sh\n# Title\n#\n# Those of two.\nexit 1  # of three\n", ["Those of two."]),
        ("CMakeLists.txt", "# One.\n# Where two is.\nset(x 1)\n", ["Where two is."]),
    ],
)
def test_hard_sentences_are_found(tmp_path: Path, name: str, text: str, hard: list[str]) -> None:
    (tmp_path / name).write_text(text)
    all_sentences = [sentence for block in blocks(tmp_path / name) for _, sentence in sentences(block)]
    assert [sentence for sentence in all_sentences if is_hard(sentence)] == hard
