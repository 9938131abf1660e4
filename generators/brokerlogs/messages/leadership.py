"""Terms: who leads from which offset, who follows (`state.change.logger`)."""

from __future__ import annotations

import re

from generators.brokerlogs.events.event_builder import Telling
from generators.brokerlogs.messages.broker_state import Line, Shape, StateLog, numbers

ID = r"(?:Some\(|Optional\[)?([\w-]{22})[)\]]?"
"""A topic id, as Scala and Java print it."""


def _creating(log: StateLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    log.name(log.known.place(m[1]), m[2], telling)


def _recovering(log: StateLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    place = log.known.place(m[1])
    log.known.state["unclean"][place] = 1


def _leader(log: StateLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    place = log.known.place(m[1])
    if not log.wanted(place):
        return
    epoch, leo, partition_epoch, hw = int(m[3]), int(m[4]), int(m[5]), int(m[6])
    log.epochs(place, telling, m[2], epoch, partition_epoch)
    state = log.known.state[place]
    log.known.forget(place)
    log.proposed.pop(place, None)
    state["leader_leo"], state["hw"] = leo, hw
    telling.tell(
        "leader",
        line.ts,
        line.broker,
        line.level,
        place=place,
        topic_id=log.topic_id(place, telling),
        leader_id=line.broker,
        replica_id=line.broker,
        leader_epoch=epoch,
        partition_epoch=partition_epoch,
        leo=leo,
        leader_leo=leo,
        hw=hw,
        isr=numbers(m[7]),
        unclean=1 if state["unclean"] else None,
    )
    state["unclean"] = 0


def _follower(log: StateLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    place = log.known.place(m[1])
    if not log.wanted(place):
        return
    epoch, leo, partition_epoch, hw = int(m[3]), int(m[4]), int(m[5]), int(m[6])
    log.epochs(place, telling, m[2], epoch, partition_epoch)
    log.known.forget(place)
    log.proposed.pop(place, None)
    telling.tell(
        "follower",
        line.ts,
        line.broker,
        line.level,
        place=place,
        topic_id=log.topic_id(place, telling),
        leader_id=int(m[7]),
        replica_id=line.broker,
        leader_epoch=epoch,
        partition_epoch=partition_epoch,
        leo=leo,
        hw=hw,
    )


_TERM = (
    r"(\S+)(?: with topic id " + ID + r")? starts at leader epoch (\d+) from offset (\d+) with partition epoch (\d+)"
)
TERMS: dict[str, Shape] = {
    "Creating": (re.compile(r"Creating new partition (\S+) with topic id " + ID), _creating),
    "The": (re.compile(r"The topic partition (\S+) was marked as RECOVERING\."), _recovering),
    "Leader": (re.compile("Leader " + _TERM + r", high watermark (\d+), ISR \[([\d, ]*)\]"), _leader),
    "Follower": (re.compile("Follower " + _TERM + r" and high watermark (\d+)\. Current leader is (-?\d+)"), _follower),
}
"""By first word: the line and what it tells."""
