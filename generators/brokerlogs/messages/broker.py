"""The rare lines of a broker: which shape a line has, and whether it was understood."""

from __future__ import annotations

from generators.brokerlogs.events.event_builder import Telling
from generators.brokerlogs.messages.broker_state import Line, StateLog
from generators.brokerlogs.messages.isr_changes import ISR_CHANGES
from generators.brokerlogs.messages.leadership import TERMS
from generators.brokerlogs.messages.truncations import CUTS

_SHAPES = TERMS | ISR_CHANGES | CUTS


def read(log: StateLog, line: Line, telling: Telling) -> bool:
    """Tell the rows of one line; whether a shape fits it."""
    word = line.message.partition(" ")[0]
    if word not in _SHAPES:
        return False
    pattern, tell = _SHAPES[word]
    match = pattern.match(line.message)
    if match:
        tell(log, line, match, telling)
    return match is not None
