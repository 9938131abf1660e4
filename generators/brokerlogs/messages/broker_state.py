"""The state of a broker's partitions from its rare lines: topic ids, epochs, open ISR proposals."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from generators.brokerlogs.events.event_builder import EventBuilder
from generators.brokerlogs.events.event_rows import UNKNOWN
from generators.brokerlogs.events.source_state import PartitionStates

_NUMBER = re.compile(r"\d+")
_FIELD = re.compile(r"(\w+)=(\[[^\]]*\]|'[^']*'|[^,()\s]*)")


@dataclass
class Line:
    """A rare line: time (ms), level, broker and partition (place) of its prefix, and the message after that prefix."""

    ts: int
    level: int
    broker: int
    place: int
    message: str
    log_layer_line: int = -1
    """Of a fetcher's truncation: the line of UnifiedLog that says whether anything was cut, -1 if there is none."""
    directory: str | None = None
    """The log directory of its prefix."""
    moves: bool = False
    """Whether a thread printed it that moves replicas between log directories."""


def append_row(events: EventBuilder, type: str, line: Line, level: int = 0, **fields: Any) -> None:
    """Append a row with the time and the broker of a line; `fields` as in EventBuilder.append."""
    events.append(type, line.ts, line.broker, level, **fields)


@dataclass
class BrokerLogState:
    """The state from one broker's rare lines."""

    partitions: PartitionStates
    names: dict[str, str] = field(default_factory=dict)
    """Topic id to topic."""
    proposed: dict[int, list[int]] = field(default_factory=dict)
    """ISR that was proposed and not answered yet, by place."""
    moving_to: dict[int, str] = field(default_factory=dict)
    """The directory of the future log of a replica that is moved to it, by place."""
    led: set[int] = field(default_factory=set)
    """Places of the partitions that the broker leads by their last start."""
    prints_followers: bool = False
    """Whether the source prints the starts of followers (Kafka 2.6 and later)."""
    loaded_hws: dict[int, int] = field(default_factory=dict)
    """By place the HW with which a log was loaded, until it is cut."""
    answers: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By place the leader epoch and its end that a leader answered, until the log is cut."""
    named: int = -1
    """The broker that the last line with one names, -1 before the first one that was read since the reader began."""

    def wanted(self, place: int) -> bool:
        """Whether events of this partition are wanted (internal topics may not be)."""
        return place >= 0 and bool(self.partitions.state["wanted"][place])

    def term_fields(self, place: int, events: EventBuilder) -> dict[str, Any]:
        """The current term of a partition, as fields of a row."""
        state = self.partitions.state[place]
        return {
            "leader_epoch": state["leader_epoch"],
            "partition_epoch": state["partition_epoch"],
            "topic_id": self.topic_id(place, events),
            "place": place,
        }

    def topic_id(self, place: int, events: EventBuilder) -> str | None:
        """The topic id of a partition, None while unknown."""
        k = int(self.partitions.state["topic_id"][place])
        return events.topic_ids[k] if k >= 0 else None

    def record_epochs(
        self, place: int, events: EventBuilder, topic_id: str | None, leader: int | None, partition: int | None
    ) -> None:
        """Set leader epoch and topic id (where not None) and partition epoch (None: unknown) of a partition."""
        state = self.partitions.state[place]
        if leader is not None:
            state["leader_epoch"] = leader
        state["partition_epoch"] = UNKNOWN if partition is None else partition
        if topic_id:
            self.record_topic_id(place, topic_id, events)

    def record_topic_id(self, place: int, topic_id: str, events: EventBuilder) -> None:
        """Set the topic id of a partition."""
        topic = self.partitions.places[place][0]
        if topic:
            self.names[topic_id] = topic
        self.partitions.state["topic_id"][place] = events.topic_number(topic_id)


def broker_ids(text: str) -> list[int]:
    """The broker ids in a printed list or set."""
    return [int(n) for n in _NUMBER.findall(text)]


def printed_fields(text: str) -> dict[str, str]:
    """The fields of a printed record by name: their order differs between versions of Kafka."""
    return dict(_FIELD.findall(text))


def is_recovering(state: str | None) -> bool | None:
    """Whether a printed leader recovery state (a number up to Kafka 4.1, a name since) is RECOVERING; None for None."""
    return None if state is None else state in ("RECOVERING", "1")


Handler = Callable[[BrokerLogState, Line, re.Match[str], EventBuilder], None]
MessagePattern = tuple[re.Pattern[str], Handler]
"""The pattern of a message after its prefix, and the function that appends its rows."""


def broker_patterns(*shapes: tuple[Handler, str]) -> dict[str, MessagePattern]:
    """Patterns by the first word of their messages."""
    return {first_word(text): (re.compile(text), handle) for handle, text in shapes}


def first_word(pattern: str) -> str:
    """The first word of messages that fit a pattern, which begins with it."""
    return pattern.partition(" ")[0].strip("()")
