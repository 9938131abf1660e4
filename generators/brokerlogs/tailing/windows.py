"""Logs under names that people gave them: windows of one log, each over the end of the one before, and copies of it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from generators.brokerlogs.discovery.log_file import LogBytes
from generators.brokerlogs.discovery.sources import Source
from generators.brokerlogs.tailing.told_lines import Stretch, Told, line_digests

LARGEST = 256 << 20
"""Bytes; larger logs are not compared with others."""
_PIECE = 8 << 20
_KAFKAS = re.compile(
    r"/(server|controller|state-change|log-cleaner|kafka-[a-z]+|kafkaServer|replication|fetcher)\.(log|out)$"
)
"""Names in Kafka's log4j file or ours: each is a log of its own, whatever lines it has in common with others."""
Spans = Sequence[Sequence[int]]
"""Times (us) between which a log told something: the first and the last one of each."""


def same_logs(
    sources: Sequence[Source],
    known: Collection[str] = (),
    told: Callable[[str], Sequence[Stretch]] = lambda _: (),
) -> dict[str, str]:
    """Map the id of each source to that of its log: its own, or that of a source with which a new one shares lines.

    `told` returns what was told of a source that is `known`. Of two that a new one joins the first is the log of both.
    """
    by_id = {source.source_id: source for source in sources}
    ids, by_owner = {name: name for name in by_id}, defaultdict[str, list[str]](list)
    for name in (*known, *(name for name in by_id if name not in known)):
        by_owner[owner(name)].append(name)
    for names in by_owner.values():
        new = {name for name in names if name not in known}
        if not new or len(names) == 1 or all(map(is_named_by_kafka, names)):
            continue
        logs = [(name, one) for name in names for one in ([_lines(by_id[name])] if name in new else told(name))]
        for name, other in _overlapping(logs):
            if name != other and new & {name, other} and not (is_named_by_kafka(name) and is_named_by_kafka(other)):
                both = ids.get(name, name), ids.get(other, other)
                log, its = sorted(both, key=lambda one: (one not in known, not is_named_by_kafka(one)))
                if is_named_by_kafka(log) and is_named_by_kafka(its):
                    continue
                ids |= {one: log for one in names if ids.get(one, one) == its}
    return ids


def _overlapping(logs: Sequence[tuple[str, Stretch]]) -> Iterator[tuple[str, str]]:
    """Yield the names of each two logs of which one begins within the other, in the order of the logs."""
    heads = defaultdict[int, list[int]](list)
    for k, (_, stretch) in enumerate(logs):
        heads[_head(stretch)].append(k)
    pairs = set[tuple[int, int]]()
    for k, (_, stretch) in enumerate(logs):
        lines = stretch.lines(stretch.first, stretch.count)
        found = np.unique(lines[np.isin(lines, [*heads])]).tolist()
        pairs |= {(min(k, other), max(k, other)) for digest in found for other in heads[digest] if other != k}
    for k, other in sorted(pairs):
        if _overlap(logs[k][1], logs[other][1]):
            yield logs[k][0], logs[other][0]


def _head(stretch: Stretch) -> int:
    """Return the digest of the second line that begins a message, as the first one may be cut; 0 if there is none."""
    lines = stretch.lines(stretch.first, stretch.count)
    return int(lines[np.flatnonzero(lines & 1 == 0)[1:2]].sum())


def merge_sources(sources: Sequence[Source], ids: Mapping[str, str]) -> list[Source]:
    """Return the sources under these ids, those of one id as one."""
    result = dict[str, Source]()
    for source in sources:
        source = replace(source, source_id=ids[source.source_id])
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
    for entry in entries:
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
        for run in Told([told]).lay(lines, [(told, told.count)])
    )
