"""The sentences of comments, docstrings and pages, and those that begin with words that plain sentences seldom do."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

C_SUFFIXES = {".cpp", ".h", ".c", ".inc"}
#: Files whose comments begin with "#": by their suffixes, or by their names.
SCRIPT_SUFFIXES, SCRIPT_NAMES = {".sh", ".cmake"}, {"CMakeLists.txt", "Makefile", "run"}
#: The verbs by which "That" is known to have no noun.
_VERB = (
    "(is|was|has|had|does|did|can|may|must|will|would|should|could|needs|takes|makes|means|gives|costs|works|holds|"
    "keeps|leaves|lets|says|shows|goes|happens|helps|saves|said)"
)
#: Text that belongs together: lines with their numbers.
Block = list[tuple[int, str]]


def is_read(path: Path) -> bool:
    """Whether blocks() knows files of this kind."""
    return path.suffix in C_SUFFIXES | SCRIPT_SUFFIXES | {".py", ".md"} or path.name in SCRIPT_NAMES


def blocks(path: Path) -> Iterator[Block]:
    """The comments, docstrings or paragraphs of a file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix in C_SUFFIXES:
        yield from _joined((n, line.strip()[2:]) for n, line in _lines(text) if line.strip().startswith("//"))
    elif path.suffix in SCRIPT_SUFFIXES or path.name in SCRIPT_NAMES:
        comments = ((n, line.strip()) for n, line in _lines(text))
        yield from _joined((n, line.lstrip("#")) for n, line in comments if re.match(r"#(?!!)", line))
    elif path.suffix == ".py":
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        own = (t for t in tokens if t.type == tokenize.COMMENT and t.line.strip().startswith("#"))
        yield from _joined((t.start[0], t.string.lstrip("#:")) for t in own)
        for token in tokens:
            if token.type == tokenize.STRING and token.line.strip().startswith('"""'):
                yield [(token.start[0] + i, line.strip().strip('"')) for i, line in _lines(token.string, first=0)]
    elif path.suffix == ".md":
        outside = re.sub(r"^```.*?^```$", lambda code: "\n" * code[0].count("\n"), text, flags=re.DOTALL | re.MULTILINE)
        yield from _joined((n, line) for n, line in _lines(outside) if line.strip())


def _lines(text: str, first: int = 1) -> Iterator[tuple[int, str]]:
    return enumerate(text.splitlines(), first)


def _joined(lines: Iterator[tuple[int, str]]) -> Iterator[Block]:
    """Lines that follow each other, as one block."""
    block: Block = []
    for number, line in lines:
        if block and number != block[-1][0] + 1:
            yield block
            block = []
        block.append((number, line.strip()))
    if block:
        yield block


def sentences(block: Block) -> Iterator[tuple[int, str]]:
    """Each sentence of a block, with the number of the line in which it begins. Empty lines end sentences, too."""
    text, lines = "", []
    for number, line in block:
        text += line + " "
        lines += [number] * (len(line) + 1)
    start = 0
    ends = (match.end() for match in re.finditer(r"(?<!e\.g)(?<!i\.e)[.!?]\s+|\s\|\s|\s[-*]\s|\s{2,}", text))
    for end in (*ends, len(text)):
        sentence = text[start:end].strip(" |*-")
        if sentence:
            yield lines[start], sentence
        start = end


def is_hard(sentence: str) -> bool:
    """Whether it has no subject, or begins with a clause, or has a subject without a noun: "That is …"."""
    if sentence.rstrip('"').endswith("?"):
        return bool(re.match(r"(Of|Whose)\b", sentence))
    return bool(re.match(rf"(Of|Whose|What|Where|As|Those|That {_VERB})\b", sentence))
