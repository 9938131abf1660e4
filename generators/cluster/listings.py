"""The brokers that are up, as others list them."""

from __future__ import annotations

from dataclasses import dataclass, field

ROUNDS_ALONE = 3
"""Rounds after which the others list a broker that has just come."""


@dataclass
class Listings:
    """The brokers that each broker lists as up, of those that answered last time."""

    by_broker: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _alone: dict[int, int] = field(default_factory=dict)
    """Rounds in a row in which a broker answered and most others did not list it, by broker."""

    def hold(self, broker: int) -> bool:
        """Whether at least half of the others that answered list a broker as up; True if no other answered."""
        others = [listed for other, listed in self.by_broker.items() if other != broker]
        return 2 * sum(broker in listed for listed in others) >= len(others)

    def hold_lately(self, broker: int) -> bool:
        """Whether others list a broker that answers, or did a few rounds ago; to be called once a round."""
        self._alone[broker] = 0 if self.hold(broker) else self._alone.get(broker, 0) + 1
        return self._alone[broker] < ROUNDS_ALONE

    def forget(self, broker: int) -> bool:
        """Forget a broker that does not answer; returns whether it answered last time."""
        self._alone.pop(broker, None)
        return self.by_broker.pop(broker, None) is not None

    def differ(self) -> bool:
        """Whether brokers list different brokers: one side may be cut off from the controllers."""
        return len(set(map(frozenset, self.by_broker.values()))) > 1

    def fit(self) -> frozenset[int]:
        """The brokers that answered and are listed by most of the others."""
        return frozenset(filter(self.hold, self.by_broker))
