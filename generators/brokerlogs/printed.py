"""Prints of Kafka's tools, as people send them: kafka-topics --describe, kafka-get-offsets, kafka-metadata-quorum.

Each file is a source of its own, named by its content, so that one given twice is told once. It says how things were at
one time, which stands in no print but that of kafka-metadata-quorum --replication: it has to be told (`printed_at`), or
to be in the first lines, as `date -u +%FT%TZ` writes it. The time of a file is that of its last copy, and says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa

from generators.brokerlogs.discovery.log_file import LogBytes, original
from generators.brokerlogs.events.event_builder import EventBuilder, TopicIds
from generators.brokerlogs.events.source_state import PartitionStates
from generators.brokerlogs.messages.controller_state import METADATA_LOG
from generators.brokerlogs.scanning.masking import masked_line
from generators.brokerlogs.tailing.sequence_numbers import Numbering
from pipelines.printable import file_name
from schemas.event_types import CAUGHT_UP_MS, describe_quorum
from schemas.levels import POLLED
from schemas.replication_events import PRINTED, as_int

_TOPIC = re.compile(
    r"^Topic: ?(\S+)[ \t]+(?:TopicId: ?(\S+)[ \t]+)?PartitionCount: ?\d+(?:[^\n]*?Configs: ?(\S*))?", re.MULTILINE
)
_PARTITION = re.compile(
    r"^[ \t]+Topic: ?(\S+)[ \t]+Partition: ?(\d+)[ \t]+Leader: ?(none|-?\d+)[ \t]+Replicas: ?([\d,]*)"
    r"[ \t]+Isr: ?([\d,]*)",
    re.MULTILINE,
)
_OFFSET = re.compile(r"^([\w.-]+):(\d+):(\d+)[ \t]*$", re.MULTILINE)
_STATUS = re.compile(r"^LeaderId:\s+(\d+)\n(?:.*\n)*?CurrentVoters:\s+\[(.*)\]", re.MULTILINE)
_VOTER = re.compile(r"^(\d+)\s+(?:\S+\s+)?(?:\d+|-1)\s+\d+\s+-?\d+\s+(-?\d+)\s+(Leader|Follower)\b", re.MULTILINE)
_TIME = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)")
_ASIDE = re.compile(
    r"^(?:ClusterId|LeaderId|LeaderEpoch|HighWatermark|MaxFollowerLag\w*|Current(?:Voters|Observers)):|^NodeId\s"
    r"|^\d+\s.*\bObserver\b|^\s*[$#>]|\bkafka-[\w-]+(?:\.sh)?\b",
    re.MULTILINE,
)
"""Lines that belong to a print and are read elsewhere or not at all: headers, observers, the command itself."""
_UNDERSTOOD = re.compile("|".join(f"(?:{form.pattern}[^\\n]*)" for form in (_TOPIC, _PARTITION, _OFFSET, _VOTER)), re.M)
_FIRST_LINES = 5
_MOST = 64 << 20
_NO_TIME = (
    "printed by one of Kafka's tools, it does not say when: name that with --printed-at 2026-11-28T03:00Z, or have its "
    "first line printed by `date -u +%FT%TZ`"
)
_NO_LEADERS = "offsets of which nothing says who leads: give what kafka-topics --describe prints at that time, too"


@dataclass(frozen=True)
class _Print:
    path: Path
    text: str
    ms: int

    @property
    def source_id(self) -> str:
        name = original(self.path.name)
        return file_name(f"{PRINTED}{name}@{sha256(f'{self.ms} {self.text}'.encode()).hexdigest()[:8]}")


@dataclass
class Printed:
    """Reads prints, and keeps what is to be said of each file; `unread` are those of which not all was read."""

    lines: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    events: int = 0
    stamps: dict[Path, tuple[int, int]] = field(default_factory=dict)
    """By file that was read its size and time then."""

    def read(self, paths: Sequence[Path], cluster: str, at: datetime | None = None) -> pa.Table | None:
        """The rows of what tools printed `at` a time into files that are new, in bronze's schema; None without any."""
        prints, tables = list(self._prints(paths, at)), list[pa.Table]()
        for one in sorted(prints, key=lambda one: (one.ms, _VOTER.search(one.text) is not None, one.path)):
            describes = (other for other in prints if _PARTITION.search(other.text))
            described = min(describes, key=lambda other: abs(other.ms - one.ms), default=one)
            rows, leaderless = _rows(one, described, cluster)
            when = datetime.fromtimestamp(one.ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
            if rows.num_rows:
                tables.append(rows)
                self.events += rows.num_rows
                self.lines.append(f"{one.source_id}: {rows.num_rows:,} events, as printed at {when}")
            if leaderless:
                self.unread.append(f"{original(str(one.path))}: {leaderless:,} {_NO_LEADERS}")
        return pa.concat_tables(tables) if tables else None

    def _prints(self, paths: Sequence[Path], at: datetime | None) -> Iterator[_Print]:
        """The texts of new files whose time is known."""
        for path in paths:
            stamp = _stamp(path)
            if self.stamps.get(path) == stamp:
                continue
            self.stamps[path] = stamp
            content, problem = _content(path)
            text = content.decode(errors="replace").replace("\r\n", "\n")
            ms = None if problem else _printed_ms(text, at)
            if problem or ms is None:
                self.unread.append(problem or f"{original(str(path))}: {_NO_TIME}")
                continue
            if strange := _strange_lines(text):
                first = masked_line(strange[0].encode())
                count = f"{len(strange):,} lines of this print are not understood"
                self.unread.append(f"{original(str(path))}: {count}, the first: {first}")
            yield _Print(path, text, ms)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        stat = path.stat()
    except OSError:
        return -1, -1
    return stat.st_size, stat.st_mtime_ns


def _content(path: Path) -> tuple[bytes, str | None]:
    """The bytes of a file, and why not all of them are there."""
    data, content = LogBytes(path), bytearray()
    while len(content) <= _MOST and (piece := data.read(_MOST)):
        content += piece
    large = f"{original(str(path))}: more than 64 MiB, too large for a print, unread" if len(content) > _MOST else None
    return bytes(content), data.error or data.damage or large


def _strange_lines(text: str) -> list[str]:
    """The lines that no form of a print fits; among the first ones may be the time."""
    rest = _UNDERSTOOD.sub("", text).split("\n")
    return [
        line
        for k, line in enumerate(rest)
        if line.strip() and not _ASIDE.search(line) and not (k < _FIRST_LINES and _TIME.search(line))
    ]


def _printed_ms(text: str, at: datetime | None) -> int | None:
    """When it was printed, in milliseconds since 1970."""
    if at is not None:
        return round(at.timestamp() * 1000)
    clocks = [int(caught_up) for _, caught_up, role in _VOTER.findall(text) if role == "Leader"]
    if clocks:
        return clocks[0]
    first = "\n".join(text.split("\n", _FIRST_LINES)[:_FIRST_LINES])
    said = _TIME.search(first)
    return round(datetime.fromisoformat(said[0].replace(",", ".")).timestamp() * 1000) if said else None


def _rows(one: _Print, described: _Print, cluster: str) -> tuple[pa.Table, int]:
    """The rows of a print, and of how many of its offsets it is not known who leads."""
    partitions, ids = PartitionStates(True), TopicIds()
    events = EventBuilder(1024, partitions, ids)
    topics = {
        topic: None if topic_id in ("", None) else topic_id for topic, topic_id, _ in _TOPIC.findall(described.text)
    }
    leaders = {(topic, int(n)): _leader(leader) for topic, n, leader, *_ in _PARTITION.findall(described.text)}
    about: dict[str, Any] = {"ts": one.ms, "broker_id": METADATA_LOG, "level": POLLED}
    for topic, _, configs in _TOPIC.findall(one.text):
        min_isr = as_int(dict(c.partition("=")[::2] for c in configs.split(",")).get("min.insync.replicas", ""))
        if min_isr is not None:
            events.append("config", **about, place=partitions.place_of_topic(topic), min_isr=min_isr)
    for topic, number, leader, replicas, isr in _PARTITION.findall(one.text):
        told: dict[str, Any] = {"leader_id": _leader(leader), "isr": _ids(isr), "replicas": _ids(replicas)}
        told |= {"topic_id": topics.get(topic), "place": partitions.place_of(f"{topic}-{number}")}
        events.append("isr", **about, **told, detail="metadata")
    leaderless = 0
    for topic, number, offset in _OFFSET.findall(one.text):
        leader = leaders.get((topic, int(number)), -1)
        leaderless += leader < 0
        if leader >= 0:
            told = {"replica_id": leader, "hw": int(offset), "topic_id": topics.get(topic)}
            events.append("sample", **about, **told, place=partitions.place_of(f"{topic}-{number}"))
    for leader, detail in _quorums(one.text):
        events.append("broker_state", **about, replica_id=leader, detail=detail)
    return Numbering().number(events.table(cluster, one.source_id)), leaderless


def _quorums(text: str) -> Iterator[tuple[int, str]]:
    """The active controller, and how its quorum stands, in the words of a watcher."""
    voters = [(int(node), int(caught_up), role) for node, caught_up, role in _VOTER.findall(text)]
    for leader, present, role in voters:
        if role == "Leader":
            yield leader, describe_quorum({n: at >= present - CAUGHT_UP_MS for n, at, _ in voters})
    for leader, listed in _STATUS.findall(text):
        named = re.findall(r'"id": (\d+)', listed) or re.findall(r"\d+", listed)
        yield int(leader), describe_quorum(dict.fromkeys(map(int, named)))


def _leader(printed: str) -> int:
    return -1 if printed == "none" else int(printed)


def _ids(printed: str) -> list[int]:
    return [int(one) for one in printed.split(",") if one]
