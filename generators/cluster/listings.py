"""The brokers that are up, as others list them."""

from __future__ import annotations

from dataclasses import dataclass, field

ROUNDS_ALONE = 3
"""A broker that has just come is listed by others a round later."""


@dataclass
class Listings:
    """By broker that answered when it was last asked the brokers that it knew to be up."""

    by_broker: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _alone: dict[int, int] = field(default_factory=dict)
    """By broker in how many rounds on end it answered and most others did not list it."""

    def hold(self, broker: int) -> bool:
        """Whether a broker is up as most of the others say that answered; with nobody else, it is."""
        others = [listed for other, listed in self.by_broker.items() if other != broker]
        return 2 * sum(broker in listed for listed in others) >= len(others)

    def hold_lately(self, broker: int) -> bool:
        """Whether others list a broker that answers, or did a few rounds ago; to be called once a round."""
        self._alone[broker] = 0 if self.hold(broker) else self._alone.get(broker, 0) + 1
        return self._alone[broker] < ROUNDS_ALONE

    def forget(self, broker: int) -> bool:
        """Forget a broker that does not answer; whether it did when it was last asked."""
        self._alone.pop(broker, None)
        return self.by_broker.pop(broker, None) is not None

    def differ(self) -> bool:
        """Whether brokers list different brokers: one side may be cut off from the controllers."""
        return len(set(map(frozenset, self.by_broker.values()))) > 1

    def fit(self) -> frozenset[int]:
        """Brokers that answered and that most of the others list."""
        return frozenset(filter(self.hold, self.by_broker))
