"""The rare lines of a broker: which shape a line has, and whether it was understood."""

from __future__ import annotations

from generators.brokerlogs.cuts import CUTS
from generators.brokerlogs.isr_changes import ISR_CHANGES
from generators.brokerlogs.statelog import Line, StateLog
from generators.brokerlogs.telling import Telling
from generators.brokerlogs.terms import TERMS

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
