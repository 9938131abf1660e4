"""What Kafka's tools print, as people send it along: kafka-topics --describe, kafka-get-offsets, kafka-metadata-quorum.

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
from generators.brokerlogs.tailing.sequence_numbers import Numbering
from pipelines.printable import file_name
from schemas.event_types import CAUGHT_UP_MS, describe_quorum
from schemas.levels import POLLED
from schemas.replication_events import PRINTED, as_int

_TOPIC = re.compile(
    r"^Topic: ?(\S+)\t(?:TopicId: ?(\S+)\t)?PartitionCount: ?\d+\t(?:[^\n]*?Configs: ?(\S*))?", re.MULTILINE
)
_PARTITION = re.compile(
    r"^\tTopic: ?(\S+)\tPartition: ?(\d+)\tLeader: ?(none|-?\d+)\tReplicas: ?([\d,]*)\tIsr: ?([\d,]*)", re.MULTILINE
)
_OFFSET = re.compile(r"^([\w.-]+):(\d+):(\d+)[ \t]*$", re.MULTILINE)
_STATUS = re.compile(r"^LeaderId:\s+(\d+)\n(?:.*\n)*?CurrentVoters:\s+\[(.*)\]", re.MULTILINE)
_VOTER = re.compile(r"^(\d+)\s+(?:\S+\s+)?(?:\d+|-1)\s+\d+\s+-?\d+\s+(-?\d+)\s+(Leader|Follower)\b", re.MULTILINE)
_TIME = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)")
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
    """Reads prints, and keeps what is to be said of each file; `unread` are those that were left out."""

    lines: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    paths: set[Path] = field(default_factory=set)
    events: int = 0

    def read(self, paths: Sequence[Path], cluster: str, at: datetime | None = None) -> pa.Table | None:
        """The rows of what tools printed `at` a time, in bronze's schema; None where there are none."""
        self.paths.update(paths)
        prints, tables = list[_Print](), list[pa.Table]()
        for path in paths:
            text = LogBytes(path).read(_MOST).decode(errors="replace").replace("\r\n", "\n")
            ms = _printed_ms(text, at)
            if ms is None:
                self.unread.append(f"{original(str(path))}: {_NO_TIME}")
            else:
                prints.append(_Print(path, text, ms))
        for one in sorted(prints, key=lambda one: (one.ms, _VOTER.search(one.text) is not None, one.path)):
            describes = (other for other in prints if _PARTITION.search(other.text))
            rows = _rows(one, min(describes, key=lambda other: abs(other.ms - one.ms), default=one), cluster)
            when = datetime.fromtimestamp(one.ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
            if rows.num_rows:
                tables.append(rows)
                self.events += rows.num_rows
                self.lines.append(f"{one.source_id}: {rows.num_rows:,} events, as printed at {when}")
            else:
                self.unread.append(f"{original(str(one.path))}: {_NO_LEADERS}")
        return pa.concat_tables(tables) if tables else None


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


def _rows(one: _Print, described: _Print, cluster: str) -> pa.Table:
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
        told: dict[str, Any] = {
            "leader_id": _leader(leader),
            "isr": _ids(isr),
            "replicas": _ids(replicas),
            "detail": "metadata",
        }
        events.append(
            "isr", **about, **told, topic_id=topics.get(topic), place=partitions.place_of(f"{topic}-{number}")
        )
    for topic, number, offset in _OFFSET.findall(one.text):
        leader = leaders.get((topic, int(number)), -1)
        if leader >= 0:
            told = {"replica_id": leader, "hw": int(offset), "topic_id": topics.get(topic)}
            events.append("sample", **about, **told, place=partitions.place_of(f"{topic}-{number}"))
    for leader, detail in _quorums(one.text):
        events.append("broker_state", **about, replica_id=leader, detail=detail)
    return Numbering().number(events.table(cluster, one.source_id))


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
