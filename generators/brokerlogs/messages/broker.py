"""The rare lines of a broker, read by the first pattern that fits."""

from __future__ import annotations

from generators.brokerlogs.events.event_builder import EventBuilder
from generators.brokerlogs.messages.broker_state import BrokerLogState, Line
from generators.brokerlogs.messages.isr_changes import ISR_CHANGES
from generators.brokerlogs.messages.leadership import BARE_START, LEADERSHIP
from generators.brokerlogs.messages.truncations import TRUNCATIONS, is_of_future_log

_PATTERNS = LEADERSHIP | ISR_CHANGES | TRUNCATIONS


def read(broker: BrokerLogState, line: Line, events: EventBuilder) -> bool:
    """Append the rows of one line; returns whether it was understood."""
    if is_of_future_log(broker, line):
        return True
    pattern, handle = _PATTERNS.get(line.message.partition(" ")[0], BARE_START)
    match = pattern.match(line.message)
    if match:
        handle(broker, line, match, events)
    return match is not None
