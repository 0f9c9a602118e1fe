"""The commands of a program by stream, in a form whose size does not grow with the program."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch_mydev import _C

_LIMIT = 4_000_000  #: commands that are kept, of 40 bytes each; later ones are counted
_BARS = 80_000  #: of all streams, of some 25 bytes in a page each


@dataclass(frozen=True)
class Bar:
    """One command, or several of a stream that follow each other."""

    begin: int  #: nanoseconds since the first command
    end: int
    name: int  #: of the command that takes most of the time, as a place in Timeline.names
    count: int


@dataclass(frozen=True)
class Timeline:
    """All bars, by stream."""

    streams: list[tuple[int, int]]  #: device and stream id
    names: list[tuple[str, str]]  #: kind and name
    bars: list[list[Bar]]  #: of each stream, in the order in which they begin
    begin_ns: int  #: of the first command, by time.monotonic_ns
    commands: int  #: that the bars are of
    omitted: int  #: commands that were too many to be kept
    merged_within: int  #: nanoseconds: commands that begin within so many are one bar; 0: each is a bar of its own


def begin() -> None:
    """Begins to keep commands."""
    _C._begin_timeline(_LIMIT)


def end() -> Timeline:
    """Ends it; the time line of what has run since."""
    streams, names, packed, omitted = _C._end_timeline()
    numbers = array("q")
    numbers.frombytes(packed)
    return make_timeline(streams, names, numbers, omitted, _BARS)


def make_timeline(
    streams: list[tuple[int, int]], names: list[tuple[str, str]], numbers: Sequence[int], omitted: int, most: int
) -> Timeline:
    """A time line of at most ``most`` bars. ``numbers`` has begin, end, stream and name of each command."""
    commands = len(numbers) // 4
    begins = numbers[0::4]
    first = min(begins, default=0)
    by_stream: list[list[int]] = [[] for _ in streams]
    for command, stream in enumerate(numbers[2::4]):
        by_stream[stream].append(command)
    for of_stream in by_stream:
        of_stream.sort(key=begins.__getitem__)
    width = 0
    last = max(numbers[1::4], default=0)
    while True:
        bars = [list(_bars(of_stream, numbers, first, width)) for of_stream in by_stream]
        if sum(map(len, bars)) <= most:
            return Timeline(streams, names, bars, first, commands, omitted, width)
        width = max(2 * width, (last - first) // most + 1)


def _bars(of_stream: Sequence[int], numbers: Sequence[int], first: int, width: int) -> Iterator[Bar]:
    """The commands of a stream, where those that begin within ``width`` nanoseconds are one bar."""
    position = 0
    while position < len(of_stream):
        begin = numbers[4 * of_stream[position]]
        end, count, spent = begin, 0, Counter[int]()
        while position < len(of_stream):
            at = 4 * of_stream[position]
            if count and numbers[at] - begin >= width:
                break
            end = max(end, numbers[at + 1])
            spent[numbers[at + 3]] += numbers[at + 1] - numbers[at]
            count += 1
            position += 1
        yield Bar(begin - first, end - first, spent.most_common(1)[0][0], count)
