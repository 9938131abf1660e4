"""Offsets of brokers' clocks, as the user has configured them: nothing else corrects a clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class ClockOffsets:
    """Milliseconds by which the clocks of a source are ahead: `fixed` for all its rows, else by the broker of a row."""

    fixed: int | None = None
    brokers: Mapping[int, int] = field(default_factory=dict)

    def ahead_ms(self, brokers: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Milliseconds to subtract from the times of rows of these brokers."""
        ahead_ms = np.full(len(brokers), self.fixed or 0, np.int64)
        for broker in self.brokers if self.fixed is None else ():
            ahead_ms[brokers == broker] = self.brokers[broker]
        return ahead_ms

    def largest(self, broker: int) -> int:
        """The largest offset that rows of a source may have; `broker` is -1 where its broker is not known yet."""
        if self.fixed is not None:
            return self.fixed
        return self.brokers.get(broker, 0) if broker >= 0 else max(0, *self.brokers.values(), 0)


def clock_offsets_of(source_id: str, offsets: Mapping[str, int]) -> ClockOffsets:
    """The offsets of a source: those of the longest pattern that matches its id, else those given by broker id."""
    fitting = [pattern for pattern in offsets if not pattern.isdecimal() and fnmatchcase(source_id, pattern)]
    fixed = offsets[max(fitting, key=lambda pattern: (len(pattern), pattern))] if fitting else None
    return ClockOffsets(fixed, {int(broker): ms for broker, ms in offsets.items() if broker.isdecimal()})


def unused_patterns(offsets: Mapping[str, int], source_ids: Sequence[str]) -> list[str]:
    """Patterns that match none of these sources."""
    patterns = [pattern for pattern in offsets if not pattern.isdecimal()]
    return [pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in source_ids)]
