"""Logs under names that people gave them: windows of one log, each over the end of the one before, and copies of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache

from generators.brokerlogs.discovery.log_file import LogBytes
from generators.brokerlogs.discovery.sources import Source
from generators.brokerlogs.tailing.told_lines import Stretch, Told, line_digests

LARGEST = 256 << 20
"""Bytes of a log that is compared with others."""
_PIECE = 8 << 20
_KAFKAS = re.compile(
    r"/(server|controller|state-change|log-cleaner|kafka-[a-z]+|kafkaServer|replication|fetcher)\.(log|out)$"
)
"""Names in Kafka's log4j file or ours: each is a log of its own, whatever lines it has in common with others."""


def same_logs(
    sources: Sequence[Source],
    known: Collection[str] = (),
    told: Callable[[str], Sequence[Stretch]] = lambda _: (),
) -> dict[str, str]:
    """By id of each source that of the log that it is of: its own, but where a new one holds lines of another.

    `told` returns what was told of a source that is `known`.
    """
    by_id = {source.source_id: source for source in sources}
    ids, new = {name: name for name in by_id}, [name for name in by_id if name not in known]

    @cache
    def lines(name: str) -> Sequence[Stretch]:
        return told(name) if name in known else [_lines(by_id[name])]

    for k, own in enumerate(new):
        others = [name for name in (*known, *new[:k]) if _may_be_one(name, own)]
        if same := [name for name in others if any(_overlap(lines(own)[0], one) for one in lines(name))]:
            log, logs = ids.get(same[0], same[0]), {own, *(ids.get(name) for name in same)}.difference(known)
            ids |= {name: log for name, its in ids.items() if its in logs}
    return ids


def merged(sources: Sequence[Source], ids: Mapping[str, str]) -> list[Source]:
    """The sources under these ids, those of one id as one."""
    result = dict[str, Source]()
    for source in sources:
        source = replace(source, source_id=ids[source.source_id])
        first = result.get(source.source_id)
        result[source.source_id] = first.with_files_of(source) if first else source
    return [result[name] for name in sorted(result)]


def owner(source_id: str) -> str:
    """The part of a source's id before the name of its log."""
    return source_id.rpartition("/")[0]


def _may_be_one(source_id: str, other: str) -> bool:
    return owner(source_id) == owner(other) and not (_KAFKAS.search(source_id) and _KAFKAS.search(other))


def _lines(source: Source) -> Stretch:
    """All lines of a source's files; none where these are too many, or cannot be read."""
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
