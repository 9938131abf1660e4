"""Starts of leading and following: the offset, epochs, HW and ISR of a term (`state.change.logger`)."""

from __future__ import annotations

import re
from typing import Any

from generators.brokerlogs.events.event_builder import EventBuilder
from generators.brokerlogs.messages.broker_state import (
    BrokerLogState,
    Line,
    MessagePattern,
    append_row,
    broker_ids,
    broker_patterns,
)

ID = r"(?:Some\(|Optional\[)?([\w-]{22})[)\]]?"
"""A topic id, as Scala and Java print it."""


def _creating(broker: BrokerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    broker.record_topic_id(broker.partitions.place_of(match[1]), match[2], events)


def _recovering(broker: BrokerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    place = broker.partitions.place_of(match[1])
    broker.partitions.state["unclean"][place] = 1


def _begin_term(
    broker: BrokerLogState, line: Line, match: re.Match[str], events: EventBuilder
) -> dict[str, Any] | None:
    """Record the start of a term; returns what its row has as a leader's and as a follower's, None if not wanted."""
    place = broker.partitions.place_of(match[1])
    if not broker.wanted(place):
        return None
    epoch, partition_epoch = int(match[3]), _optional_int(match[5])
    broker.record_epochs(place, events, match[2], epoch, partition_epoch)
    broker.partitions.start_term(place)
    broker.proposed.pop(place, None)
    about = {"level": line.level, "place": place, "topic_id": broker.topic_id(place, events), "replica_id": line.broker}
    offsets = {"leo": int(match[4]), "hw": int(match[6])}
    return {**about, "leader_epoch": epoch, "partition_epoch": partition_epoch, **offsets}


def _leader(broker: BrokerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    if about := _begin_term(broker, line, match, events):
        broker.led.add(about["place"])
        state = broker.partitions.state[about["place"]]
        state["leader_leo"], state["hw"] = about["leo"], about["hw"]
        about |= {"leader_id": line.broker, "leader_leo": about["leo"], "unclean": 1 if state["unclean"] else None}
        append_row(events, "leader", line, isr=broker_ids(match[7]), **about)
        state["unclean"] = 0


def _follower(broker: BrokerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    if about := _begin_term(broker, line, match, events):
        broker.prints_followers = True
        broker.led.discard(about["place"])
        append_row(events, "follower", line, leader_id=_optional_int(match[7]), **about)


def _bare_start(broker: BrokerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    """A leader's start up to Kafka 2.5, which names no ISR.

    The HW of 2.5 is not taken: it may be of a term in which the broker followed, and no start of a follower is printed.
    """
    place = broker.partitions.place_of(match[1])
    if not broker.wanted(place):
        return
    epoch, leo = int(match[2]), int(match[3])
    broker.record_epochs(place, events, None, epoch, None)
    broker.partitions.start_term(place)
    broker.proposed.pop(place, None)
    about = {"leader_id": line.broker, "replica_id": line.broker, "leader_epoch": epoch}
    append_row(events, "election", line, level=line.level, place=place, leo=leo, committed=1, **about)


def _optional_int(text: str | None) -> int | None:
    return None if text is None else int(text)


_TERM = (
    r"(\S+)(?: with topic id (?:None|" + ID + r"))? starts at leader epoch (\d+) from offset (\d+) with "
    r"(?:partition epoch (\d+))?"
)
BARE_START: MessagePattern = (
    re.compile(
        r"(\S+-\d+) starts at [Ll]eader [Ee]poch (\d+) from offset (\d+)(?: with high watermark \d+)?\. Previous"
    ),
    _bare_start,
)
LEADERSHIP = broker_patterns(
    (_creating, r"Creating new partition (\S+) with topic id " + ID),
    (_recovering, r"The topic partition (\S+) was marked as RECOVERING\."),
    (_leader, "Leader " + _TERM + r"(?:, )?high watermark (\d+),? ISR \[([\d, ]*)\]"),
    (_follower, "Follower " + _TERM + r"(?: and )?high watermark (\d+)\.(?: Current leader is (-?\d+))?"),
)
"""Patterns by first word of the message."""
