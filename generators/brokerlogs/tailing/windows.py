"""Logs under names that people gave them: windows of one log, each over the end of the one before, and copies of it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from generators.brokerlogs.discovery.log_file import LogBytes
from generators.brokerlogs.discovery.sources import Source
from generators.brokerlogs.tailing.line_digests import line_digests
from generators.brokerlogs.tailing.told_lines import Stretch, Told

LARGEST = 256 << 20
"""Bytes; larger logs are not compared with others."""
_PIECE = 8 << 20
_KAFKAS = re.compile(
    r"/(server|controller|state-change|log-cleaner|kafka-[a-z]+|kafkaServer|replication|fetcher)\.(log|out)$"
)
"""Names in Kafka's log4j file or ours: in one call each is a log of its own, whatever lines it shares with others; one
given alone may be a copy."""
Spans = Sequence[Sequence[int]]
"""Times (us) between which a log told something: the first and the last one of each."""


class SameLogs(NamedTuple):
    """Sources that share lines: the id of the log of each, and of excerpts and what repeats lines that of the other."""

    ids: dict[str, str]
    excerpts: dict[str, str]
    """The source that has all lines of one which has none of its own, by the latter."""
    repeats: dict[str, str]
    """A source that has lines of a new one, by the new one."""

    def messages(self) -> list[str]:
        """Return what is said of them."""
        joined = [(name, log) for name, log in self.ids.items() if name != log]
        return [f"{name}: read as one log with {log}, which has the same lines" for name, log in joined] + [
            f"{name}: an excerpt of {log}, which has all of its lines, left out" for name, log in self.excerpts.items()
        ]


def same_logs(
    sources: Sequence[Source],
    known: Collection[str] = (),
    told: Callable[[str], Sequence[Stretch]] = lambda _: (),
) -> SameLogs:
    """Find the log of each source: its own, or that of a source with which a new one shares lines.

    `told` returns what was told of a source that is `known`. Of two that a new one joins the first is the log of both.
    """
    by_id = {source.source_id: source for source in sources}
    same, by_owner = SameLogs({name: name for name in by_id}, {}, {}), defaultdict[str, list[str]](list)
    for name in (*known, *(name for name in by_id if name not in known)):
        by_owner[owner(name)].append(name)
    for names in by_owner.values():
        new = {name for name in names if name not in known}
        if not new or len(names) == 1 or all(is_named_by_kafka(name) and name in by_id for name in names):
            continue
        logs = [(name, one) for name in names if name in known for one in told(name)]
        logs += [(name, _lines(by_id[name])) for name in names if name in by_id]
        own = {name for name in names if name in by_id and is_named_by_kafka(name)}
        _compare(logs, names, new, own, same)
    return same


def _compare(
    logs: Sequence[tuple[str, Stretch]], known_first: Sequence[str], new: set[str], own: set[str], same: SameLogs
) -> None:
    """Add what logs of one owner have in common to `same`; those of their `own` share none with each other."""
    ids, apart = same.ids, list[tuple[str, str]]()
    for k, j in _with_common_heads(logs):
        (name, stretch), (other, its_stretch) = logs[k], logs[j]
        if name == other or not new & {name, other} or own >= {name, other}:
            continue
        both = ids.get(name, name), ids.get(other, other)
        log, its = sorted(both, key=lambda one: (one in new, not is_named_by_kafka(one)))
        if not _overlap(stretch, its_stretch) or (log != its and own >= {log, its}):
            apart += [(name, other), (other, name)]
        else:
            ids.update({one: log for one in known_first if ids.get(one, one) == its})
    for part, whole in apart:
        lines = np.concatenate([one.lines(one.first, one.count) for name, one in logs if name == part])
        log = ids.get(whole, whole)
        all_lines = [one.lines(one.first, one.count) for name, one in logs if ids.get(name, name) == log]
        if log in same.excerpts or own >= {part, log} or log == ids.get(part, part):
            continue
        are_in = np.isin(lines[lines & 1 == 0], np.concatenate(all_lines))
        if are_in.all() and {part, whole} & new:
            same.excerpts[part] = log
            if part not in new:
                same.repeats[whole] = part
        elif are_in.any() and part in new and not is_named_by_kafka(part):
            same.repeats.setdefault(part, log)


def _with_common_heads(logs: Sequence[tuple[str, Stretch]]) -> list[tuple[int, int]]:
    """Return each two logs of which one has the head of the other, in the order of the logs."""
    heads = defaultdict[int, list[int]](list)
    for k, (_, stretch) in enumerate(logs):
        heads[_head(stretch)].append(k)
    pairs = set[tuple[int, int]]()
    for k, (_, stretch) in enumerate(logs):
        lines = stretch.lines(stretch.first, stretch.count)
        found = np.unique(lines[np.isin(lines, [*heads])]).tolist()
        pairs |= {(min(k, other), max(k, other)) for digest in found for other in heads[digest] if other != k}
    return sorted(pairs)


def _head(stretch: Stretch) -> int:
    """Return the digest of the second line that begins a message, as the first one may be cut, or of the only one."""
    lines = stretch.lines(stretch.first, stretch.count)
    return int(lines[np.flatnonzero(lines & 1 == 0)[:2][-1:]].sum())


def merge_sources(sources: Sequence[Source], same: SameLogs) -> list[Source]:
    """Return the sources under the ids of their logs, those of one log as one, without excerpts."""
    result = dict[str, Source]()
    for source in sources:
        if source.source_id in same.excerpts:
            continue
        source = replace(source, source_id=same.ids[source.source_id], repeats=same.repeats.get(source.source_id))
        first = result.get(source.source_id)
        result[source.source_id] = first.with_files_of(source) if first else source
    return [result[name] for name in sorted(result)]


def is_named_by_kafka(source_id: str) -> bool:
    """Whether a log has a name of Kafka's log4j file, or ours."""
    return _KAFKAS.search(source_id) is not None


