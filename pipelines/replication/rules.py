"""The rules of the reconstruction that a user can set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from typing import Any

from pipelines.replication.kafka_versions import BY_MESSAGES, STRICT_ELIGIBILITY, STRICT_MIN_ISR, WAITS_FOR_JOINERS

LAG_MAX_MESSAGES = 4_000
"""Kafka's default of replica.lag.max.messages, while it had that setting."""

EDITION = 11
"""Grows with each change of what equal events and rules give: a lake says which of its rows are of an earlier one."""

OF_CLUSTERS = (
    "lag_max_ms", "min_isr", "lag_max_messages", "strict_min_isr", "strict_eligibility", "hw_waits_for_joiners",
)  # fmt: skip
"""Rules that `clusters` can override: how the brokers of a cluster behave. The others concern the reconstruction."""

_LEAST = {"lag_max_ms": 1, "min_isr": 1, "race_window_ms": 0, "reorder_grace_ms": 0, "hw_resolution_ms": 0}


@dataclass(frozen=True)
class Rules:
    """The settings to assume if telemetry tells none, and the version of Kafka's rules if no broker reports one.

    `min_isr` None: not known of a topic whose own setting nobody tells; HWs are computed as if it were 1.
    `lag_max_ms` and `min_isr` yield to `config` and `leader` events; `lag_max_messages` and the three rules after it
    yield to the version that a broker reports. All times are in milliseconds.
    `strict_min_isr`: below min.insync.replicas the HW does not advance (KAFKA-15583, Kafka 3.7).
    `strict_eligibility`: a replica about to join the ISR does not hold the HW back while its broker is fenced or
    shutting down, or has restarted and not fetched since (KIP-841 and KIP-903, Kafka 3.5).
    `hw_waits_for_joiners`: a caught-up replica outside the ISR holds the HW back (KAFKA-4485, Kafka 0.10.2).
    `clusters`: other values of these six for the clusters whose names match a pattern, whatever version their brokers
    report; the longest matching pattern wins. Raises ValueError naming the bad value.
    """

    lag_max_ms: int = 30_000
    min_isr: int | None = None
    lag_max_messages: int | None = None
    strict_min_isr: bool = True
    strict_eligibility: bool = True
    hw_waits_for_joiners: bool = True
    race_window_ms: int = 150
    reorder_grace_ms: int = 10_000
    hw_resolution_ms: int = 0
    replica_hw: bool = False
    clusters: Mapping[str, Mapping[str, int | bool | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _require({f.name: getattr(self, f.name) for f in fields(self)}, "rules")
        for pattern, other in self.clusters.items():
            where = f"rules.clusters.{pattern}"
            for name, value in other.items():
                if name not in OF_CLUSTERS:
                    raise ValueError(f"{where}.{name} is no rule of one cluster; these are: {', '.join(OF_CLUSTERS)}")
                if isinstance(value, bool) != name.startswith(("strict", "hw")):
                    raise ValueError(f"{where}.{name} is {value!r}; see {name} in [rules] for what it can be")
            _require(other, where)

    def of(self, cluster: str) -> tuple[Rules, int]:
        """(the rules of one cluster, the bits of those that hold there whatever version its brokers report)."""
        matching = [pattern for pattern in self.clusters if fnmatchcase(cluster, pattern)]
        if not matching:
            return self, 0
        other: dict[str, Any] = dict(self.clusters[max(matching, key=lambda pattern: (len(pattern), pattern))])
        fixed = sum(bit for name, bit in _BITS.items() if name in other)
        return replace(self, **other, clusters={}), fixed

    @property
    def bits(self) -> int:
        """The rules that depend on the version, as bits of kafka_versions."""
        bits = sum(bit for name, bit in _BITS.items() if name != "lag_max_messages" and getattr(self, name))
        return bits if self.lag_max_messages is None else bits | BY_MESSAGES


_BITS = {
    "lag_max_messages": BY_MESSAGES,
    "strict_min_isr": STRICT_MIN_ISR,
    "strict_eligibility": STRICT_ELIGIBILITY,
    "hw_waits_for_joiners": WAITS_FOR_JOINERS,
}


def _require(values: Mapping[str, Any], where: str) -> None:
    for name, value in values.items():
        least = _LEAST.get(name)
        if least is not None and value is not None and value < least:
            raise ValueError(f"{where}.{name} is {value}; it must be at least {least}")
        if name == "lag_max_messages" and value is not None and value < 0:
            raise ValueError(f"{where}.{name} is {value}; it must be 0 or more, or unset")
