"""The selectable rules of the reconstruction."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Rules:
    """What to assume where the telemetry is silent, and which version of Kafka's rules to apply.

    Milliseconds throughout. `lag_max_ms` and `min_isr` yield to `config` and `leader` events. `strict_eligibility`: a
    broker that is fenced, stopping, or not heard of since it started again holds no HW as a joiner (Kafka 3.5 and
    later). Raises ValueError naming the bad value.
    """

    lag_max_ms: int = 30_000
    min_isr: int = 1
    lag_max_messages: int | None = None
    strict_min_isr: bool = True
    strict_eligibility: bool = True
    race_window_ms: int = 150
    reorder_grace_ms: int = 10_000
    hw_resolution_ms: int = 0
    replica_hw: bool = False

    def __post_init__(self) -> None:
        least = {"lag_max_ms": 1, "min_isr": 1, "race_window_ms": 0, "reorder_grace_ms": 0, "hw_resolution_ms": 0}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in least and value < least[field.name]:
                raise ValueError(f"rules.{field.name} is {value}; it must be at least {least[field.name]}")
        if self.lag_max_messages is not None and self.lag_max_messages < 0:
            raise ValueError(f"rules.lag_max_messages is {self.lag_max_messages}; it must be 0 or more, or unset")
