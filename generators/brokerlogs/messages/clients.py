"""Truncations that a consumer detects (KIP-320): records that it had read are gone from the leader's log.

SubscriptionState.maybeCompleteValidation prints the consumer's position, up to which it had read, with the leader epoch
of the record before it, and where the log of the leader that it asks now leaves that epoch.
"""

from __future__ import annotations

import re

from generators.brokerlogs.events.event_builder import EventBuilder
from generators.brokerlogs.messages.broker_state import BrokerLogState, Line, append_row
from schemas.event_types import position_detail

LOGGER = "SubscriptionState"
_DETECTED = re.compile(
    r"Truncation detected for partition (\S+) at offset FetchPosition\{offset=(\d+), offsetEpoch=Optional\[(\d+)\], "
    r"currentLeader=LeaderAndEpoch\{leader=\S+ \(id: (\d+) rack: [^)]*\)\]?, epoch=(?:Optional\[)?(\d+)\]?\}\}"
    r"(?:.*?(?: diverge FetchPosition| broker is OffsetAndMetadata)\{offset=(\d+), "
    r"(?:offsetEpoch=Optional\[|leaderEpoch=)(\d+)"
    r"|.*leaderEpoch=(\d+), endOffset=(\d+))"
)


def read(broker: BrokerLogState, line: Line, events: EventBuilder) -> bool:
    """Append a `truncate` row of the leader that answered; returns whether the line was understood.

    There is none where the leader's epoch is not later than that of the position: the topic may have been made anew.
    """
    found = _DETECTED.match(line.message)
    if found is None:
        return not line.message.startswith("Truncation detected")
    position, epoch, leader, current, *answer = (None if n is None else int(n) for n in found.groups()[1:])
    end, common = answer[:2] if answer[0] is not None else answer[:1:-1]
    place = broker.partitions.place_of(found[1])
    if position is None or epoch is None or end is None or common is None or leader is None or current is None:
        return False
    if broker.wanted(place) and current > epoch:
        detail = position_detail(position, common, end)
        append_row(
            events, "truncate", line, leader_epoch=current, place=place, replica_id=leader, leo=end, detail=detail
        )
    return True
