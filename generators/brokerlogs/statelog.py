"""Terms, ISR changes and cuts from the rare lines of `kafka.cluster.Partition`, `state.change.logger`, the AlterPartition
manager, the replica fetcher and the log layer."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from generators.brokerlogs.known import Known
from generators.brokerlogs.rows import UNKNOWN
from generators.brokerlogs.telling import Telling

_NUMBER = re.compile(r"\d+")
_MEMBER = re.compile(r"brokerId=(\d+)")
_ID = r"(?:Some\(|Optional\[)?([\w-]{22})[)\]]?"


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
    """Shapes of broker logs to rows; returns whether a line was understood."""

    known: Known
    names: dict[str, str] = field(default_factory=dict)
    """Topic id to topic."""
    proposed: dict[int, list[int]] = field(default_factory=dict)
    """Place to the ISR that was proposed and not answered yet."""

    def read(self, line: Line, telling: Telling) -> bool:
        """Tell the rows of one line."""
        word = line.message.partition(" ")[0]
        shape = SHAPES.get(word)
        if shape is None:
            return word in SILENT
        pattern, tell = shape
        match = pattern.match(line.message)
        if match:
            tell(self, line, match, telling)
        return match is not None

    def wanted(self, place: int) -> bool:
        return place >= 0 and bool(self.known.state["wanted"][place])

    def term(self, place: int) -> dict[str, Any]:
        """What is known of the term of a partition, as fields of a row."""
        state = self.known.state[place]
        return {
            "leader_epoch": state["leader_epoch"],
            "partition_epoch": state["partition_epoch"],
            "topic_id": None,
            "place": place,
        }

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


def _topic_id(log: StateLog, place: int, telling: Telling) -> str | None:
    k = int(log.known.state["topic_id"][place])
    return telling.topic_ids[k] if k >= 0 else None


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
        topic_id=_topic_id(log, place, telling),
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
        topic_id=_topic_id(log, place, telling),
        leader_id=int(m[7]),
        replica_id=line.broker,
        leader_epoch=epoch,
        partition_epoch=partition_epoch,
        leo=leo,
        hw=hw,
    )


def _isr(log: StateLog, line: Line, place: int, telling: Telling, detail: str, **fields: Any) -> None:
    log.proposed.pop(place, None)
    if log.wanted(place):
        about = log.term(place) | {"topic_id": _topic_id(log, place, telling)} | fields
        telling.tell("isr", line.ts, line.broker, line.level, detail=detail, **about)


def _skipped_change(log: StateLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    place = log.known.place(m[2])
    log.epochs(place, telling, m[3], int(m[5]), int(m[7]))
    hw = re.search(r"Current high watermark (\d+)", line.message)
    _isr(
        log,
        line,
        place,
        telling,
        "metadata",
        leader_id=int(m[4]),
        isr=numbers(m[6]),
        replicas=numbers(m[8]),
        unclean=int(m[9]) if m[9] else None,
        hw=int(hw[1]) if hw and m[1] == "leader" else None,
    )


def _isr_updated(log: StateLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    if line.place >= 0:
        log.epochs(line.place, telling, None, None, int(m[2]))
        _isr(log, line, line.place, telling, "alter_partition", leader_id=line.broker, isr=numbers(m[1]))


def _altered(log: StateLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    if m[1] not in log.names or int(m[3]):
        return
    place = log.known.place(f"{log.names[m[1]]}-{m[2]}")
    log.epochs(place, telling, m[1], int(m[5]), int(m[7]))
    _isr(log, line, place, telling, "alter_partition", leader_id=int(m[4]), isr=numbers(m[6]))


def _propose(log: StateLog, line: Line, telling: Telling, detail: str, isr: list[int]) -> None:
    place = line.place
    if not log.wanted(place) or sorted(isr) == log.proposed.get(place):
        return
    log.proposed[place] = sorted(isr)
    about = log.term(place) | {"topic_id": _topic_id(log, place, telling), "leader_id": line.broker}
    telling.tell("isr_proposed", line.ts, line.broker, line.level, detail=detail, isr=isr, **about)


def _submitting(log: StateLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    sent = _MEMBER.findall(m[2]) or _NUMBER.findall(re.sub(r".*\bisr=(?:\w*\(|\[)([\d, ]*).*", r"\1", m[2]))
    _propose(log, line, telling, m[1].lower(), [int(n) for n in sent])


def _expanding(log: StateLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    _propose(log, line, telling, "expand", numbers(m[2]))


def _shrinking(log: StateLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    if log.wanted(line.place):
        _shrink_offsets(log, line, m, telling)
    _propose(log, line, telling, "shrink", numbers(m[2]))


def _shrink_offsets(log: StateLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    """What a shrink says of offsets, as far as nothing else has told it."""
    place, state, told = line.place, log.known.state[line.place], log.known.told[line.place]
    about = log.term(place) | {"topic_id": _topic_id(log, place, telling), "leader_id": line.broker}
    hw, leo = int(m[3]), int(m[4])
    if leo > state["leader_leo"]:
        state["leader_leo"] = leo
        telling.tell("append", line.ts, line.broker, line.level, leader_leo=leo, **about)
    for replica, offset in SHRUNK.findall(m[5]):
        slots = [k for k in range(len(told)) if told[k]["replica"] in (int(replica), -1)]
        if slots and (told[slots[0]]["replica"] < 0 or told[slots[0]]["leo"] != int(offset)):
            told[slots[0]] = (int(replica), int(offset), line.ts)
            telling.tell(
                "replica_leo", line.ts, line.broker, line.level, replica_id=int(replica), leo=int(offset), **about
            )
    if line.level == 0 and hw != state["hw"]:
        state["hw"] = hw
        telling.tell("hw", line.ts, line.broker, line.level, replica_id=line.broker, hw=hw, **about)


def _rejected(log: StateLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    log.proposed.pop(line.place, None)
    if log.wanted(line.place):
        about = log.term(line.place) | {"topic_id": _topic_id(log, line.place, telling), "leader_id": line.broker}
        telling.tell("isr_rejected", line.ts, line.broker, line.level, isr=numbers(m[2]), detail=m[1], **about)


def _cut(log: StateLog, line: Line, place: int, offset: int, telling: Telling) -> None:
    if log.wanted(place):
        telling.tell("truncate", line.ts, line.broker, line.level, place=place, replica_id=line.broker, leo=offset)


def _truncating(log: StateLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    if m[1] and line.decided < 0:
        _cut(log, line, log.known.place(m[1]), int(m[2]), telling)
    elif m[3]:
        _cut(log, line, line.place, int(m[3]), telling)


def _truncated(log: StateLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    _cut(log, line, line.place, int(m[1]), telling)


def _lowered(log: StateLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    if log.wanted(line.place):
        about = log.term(line.place) | {"topic_id": _topic_id(log, line.place, telling)}
        telling.tell("hw", line.ts, line.broker, line.level, replica_id=line.broker, hw=int(m[1]), **about)


SHRUNK = re.compile(r"\(brokerId: (\d+), endOffset: (-?\d+), lastCaughtUpTimeMs: -?\d+\)")
_TERM = (
    r"(\S+)(?: with topic id " + _ID + r")? starts at leader epoch (\d+) from offset (\d+) with partition epoch (\d+)"
)
_Tell = Callable[[StateLog, Line, re.Match[str], Telling], None]
SHAPES: dict[str, tuple[re.Pattern[str], _Tell]] = {
    "Creating": (re.compile(r"Creating new partition (\S+) with topic id " + _ID), _creating),
    "The": (re.compile(r"The topic partition (\S+) was marked as RECOVERING\."), _recovering),
    "Leader": (re.compile("Leader " + _TERM + r", high watermark (\d+), ISR \[([\d, ]*)\]"), _leader),
    "Follower": (re.compile("Follower " + _TERM + r" and high watermark (\d+)\. Current leader is (-?\d+)"), _follower),
    "Skipped": (
        re.compile(
            r"Skipped the become-(leader|follower) state change for (\S+) with topic id "
            + _ID
            + r" and partition state "
            r"\w+\(.*?\bleader=(-?\d+), leaderEpoch=(\d+), isr=\[([\d, ]*)\], partitionEpoch=(\d+), replicas=\[([\d, ]*)\]"
            r"(?:.*?leaderRecoveryState=(\d))?"
        ),
        _skipped_change,
    ),
    "ISR": (
        re.compile(r"ISR updated to ([\d, ]+?) *(?:\(under-min-isr\))? *and version updated to (\d+)"),
        _isr_updated,
    ),
    "Controller": (
        re.compile(
            r"Controller successfully handled AlterPartition request for (\S{22}):(\d+): PartitionData\(.*?errorCode=(-?\d+), "
            r"leaderId=(-?\d+), leaderEpoch=(\d+), isr=\[([\d, ]*)\].*?partitionEpoch=(\d+)"
        ),
        _altered,
    ),
    "Submitting": (
        re.compile(r"Submitting ISR state change Pending(Shrink|Expand)Isr\(.*?sent\w*=(.*?), leaderRecoveryState="),
        _submitting,
    ),
    "Expanding": (re.compile(r"Expanding ISR from ([\d,]*) to ([\d,]+)"), _expanding),
    "Shrinking": (
        re.compile(
            r"Shrinking ISR from ([\d,]*) to ([\d,]+)\. Leader: \(highWatermark: (-?\d+), endOffset: (-?\d+)\)\. "
            r"Out of sync replicas: (.*)"
        ),
        _shrinking,
    ),
    "Failed": (
        re.compile(
            r"Failed to alter partition to .*? rejected the request with (\w+)\. Partition state has been reset to the "
            r"latest committed state \w+\(isr=(?:\w*\(|\[)([\d, ]*)"
        ),
        _rejected,
    ),
    "Truncating": (
        re.compile(
            r"Truncating (?:partition (\S+) with TruncationState\(offset=(\d+)|to offset (\d+)|to \d+ has no effect|\S+ to)"
        ),
        _truncating,
    ),
    "Truncate": (re.compile(r"Truncate and start at offset (\d+)"), _truncated),
    "Non-monotonic": (
        re.compile(r"Non-monotonic update of high watermark from \(offset=.*? to \(offset=(\d+)"),
        _lowered,
    ),
}
"""By first word: the line and what it tells."""

SILENT = frozenset(
    [
        "Ignoring",
        "Sending",
        "Received",
        "Transitioning",
        "Stopped",
        "Started",
        "Log",
        "No",
        "Reloading",
        "Producer",
        "Loading",
        "Enqueuing",
        "Add",
        "Submit",
        "Handling",
        "Successfully",
        "Completed",
    ]
)
"""First words of lines that are understood to tell nothing."""

__all__ = ["SHRUNK", "UNKNOWN", "Line", "StateLog"]
