"""What the rare lines of a broker have told of its partitions: topic ids, epochs, open proposals."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from generators.brokerlogs.events.event_builder import Telling
from generators.brokerlogs.events.source_state import Known

_NUMBER = re.compile(r"\d+")
_FIELD = re.compile(r"(\w+)=(\[[^\]]*\]|'[^']*'|[^,()\s]*)")


@dataclass
class Line:
    """One rare line: its time (ms), level, the broker and partition of its prefix, the message after that prefix."""

    ts: int
    level: int
    broker: int
    place: int
    message: str
    decided: int = -1
    """Of a fetcher's truncation: the line of the log layer that says whether it cut anything, -1 if there is none."""


@dataclass
class StateLog:
    """What one broker's rare lines have told so far."""

    known: Known
    names: dict[str, str] = field(default_factory=dict)
    """Topic id to topic."""
    proposed: dict[int, list[int]] = field(default_factory=dict)
    """Place to the ISR that was proposed and not answered yet."""

    def wanted(self, place: int) -> bool:
        """Whether events of this partition are asked for."""
        return place >= 0 and bool(self.known.state["wanted"][place])

    def term(self, place: int, telling: Telling) -> dict[str, Any]:
        """What is known of the term of a partition, as fields of a row."""
        state = self.known.state[place]
        return {
            "leader_epoch": state["leader_epoch"],
            "partition_epoch": state["partition_epoch"],
            "topic_id": self.topic_id(place, telling),
            "place": place,
        }

    def topic_id(self, place: int, telling: Telling) -> str | None:
        """The topic id of a partition."""
        k = int(self.known.state["topic_id"][place])
        return telling.topic_ids[k] if k >= 0 else None

    def epochs(self, place: int, telling: Telling, topic_id: str | None, leader: int | None, partition: int) -> None:
        """Remember the epochs and topic id that a line told."""
        state = self.known.state[place]
        if leader is not None:
            state["leader_epoch"] = leader
        state["partition_epoch"] = partition
        if topic_id:
            self.name(place, topic_id, telling)

    def name(self, place: int, topic_id: str, telling: Telling) -> None:
        """Remember the topic id of a partition."""
        topic = self.known.places[place][0]
        if topic:
            self.names[topic_id] = topic
        self.known.state["topic_id"][place] = telling.topic(topic_id)


def numbers(text: str) -> list[int]:
    """The broker ids in a printed set."""
    return [int(n) for n in _NUMBER.findall(text)]


def named(text: str) -> dict[str, str]:
    """The fields that a printed record names, whatever their order: versions of Kafka differ in it."""
    return dict(_FIELD.findall(text))


def recovering(state: str | None) -> bool | None:
    """Whether a printed leader recovery state (a number up to Kafka 4.1, a name since) says RECOVERING."""
    return None if state is None else state in ("RECOVERING", "1")


Tell = Callable[[StateLog, Line, re.Match[str], Telling], None]
Shape = tuple[re.Pattern[str], Tell]
"""What a line looks like after its prefix, and what it tells."""
