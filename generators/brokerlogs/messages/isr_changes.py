"""ISR changes: proposals, commits (from the leader, from metadata), rejections."""

from __future__ import annotations

import re
from typing import Any

from generators.brokerlogs.events.event_builder import EventBuilder
from generators.brokerlogs.messages.broker_state import (
    BrokerLogState,
    Line,
    append_row,
    broker_ids,
    broker_patterns,
    is_recovering,
    printed_fields,
)
from generators.brokerlogs.messages.leadership import ID

_MEMBER = re.compile(r"brokerId=(\d+)")
_NUMBER = re.compile(r"\d+")
SHRUNK = re.compile(r"\(brokerId: (\d+), endOffset: (-?\d+)(?:, lastCaughtUpTimeMs: -?\d+)?\)")


def _isr(broker: BrokerLogState, line: Line, place: int, events: EventBuilder, detail: str, **fields: Any) -> None:
    broker.proposed.pop(place, None)
    if broker.wanted(place):
        about = broker.term_fields(place, events) | fields
        append_row(events, "isr", line, level=line.level, detail=detail, **about)


def _skipped_change(broker: BrokerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    """New metadata with the same leader and epoch; metadata older than the broker's own is skipped."""
    if " is already at a newer partition epoch " in line.message:
        return
    place, record = broker.partitions.place_of(match[2]), printed_fields(match[4])
    broker.record_epochs(place, events, match[3], int(record["leaderEpoch"]), int(record["partitionEpoch"]))
    hw = re.search(r"Current high watermark (\d+)", line.message)
    recovery = is_recovering(record.get("leaderRecoveryState"))
    told = {"leader_id": int(record["leader"]), "hw": int(hw[1]) if hw and match[1] == "leader" else None}
    lists = {name: broker_ids(record[name]) for name in ("isr", "replicas")}
    unclean = None if recovery is None else int(recovery)
    _isr(broker, line, place, events, "metadata", unclean=unclean, **told, **lists)


def _isr_updated(broker: BrokerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    if line.place >= 0:
        broker.record_epochs(line.place, events, None, None, int(match[2]))
        _isr(broker, line, line.place, events, "alter_partition", leader_id=line.broker, isr=broker_ids(match[1]))


def _altered(broker: BrokerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    """The controller's answer to AlterPartition: by topic id up to Kafka 3.9, by name since; an error changes
    nothing."""
    record = printed_fields(match[4])
    if int(record["errorCode"]) or (match[1] and match[1] not in broker.names):
        return
    place = broker.partitions.place_of(f"{broker.names[match[1]]}-{match[2]}" if match[1] else match[3])
    broker.record_epochs(place, events, match[1], int(record["leaderEpoch"]), int(record["partitionEpoch"]))
    _isr(
        broker, line, place, events, "alter_partition", leader_id=int(record["leaderId"]), isr=broker_ids(record["isr"])
    )


def _propose(broker: BrokerLogState, line: Line, events: EventBuilder, detail: str, isr: list[int]) -> None:
    place = line.place
    if not broker.wanted(place) or sorted(isr) == broker.proposed.get(place):
        return
    broker.proposed[place] = sorted(isr)
    about = broker.term_fields(place, events) | {"leader_id": line.broker}
    append_row(events, "isr_proposed", line, level=line.level, detail=detail, isr=isr, **about)


def _submitting(broker: BrokerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    sent = _MEMBER.findall(match[2]) or _NUMBER.findall(re.sub(r".*\bisr=(?:\w*\(|\[)([\d, ]*).*", r"\1", match[2]))
    _propose(broker, line, events, match[1].lower(), [int(n) for n in sent])


def _expanding(broker: BrokerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    _propose(broker, line, events, "expand", broker_ids(match[2]))


def _shrinking(broker: BrokerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    if broker.wanted(line.place) and match[3]:
        _shrink_offsets(broker, line, match, events)
    _propose(broker, line, events, "shrink", broker_ids(match[2]))


def _shrink_offsets(broker: BrokerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    """Rows for the offsets of a shrink that no other line had."""
    place, state, leos = line.place, broker.partitions.state[line.place], broker.partitions.leos[line.place]
    about = broker.term_fields(place, events) | {"leader_id": line.broker}
    hw, leo = int(match[3]), int(match[4])
    if leo > state["leader_leo"]:
        state["leader_leo"] = leo
        append_row(events, "append", line, level=line.level, leader_leo=leo, **about)
    for replica, offset in SHRUNK.findall(match[5]):
        slots = [k for k in range(len(leos)) if leos[k]["replica"] in (int(replica), -1)]
        if slots and (leos[slots[0]]["replica"] < 0 or leos[slots[0]]["leo"] != int(offset)):
            leos[slots[0]] = (int(replica), int(offset), line.ts)
            append_row(events, "replica_leo", line, level=line.level, replica_id=int(replica), leo=int(offset), **about)
    if line.level == 0 and hw != state["hw"]:
        state["hw"] = hw
        append_row(events, "hw", line, level=line.level, replica_id=line.broker, hw=hw, **about)


def _rejected(broker: BrokerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    broker.proposed.pop(line.place, None)
    if broker.wanted(line.place):
        about = broker.term_fields(line.place, events) | {"leader_id": line.broker}
        append_row(events, "isr_rejected", line, level=line.level, isr=broker_ids(match[2]), detail=match[1], **about)


ISR_CHANGES = broker_patterns(
    (
        _skipped_change,
        r"Skipped the become-(leader|follower) state change for (\S+) with topic id "
        + ID
        + r"(?: and partition state LeaderAndIsrPartitionState|, partition registration PartitionRegistration)"
        r"(\(.*)",
    ),
    (
        _isr_updated,
        r"ISR updated (?:from AlterIsr )?to \[?([\d, ]+?)\]? *(?:\(under-min-isr\))? *"
        r"and (?:zkV|v)ersion updated to \[?(\d+)",
    ),
    (
        _altered,
        r"Controller successfully handled AlterPartition request for (?:(\S{22}):(\d+)|(\S+-\d+)): "
        r"PartitionData(\(.*)",
    ),
    (
        _submitting,
        r"Submitting ISR state change Pending(Shrink|Expand)Isr[(\[].*?sent\w*=(.*?), "
        r"(?:leaderRecoveryState|zkVersion)=",
    ),
    (_expanding, r"Expanding ISR from ([\d,]*) to ([\d,]+)"),
    (
        _shrinking,
        r"Shrinking ISR from ([\d,]*) to ([\d,]+)(?:$|\. Leader: \(highWatermark: (-?\d+), endOffset: (-?\d+)\)\. "
        r"Out of sync replicas: (.*))",
    ),
    (_rejected, r"(Cached zkVersion) \[?\d+\]? not equal to that in zookeeper(), skip updating ISR"),
    (
        _rejected,
        r"Failed to alter partition to .*? rejected the request with (\w+)\. Partition state has been reset to the "
        r"latest committed state \w+[(\[]isr=(?:\w*\(|\[)([\d, ]*)",
    ),
)
"""Patterns by first word of the message."""
