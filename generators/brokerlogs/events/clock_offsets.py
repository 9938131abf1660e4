"""Clocks of brokers that are known to be wrong: by how much, said by the user and by nobody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Clock:
    """By how many milliseconds the clock behind a source is ahead: `fixed`, or that of the broker a row is told by."""

    fixed: int | None = None
    brokers: Mapping[int, int] = field(default_factory=dict)

    def ahead(self, brokers: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Milliseconds to be taken from the times of rows that these brokers told."""
        ahead = np.full(len(brokers), self.fixed or 0, np.int64)
        for broker in self.brokers if self.fixed is None else ():
            ahead[brokers == broker] = self.brokers[broker]
        return ahead

    def most(self, broker: int) -> int:
        """The most that rows of a source may be ahead by whose broker is this one, or not known yet (-1)."""
        if self.fixed is not None:
            return self.fixed
        return self.brokers.get(broker, 0) if broker >= 0 else max(0, *self.brokers.values(), 0)


def clock_of(source_id: str, offsets: Mapping[str, int]) -> Clock:
    """The clock of a broker's source: that of the longest pattern that it fits, else those of brokers."""
    fitting = [pattern for pattern in offsets if not pattern.isdecimal() and fnmatchcase(source_id, pattern)]
    fixed = offsets[max(fitting, key=lambda pattern: (len(pattern), pattern))] if fitting else None
    return Clock(fixed, {int(broker): ms for broker, ms in offsets.items() if broker.isdecimal()})


def unused(offsets: Mapping[str, int], source_ids: Sequence[str]) -> list[str]:
    """Patterns that none of these sources fits."""
    patterns = [pattern for pattern in offsets if not pattern.isdecimal()]
    return [pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in source_ids)]
