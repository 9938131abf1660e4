"""Outcome of what was sent: delivered, lost, duplicated; and which guarantee that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

AT_MOST_ONCE, AT_LEAST_ONCE, EXACTLY_ONCE, NEITHER = "at most once", "at least once", "exactly once", "neither"


class Delivery(NamedTuple):
    """Values by outcome, each as often as it occurred and in the order of sending."""

    sent: tuple[str, ...]
    acknowledged: tuple[str, ...]
    lost: tuple[str, ...]
    """Sent and not found."""
    broken: tuple[str, ...]
    """Acknowledged and not found."""
    duplicated: tuple[str, ...]
    """Found more often than sent: one entry for each surplus copy."""

    @property
    def guarantee(self) -> str:
        """The strongest guarantee that this outcome fulfils."""
        if self.lost and self.duplicated:
            return NEITHER
        if self.lost:
            return AT_MOST_ONCE
        return AT_LEAST_ONCE if self.duplicated else EXACTLY_ONCE


def count(sent: Iterable[str], acknowledged: Iterable[str], there: Iterable[str]) -> Delivery:
    """Compare what was sent with what is found in the log, or by a consumer."""
    sent, acknowledged = tuple(sent), tuple(acknowledged)
    wanted, found = Counter(sent), Counter(there)
    if strange := [value for value in found if value not in wanted]:
        raise ValueError(f"{strange[0]!r} is there but was never sent: compare with the log it was sent to")
    return Delivery(
        sent, acknowledged, lost=tuple((wanted - found).elements()),
        broken=tuple((Counter(acknowledged) - found).elements()), duplicated=tuple((found - wanted).elements()),
    )  # fmt: skip
