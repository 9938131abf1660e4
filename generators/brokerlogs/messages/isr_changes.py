"""ISR changes: proposals, commits by every witness, rejections."""

from __future__ import annotations

import re
from typing import Any

from generators.brokerlogs.events.event_builder import Telling
from generators.brokerlogs.messages.broker_state import Line, Shape, StateLog, named, numbers, recovering
from generators.brokerlogs.messages.leadership import ID

_MEMBER = re.compile(r"brokerId=(\d+)")
_NUMBER = re.compile(r"\d+")
SHRUNK = re.compile(r"\(brokerId: (\d+), endOffset: (-?\d+), lastCaughtUpTimeMs: -?\d+\)")


def _isr(log: StateLog, line: Line, place: int, telling: Telling, detail: str, **fields: Any) -> None:
    log.proposed.pop(place, None)
    if log.wanted(place):
        about = log.term(place, telling) | fields
        telling.tell("isr", line.ts, line.broker, line.level, detail=detail, **about)


def _skipped_change(log: StateLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    """Metadata that changes neither leader nor epoch; older metadata than the broker has changes nothing."""
    if " is already at a newer partition epoch " in line.message:
        return
    place, said = log.known.place(m[2]), named(m[4])
    log.epochs(place, telling, m[3], int(said["leaderEpoch"]), int(said["partitionEpoch"]))
    hw = re.search(r"Current high watermark (\d+)", line.message)
    unclean = recovering(said.get("leaderRecoveryState"))
    _isr(
        log,
        line,
        place,
        telling,
        "metadata",
        leader_id=int(said["leader"]),
        isr=numbers(said["isr"]),
        replicas=numbers(said["replicas"]),
        unclean=None if unclean is None else int(unclean),
        hw=int(hw[1]) if hw and m[1] == "leader" else None,
    )


def _isr_updated(log: StateLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    if line.place >= 0:
        log.epochs(line.place, telling, None, None, int(m[2]))
        _isr(log, line, line.place, telling, "alter_partition", leader_id=line.broker, isr=numbers(m[1]))


def _altered(log: StateLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    """The controller's answer: it names the topic up to Kafka 3.9, its id since; a refusal changes nothing."""
    said = named(m[4])
    if int(said["errorCode"]) or (m[1] and m[1] not in log.names):
        return
    place = log.known.place(f"{log.names[m[1]]}-{m[2]}" if m[1] else m[3])
    log.epochs(place, telling, m[1], int(said["leaderEpoch"]), int(said["partitionEpoch"]))
    _isr(log, line, place, telling, "alter_partition", leader_id=int(said["leaderId"]), isr=numbers(said["isr"]))


def _propose(log: StateLog, line: Line, telling: Telling, detail: str, isr: list[int]) -> None:
    place = line.place
    if not log.wanted(place) or sorted(isr) == log.proposed.get(place):
        return
    log.proposed[place] = sorted(isr)
    about = log.term(place, telling) | {"leader_id": line.broker}
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
    about = log.term(place, telling) | {"leader_id": line.broker}
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
        about = log.term(line.place, telling) | {"leader_id": line.broker}
        telling.tell("isr_rejected", line.ts, line.broker, line.level, isr=numbers(m[2]), detail=m[1], **about)


ISR_CHANGES: dict[str, Shape] = {
    "Skipped": (
        re.compile(
            r"Skipped the become-(leader|follower) state change for (\S+) with topic id "
            + ID
            + r"(?: and partition state LeaderAndIsrPartitionState|, partition registration PartitionRegistration)"
            r"(\(.*)"
        ),
        _skipped_change,
    ),
    "ISR": (
        re.compile(r"ISR updated to ([\d, ]+?) *(?:\(under-min-isr\))? *and version updated to (\d+)"),
        _isr_updated,
    ),
    "Controller": (
        re.compile(
            r"Controller successfully handled AlterPartition request for (?:(\S{22}):(\d+)|(\S+-\d+)): "
            r"PartitionData(\(.*)"
        ),
        _altered,
    ),
    "Submitting": (
        re.compile(r"Submitting ISR state change Pending(Shrink|Expand)Isr[(\[].*?sent\w*=(.*?), leaderRecoveryState="),
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
            r"latest committed state \w+[(\[]isr=(?:\w*\(|\[)([\d, ]*)"
        ),
        _rejected,
    ),
}
"""By first word: the line and what it tells."""
