"""Truncations of a follower's log, and falls of its high watermark (the replica fetcher and UnifiedLog)."""

from __future__ import annotations

import re

from generators.brokerlogs.events.event_builder import EventBuilder
from generators.brokerlogs.messages.broker_state import BrokerLogState, Line, append_row, broker_patterns
from schemas.event_types import cut_detail


def _truncate(broker: BrokerLogState, line: Line, place: int, offset: int, events: EventBuilder) -> None:
    """Append a cut, with where the leader's log ends if that is below this replica's HW: what lies between is lost."""
    hw, answer = broker.loaded_hws.get(place), broker.answers.pop(place, None)
    if not broker.wanted(place):
        return
    detail = cut_detail(hw, *answer) if hw is not None and answer is not None and 0 <= answer[1] < hw else None
    broker.loaded_hws.pop(place, None)
    about = {"place": place, "replica_id": line.broker, "leo": offset, "detail": detail}
    append_row(events, "truncate", line, level=line.level, **about)


def _loaded(broker: BrokerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    broker.loaded_hws[broker.partitions.place_of(match[1])] = int(match[2])


def _truncating(broker: BrokerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    if match[1] and (answer := _ANSWER.search(line.message)):
        broker.answers[broker.partitions.place_of(match[1])] = int(answer[1]), int(answer[2])
    if match[4]:
        broker.loaded_hws[broker.partitions.place_of(match[4])] = int(match[5])
    if match[1] and line.log_layer_line < 0:
        _truncate(broker, line, broker.partitions.place_of(match[1]), int(match[2]), events)
    elif match[3]:
        _truncate(broker, line, line.place, int(match[3]), events)
    elif match[4] and not broker.prints_followers:
        _below_hw(broker, line, broker.partitions.place_of(match[4]), int(match[5]), events)


def _below_hw(broker: BrokerLogState, line: Line, place: int, hw: int, events: EventBuilder) -> None:
    """Append a `follower` row with this HW, and with a log end offset that is the HW, because it is not lower.

    Before Kafka 2.6 no other line shows the HW of a follower that truncates.
    """
    if broker.wanted(place):
        append_row(events, "follower", line, level=line.level, place=place, replica_id=line.broker, leo=hw, hw=hw)


def _reset(broker: BrokerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    """A follower beyond the end of its leader's log cuts its own there, which the log layer prints as a rule."""
    if line.log_layer_line < 0:
        _truncate(broker, line, broker.partitions.place_of(match[1]), int(match[2]), events)


def _truncated(broker: BrokerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    _truncate(broker, line, line.place, int(match[1]), events)


def _lowered(broker: BrokerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    if broker.wanted(line.place):
        about = broker.term_fields(line.place, events) | {"hw_before": int(match[1]), "hw": int(match[2])}
        append_row(events, "hw", line, level=line.level, replica_id=line.broker, **about)


def read_move(broker: BrokerLogState, line: Line) -> bool:
    """Record the beginning or the end of a replica's move to another log directory; returns whether it is either."""
    if begun := _FUTURE_LOG.match(line.message):
        broker.moving_to[broker.partitions.place_of(begun[1])] = begun[2]
    elif ended := _REPLACED.match(line.message):
        broker.moving_to.pop(broker.partitions.place_of(ended[1]), None)
    return bool(begun or ended)


def is_of_future_log(broker: BrokerLogState, line: Line) -> bool:
    """Whether a line tells of the log that is to replace a replica's own: a leader cuts none of its own."""
    is_moved = line.place in broker.led or broker.moving_to.get(line.place) == line.directory
    return line.moves or (line.directory is not None and is_moved)


_ANSWER = re.compile(r"leaderEpoch=(\d+), endOffset=(\d+)")
MOVING_THREAD = b"ReplicaAlterLogDirsThread"
_FUTURE_LOG = re.compile(r"Created log for partition (\S+) in (\S+)/[^/\s]+-future with ")
_REPLACED = re.compile(r"The current replica is successfully replaced with the future replica for (\S+)")
TRUNCATIONS = broker_patterns(
    (
        _truncating,
        r"Truncating (?:partition (\S+) with TruncationState\(offset=(\d+)|to offset (\d+)|"
        r"to \d+ has no effect|partition \S+ to local high watermark|"
        r"(\S+) to offset \d+ below high watermark (\d+)|\S+ to)",
    ),
    (_reset, r"Reset fetch offset for partition (\S+) from \d+ to current leader's latest offset (\d+)"),
    (_loaded, r"Log loaded for partition (\S+) with initial high watermark (\d+)"),
    (_truncated, r"Truncate and start at offset (\d+)"),
    (_lowered, r"Non-monotonic update of high watermark from \(offset=(-?\d+).*? to \(offset=(\d+)"),
)
"""Patterns by first word of the message."""
