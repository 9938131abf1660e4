"""`config` rows for settings of brokers and topics that are new or have changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from generators.cluster.observing.rows import Source, times

LAG = "replica.lag.time.max.ms"
MIN_ISR = "min.insync.replicas"


@dataclass(frozen=True)
class BrokerSettings:
    """A broker's own settings; None for those not answered."""

    lag_max_ms: int | None = None
    min_isr: int | None = None


@dataclass
class SettingsSeen:
    """The settings of one cluster that are already written as rows."""

    _brokers: dict[int, BrokerSettings] = field(default_factory=dict)
    _topics: dict[str, int] = field(default_factory=dict)
    _facts: dict[tuple[int, str], str] = field(default_factory=dict)

    def broker(self, source: Source, settings: BrokerSettings, ts_us: int) -> list[pa.Table]:
        """The row for a broker's changed settings; a setting that is no longer answered counts as unchanged."""
        known = self._brokers.get(source.broker, BrokerSettings())
        lag_max_ms = known.lag_max_ms if settings.lag_max_ms is None else settings.lag_max_ms
        settings = BrokerSettings(lag_max_ms, known.min_isr if settings.min_isr is None else settings.min_isr)
        if known == settings:
            return []
        self._brokers[source.broker] = settings
        columns = {"replica_id": source.broker, "lag_max_ms": settings.lag_max_ms, "min_isr": settings.min_isr}
        return [source.broker_wide("config", ts_us, **columns)]

    def fact(self, source: Source, name: str, value: str | None, ts_us: int) -> list[pa.Table]:
        """The row for a broker's `rack`, or its version of `kafka`, where it is known."""
        if value is None or self._facts.get((source.broker, name)) == value:
            return []
        self._facts[source.broker, name] = value
        return [source.broker_wide("config", ts_us, replica_id=source.broker, detail=f"{name}={value}")]

    def topics(self, source: Source, min_isr: Mapping[str, int], ts_us: int) -> list[pa.Table]:
        """The rows for topics whose min.insync.replicas has changed."""
        new = {name: value for name, value in min_isr.items() if self._topics.get(name) != value}
        self._topics.update(new)
        if not new:
            return []
        columns = {
            "ts": times([ts_us] * len(new)),
            "partition": -1,
            "topic": pa.array(list(new), pa.string()),
            "min_isr": pa.array(list(new.values()), pa.int32()),
        }
        return [source.table("config", len(new), columns)]

    def forget(self) -> None:
        """Forget all settings, so that they are written again: earlier rows were not kept."""
        self._brokers.clear()
        self._topics.clear()
        self._facts.clear()
