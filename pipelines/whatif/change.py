"""A change of broker settings, in the assumed rules and in every event that reports them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication import Rules


@dataclass(frozen=True)
class Change:
    """Other values of replica.lag.time.max.ms and min.insync.replicas; None: as it was."""

    lag_max_ms: int | None = None
    min_isr: int | None = None

    def rules(self, rules: Rules) -> Rules:
        """The rules with the change, for every cluster. Raises ValueError naming a value that is too small."""
        changed = {name: value for name, value in self._values().items() if value is not None}
        clusters = {pattern: {**other, **changed} for pattern, other in rules.clusters.items()}
        return replace(rules, **changed, clusters=clusters)  # type: ignore[arg-type]

    def events(self, events: pa.Table) -> pa.Table:
        """The events (bronze schema) as they would report the settings: rows that report none stay as they are."""
        for name, value in self._values().items():
            if value is not None:
                at, column = events.column_names.index(name), events[name]
                said = pc.if_else(pc.is_valid(column), pa.scalar(value, column.type), pa.scalar(None, column.type))
                events = events.set_column(at, events.schema.field(name), said)
        return events

    def __str__(self) -> str:
        """`replica.lag.time.max.ms=10000, min.insync.replicas=2`."""
        names = {"replica.lag.time.max.ms": self.lag_max_ms, "min.insync.replicas": self.min_isr}
        return ", ".join(f"{name}={value}" for name, value in names.items() if value is not None) or "no change"

    def _values(self) -> dict[str, int | None]:
        return {"lag_max_ms": self.lag_max_ms, "min_isr": self.min_isr}
