"""The lines of a source that were told, as a sequence of digests, and where the lines of a file lie on it.

A file is known by its lines, wherever it begins and whatever it is called: runs of lines that were told in the same
order are the same lines. Equal single lines are not: a broker may print one twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from generators.brokerlogs.scanning.arrays import Array, compiled
from generators.brokerlogs.tailing.line_digests import Digests, Mask

REMEMBERED = 4_000_000
"""Lines of a source that are known for certain, 32 MB of digests and about a gigabyte of log."""
REMEMBERED_BY_ALL = 32_000_000
"""Lines that the sources of one call remember together, each an equal share: 256 MB, and up to twice that."""
_CHOSEN = 128
"""One line of so many is looked up in all that was told: about one in 32 KiB."""
_OCCURRENCES = 16
"""Places of one digest that are tried: lines that are more frequent than that say little."""
_BLOCK = 1 << 12


def remembered(sources: int) -> int:
    """The number of lines that each of so many sources remembers."""
    return min(REMEMBERED, REMEMBERED_BY_ALL // max(sources, 1))


class Stretch:
    """Digests of the lines that were already reported from one source, in order.

    Lines are added at the end. The last REMEMBERED lines are kept unless `forget` is called, older ones may be dropped.
    """

    def __init__(self, digests: Digests | None = None, first: int = 0, starts: Sequence[int] = ()) -> None:
        self._digests = np.zeros(0, np.int64) if digests is None else digests
        self.first, self.count = first, first + len(self._digests)
        """Numbers of the first line that is remembered, and of the next one to come."""
        self.starts = list(starts)
        """Numbers of lines with which a file began, or what was not told of one."""

    def append(self, digests: Digests) -> None:
        """Add lines at the end."""
        used = self.count - self.first
        if used + len(digests) > len(self._digests):
            drop = max(0, used + len(digests) - REMEMBERED) if used > 2 * REMEMBERED else 0
            grown = np.zeros(max(1024, 2 * (used - drop + len(digests))), np.int64)
            grown[: used - drop] = self._digests[drop:used]
            self._digests, self.first, used = grown, self.first + drop, used - drop
        self._digests[used : used + len(digests)] = digests
        self.count += len(digests)

    def forget(self, before: int) -> None:
        """Drop the lines before this number if they are more than half of what is remembered."""
        used = self.count - self.first
        if (drop := before - self.first) > used // 2:
            self._digests, self.first = self._digests[drop:used].copy(), before

    def until(self, end: int) -> Stretch:
        """A copy of the lines before number `end`."""
        starts = [start for start in self.starts if start < end]
        return Stretch(self.lines(self.first, end).copy(), min(self.first, end), starts)

    def lines(self, begin: int, end: int) -> Digests:
        """Digests of the lines from number `begin` up to `end`, as far as they are remembered."""
        return self._digests[max(begin - self.first, 0) : max(min(end, self.count) - self.first, 0)]


class Run(NamedTuple):
    """Lines `begin` to `end` of a piece of a file are lines of a stretch, the first one its number `at`."""

    begin: int
    end: int
    stretch: Stretch
    at: int

    @property
    def told_end(self) -> int:
        """The number in the stretch of the line after the run."""
        return self.at + self.end - self.begin


@dataclass
class Told:
    """All stretches of one source; `compare` finds the lines of a file on them."""

    stretches: list[Stretch] = field(default_factory=list)
    _places: dict[int, list[tuple[Stretch, int]]] = field(default_factory=dict)
    _indexed: dict[int, int] = field(default_factory=dict)
    _forgotten: int = 0
    """Lines that were forgotten when the places were looked up."""

    def limits(self) -> list[tuple[Stretch, int]]:
        """Each stretch with its present end."""
        return [(stretch, stretch.count) for stretch in self.stretches if stretch.count]

    def compare(
        self, digests: Digests, limits: Sequence[tuple[Stretch, int]], *, begins: bool = True, after: Run | None = None
    ) -> tuple[list[Run], Mask]:
        """Return the runs of a piece of a file within `limits`, in order, and which lines outside them were told alone.

        None is over another. `begins`: the file begins with this piece. `after`: the run with which the piece before it
        ended.
        """
        runs: list[Run] = []
        alone = np.zeros(len(digests), np.bool_)
        ends = {id(stretch): end for stretch, end in limits}
        if after is not None and id(after.stretch) in ends:
            told = after.stretch.lines(after.told_end, ends[id(after.stretch)])
            if length := _common(digests, told):
                runs.append(Run(0, length, after.stretch, after.told_end))
        if not limits or (runs and runs[0].end == len(digests)):
            return runs, alone
        self._index()
        found: list[Run] = []
        for line, stretch, number in self._candidates(digests, limits, begins):
            if number >= ends.get(id(stretch), 0) or any(
                run.begin <= line < run.end and run.stretch is stretch and run.at - run.begin == number - line
                for run in found
            ):
                continue
            found.append(_extended(digests, line, stretch, number, ends[id(stretch)]))
        for run in sorted(found, key=lambda run: run.begin - run.end):
            seam = run.begin in {0 if begins or after else -1, *(other.end for other in runs)}
            if _is_evidence(digests, run, seam=seam):
                runs.extend(_trimmed(run, runs))
        if (unknown := _outside(digests, runs)).any():
            for stretch, end in limits:
                alone |= unknown & are_in(digests, stretch.lines(stretch.first, end))
        return sorted(runs), alone

    def _index(self) -> None:
        if (forgotten := sum(stretch.first for stretch in self.stretches)) != self._forgotten:
            self._places, self._indexed, self._forgotten = {}, {}, forgotten
        for stretch in self.stretches:
            begin = max(self._indexed.get(id(stretch), 0), stretch.first)
            lines = stretch.lines(begin, stretch.count)
            for k in np.flatnonzero((lines >> 1) % _CHOSEN == 0).tolist():
                places = self._places.setdefault(int(lines[k]), [])
                if len(places) < _OCCURRENCES:
                    places.append((stretch, begin + k))
            self._indexed[id(stretch)] = stretch.count

    def _candidates(
        self, digests: Digests, limits: Sequence[tuple[Stretch, int]], begins: bool
    ) -> Iterator[tuple[int, Stretch, int]]:
        """Lines of the piece that may be lines of a stretch."""
        for k in np.flatnonzero((digests >> 1) % _CHOSEN == 0).tolist():
            yield from ((k, stretch, number) for stretch, number in self._places.get(int(digests[k]), ()))
        dated = np.flatnonzero(digests & 1 == 0)
        if not len(dated):
            return
        for stretch, end in limits:
            told = stretch.lines(stretch.first, end)
            if begins or len(digests) < 4 * _CHOSEN:
                for k in {int(dated[0]), int(dated[-1])}:
                    yield from ((k, stretch, stretch.first + n) for n in _occurrences(told, digests[k]))
            known = np.flatnonzero(told & 1 == 0) if len(told) < _CHOSEN else _outermost(told)
            starts = (start - stretch.first for start in stretch.starts[-_OCCURRENCES:])
            starts = (n for n in starts if 0 <= n < len(told) and told[n] & 1 == 0)
            for n in {*known[:1].tolist(), *known[-1:].tolist(), *starts}:
                yield from ((k, stretch, stretch.first + n) for k in _occurrences(digests, told[n]))


def _outermost(told: Digests) -> npt.NDArray[np.int64]:
    """The first and the last line of these that has a time, looked for near both ends."""
    head, tail = np.flatnonzero(told[:_BLOCK] & 1 == 0), np.flatnonzero(told[-_BLOCK:] & 1 == 0)
    return np.concatenate([head[:1], tail[-1:] + max(len(told) - _BLOCK, 0)])


def _occurrences(digests: Digests, digest: np.int64) -> list[int]:
    return [int(k) for k in np.flatnonzero(digests == digest)[-_OCCURRENCES:]]


def are_in(digests: Digests, told: Digests) -> Mask:
    """A mask of those that are among the told ones, which may be many more."""
    ordered, few = np.sort(digests), np.zeros(1 << 16 << (len(digests) >> 10).bit_length(), np.bool_)
    few[(digests >> 1) & (few.size - 1)] = True
    found: Mask = _found(ordered, few, told)[np.searchsorted(ordered, digests)]
    return found


@compiled
def _found(ordered: Array, few: Array, told: Array) -> Array:
    """A mask of the ordered digests that are among the told ones; `few`, their lower bits, rule most of them out."""
    found = np.zeros(ordered.size, np.bool_)
    for digest in told:
        if few[(digest >> 1) & (few.size - 1)]:
            at = np.searchsorted(ordered, digest)
            if at < ordered.size and ordered[at] == digest:
                found[at] = True
    return found


def _common(a: Digests, b: Digests) -> int:
    """The number of lines at the beginning of both that are equal."""
    length = min(len(a), len(b))
    for begin in range(0, length, _BLOCK):
        end = min(begin + _BLOCK, length)
        ours, theirs = a[begin:end], b[begin:end]
        # Lines that continue a message are it whatever stands before each of them. Else the last bit does not count:
        # earlier versions knew less well what continues a message.
        if len(different := np.flatnonzero(((ours ^ theirs) & ~1 != 0) & (ours & theirs & 1 == 0))):
            return begin + int(different[0])
    return length


def _extended(digests: Digests, line: int, stretch: Stretch, number: int, end: int) -> Run:
    """The longest run with this line at this number."""
    forward = _common(digests[line:], stretch.lines(number, end))
    back = _common(digests[:line][::-1], stretch.lines(stretch.first, number)[::-1])
    return Run(line - back, line + forward, stretch, number - back)


def _is_evidence(digests: Digests, run: Run, *, seam: bool) -> bool:
    """Whether the lines of the run are the same lines, and not others that are equal.

    A single line is if it stands at a `seam`, the beginning of a file or the end of another run, there and here.
    """
    if run.end - run.begin > 1:
        return bool((digests[run.begin : run.end] & 1 == 0).any())
    return run.end > run.begin and seam and run.at in run.stretch.starts


def _outside(digests: Digests, runs: Sequence[Run]) -> Mask:
    """The lines outside of runs that begin a message."""
    outside: Mask = digests & 1 == 0
    for run in runs:
        outside[run.begin : run.end] = False
    return outside


def has_no_others(digests: Digests, runs: Sequence[Run], alone: Mask) -> bool:
    """Whether all lines of a piece that begin a message are in runs or `alone`."""
    return bool((_outside(digests, runs) == alone).all())


def _trimmed(run: Run, others: Sequence[Run]) -> list[Run]:
    """The run without what others have of it; nothing where they have its middle."""
    begin, end = run.begin, run.end
    for other in others:
        if other.begin <= begin < other.end:
            begin = other.end
        if other.begin < end <= other.end:
            end = other.begin
        if begin < other.begin < end:
            end = other.begin
    return [Run(begin, end, run.stretch, run.at + begin - run.begin)] if end > begin else []