def windows_after(windows: Sequence[tuple[str, Spans]], ts: int) -> tuple[list[str], bool]:
    """Return those that begin once another one has ended at `ts` (us), and True if lines between may be missing."""
    later = [name for name, spans in windows if spans[0][0] >= ts > 0]
    return later, bool(later) and not any(spans[0][0] < ts < spans[-1][1] for _, spans in windows)


def windows_before(windows: Sequence[tuple[str, Spans]], ts: int) -> tuple[list[str], bool]:
    """Return those that end before another one begins at `ts` (us), and True if lines between may be missing."""
    earlier = [name for name, spans in windows if spans[-1][1] <= ts]
    return earlier, bool(earlier) and not any(spans[0][0] < ts < spans[-1][1] for _, spans in windows)


def owner(source_id: str) -> str:
    """The part of a source's id before the name of its log."""
    return source_id.rpartition("/")[0]


def _lines(source: Source) -> Stretch:
    """Return the digests of all lines of a source's files; none if these are larger than LARGEST, or unreadable."""
    stretch, left = Stretch(), LARGEST
    try:
        entries = source.series.entries()
    except OSError:
        return stretch
    for entry in filter(lambda entry: entry.offered, entries):
        data, rest = LogBytes(entry.path), b""
        while piece := data.read(_PIECE):
            left -= len(piece)
            lines, newline, rest = (rest + piece).rpartition(b"\n")
            stretch.append(line_digests(lines + newline))
            if left < 0:
                return Stretch()
        if data.error:
            return Stretch()
    return stretch


def _overlap(stretch: Stretch, told: Stretch) -> bool:
    """Whether one begins within the other, but for a line that was cut, and both go on alike to the end of one.

    Lines that continue a message are no evidence, and neither is a single one that begins one.
    """
    lines = stretch.lines(stretch.first, stretch.count)
    return any(
        min(run.begin, run.at - told.first) <= 1
        and (run.end == len(lines) or run.told_end == told.count)
        and int((lines[run.begin : run.end] & 1 == 0).sum()) > 1
        for run in Told([told]).compare(lines, [(told, told.count)])[0]
    )
