"""One line of a timeline."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pipelines.verdict import words


@dataclass(frozen=True)
class Happening:
    """One line of a timeline: `weight` is critical, warning or info, `partitions` how many it concerns (0: none).

    `until`: when the last of it happened. `broker_id`: the broker that it is about; None: several, or none. `whole`:
    its text says all, as stored.
    """

    ts: datetime
    cluster: str
    kind: str
    weight: str
    text: str
    partitions: int = 0
    examples: tuple[str, ...] = ()
    until: datetime | None = None
    broker_id: int | None = None
    incident_id: str | None = None
    whole: bool = False

    @property
    def summary(self) -> str:
        """The line's text: the event, the number of partitions, and the time it took."""
        if self.whole or not self.partitions:
            return self.text
        lasted = (self.until or self.ts) - self.ts
        within = f" within {words.span(lasted)}" if lasted.total_seconds() >= 1 else ""
        named = words.listed(self.examples, total=self.partitions)
        return (
            f"{self.text}: {named}{within}"
            if self.partitions == 1
            else (f"{self.text}: {words.count(self.partitions, 'partition')}{within} ({named})")
        )

    @property
    def topic(self) -> str | None:
        """The topic of its partitions, None if it is about several or if not all of them are named."""
        topics = {example.rpartition("-")[0] for example in self.examples}
        return topics.pop() if len(topics) == 1 and self.partitions <= len(self.examples) else None
