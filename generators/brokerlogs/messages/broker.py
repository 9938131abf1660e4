"""The rare lines of a broker, read by the first pattern that fits."""

from __future__ import annotations

from generators.brokerlogs.events.event_builder import EventBuilder
from generators.brokerlogs.messages.broker_state import BrokerLogState, Line
from generators.brokerlogs.messages.isr_changes import ISR_CHANGES
from generators.brokerlogs.messages.leadership import LEADERSHIP
from generators.brokerlogs.messages.truncations import TRUNCATIONS

_PATTERNS = LEADERSHIP | ISR_CHANGES | TRUNCATIONS


def read(broker: BrokerLogState, line: Line, events: EventBuilder) -> bool:
    """Append the rows of one line; returns whether a pattern matched."""
    first_word = line.message.partition(" ")[0]
    if first_word not in _PATTERNS:
        return False
    pattern, handle = _PATTERNS[first_word]
    match = pattern.match(line.message)
    if match:
        handle(broker, line, match, events)
    return match is not None
