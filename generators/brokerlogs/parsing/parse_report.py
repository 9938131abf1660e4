"""The report on the lines of one source: read, ignored, not understood."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from generators.brokerlogs.scanning.arrays import Array
from generators.brokerlogs.scanning.line_record import BROKEN, DUMPED, IGNORED, REQUEST
from generators.brokerlogs.scanning.loggers import is_irrelevant

LONGEST_EXAMPLE = 300
_COUNTS = ("lines", "understood", "ignored", "aside", "nameless", "shapes", "broken", "overlong", "lost")


@dataclass
class ParseReport:
    """Counts of the lines of one source."""

    lines: int = 0
    understood: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    """Lines of loggers that are not known, by logger."""
    aside: int = 0
    """Lines of Kafka's loggers that are known to have no information on replication."""
    nameless: int = 0
    """Lines before the first that names the broker."""
    shapes: Counter[str] = field(default_factory=Counter)
    """Lines of evidence that were not understood, by logger and shape."""
    examples: dict[str, str] = field(default_factory=dict)
    """The first line of each shape."""
    broken: int = 0
    """Lines that cannot be read."""
    overlong: int = 0
    """Those of the broken lines that are longer than a line may be."""
    has_sn: bool = False
    """Lines are numbered (%sn); without it lines lost before the reader cannot be detected."""
    level: int = 0
    lost: int = 0
    """How often lines were found to be missing."""
    first_line: str = ""
    """The line as the file has it, for a message that nothing was understood."""

    @property
    def tells_nothing(self) -> bool:
        """Whether there are lines, and none was understood: then they tell of no time up to which all was told."""
        return self.lines > 0 and not (self.understood or self.aside)

    def since(self, before: ParseReport) -> ParseReport:
        """The report on the lines after those of the report `before`."""
        return replace(self, **{name: getattr(self, name) - getattr(before, name) for name in _COUNTS})

    def count(self, lines: Array, decisions: Array, loggers: list[str]) -> None:
        """Count decided lines; `loggers` are the names behind their numbers."""
        kinds = np.bincount(lines["kind"], minlength=DUMPED + 1)
        self.lines += len(lines)
        self.broken += int(kinds[BROKEN])
        self.understood += int(kinds[REQUEST + 1 :].sum())
        for logger, count in enumerate(np.bincount(lines["logger"][lines["kind"] == IGNORED])):
            if count and is_irrelevant(loggers[logger]):
                self.aside += int(count)
            elif count:
                self.ignored[loggers[logger]] += int(count)
        if len(lines):
            self.has_sn = self.has_sn or bool((lines["number"] >= 0).any())
            self.lost += int(np.count_nonzero(decisions["lost"]))
            self.level = int(decisions["level"][-1])

    def not_understood(self, shape: str, example: str) -> None:
        """Count a line that was counted as understood and is not."""
        self.shapes[shape] += 1
        self.examples.setdefault(shape, example[:LONGEST_EXAMPLE])
        self.understood -= 1
