"""Differences between Kafka's versions, as named behaviours."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Version:
    """The behaviour of one Kafka version's brokers, as far as versions differ in replication."""

    name: str
    released: str
    """As its brokers print it when they start."""
    lag_by_messages: bool = False
    """A replica falls out of sync by messages behind (until 0.8), not by time."""
    truncates_to_high_watermark: bool = False
    """A follower truncates its log to its own HW (before 0.11, KIP-101), not to where leader epochs diverge."""
    strict_min_isr: bool = True
    """The HW does not advance under min ISR (since 3.7)."""
    admits_ineligible: bool = False
    """Fenced brokers and old incarnations may join an ISR (before 3.5, KIP-841 and KIP-903)."""
    waits_for_joiners: bool = True
    """The HW waits for a caught-up replica outside the ISR, too (since 0.10.2, KAFKA-4485), not for the ISR alone."""
    refuses_second_change: bool = True
    """A leader requests one ISR change of a partition at a time, and drops a second one (since 2.7, KIP-497)."""
    eligible_leader_replicas: bool = False
    """Replicas that were in the ISR before it fell under min ISR may still lead (KIP-966; default in new 4.1
    clusters)."""
    has_elr: bool = False
    """Whether eligible leader replicas can be switched on and off."""


VERSIONS: dict[str, Version] = {
    v.name: v
    for v in (
        Version(
            "0.8",
            "0.8.2.2",
            lag_by_messages=True,
            truncates_to_high_watermark=True,
            strict_min_isr=False,
            admits_ineligible=True,
            refuses_second_change=False,
            waits_for_joiners=False,
        ),
        Version(
            "0.10",
            "0.10.1.1",
            truncates_to_high_watermark=True,
            strict_min_isr=False,
            admits_ineligible=True,
            refuses_second_change=False,
            waits_for_joiners=False,
        ),
        Version("2.8", "2.8.2", strict_min_isr=False, admits_ineligible=True),
        Version("3.6", "3.6.2", strict_min_isr=False),
        Version("3.9", "3.9.1"),
        Version("4.0", "4.0.1", has_elr=True),
        Version("4.1", "4.1.1", eligible_leader_replicas=True, has_elr=True),
    )
}
