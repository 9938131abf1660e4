"""The rare lines of a broker: which shape a line has, and whether it was understood."""

from __future__ import annotations

from generators.brokerlogs.cuts import CUTS
from generators.brokerlogs.isr_changes import ISR_CHANGES
from generators.brokerlogs.statelog import Line, StateLog
from generators.brokerlogs.telling import Telling
from generators.brokerlogs.terms import TERMS

_SHAPES = TERMS | ISR_CHANGES | CUTS
_SILENT = frozenset(
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


def read(log: StateLog, line: Line, telling: Telling) -> bool:
    """Tell the rows of one line; whether it was understood."""
    word = line.message.partition(" ")[0]
    if word not in _SHAPES:
        return word in _SILENT
    pattern, tell = _SHAPES[word]
    match = pattern.match(line.message)
    if match:
        tell(log, line, match, telling)
    return match is not None
