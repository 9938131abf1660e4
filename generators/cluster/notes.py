"""A watcher's lines for the person who started it: each problem once, and again when it is over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from generators.cluster.asking.link import BrokerLink
from generators.cluster.asking.problems import NotAnswering
from generators.cluster.asking.round import Settings
from generators.cluster.observing.answers import Answer
from generators.cluster.observing.errors import NOT_PERMITTED, error_name
from generators.cluster.observing.settings import LAG, MIN_ISR


@dataclass
class Notes:
    """Lines for a person; a line comes again only after a change."""

    say: Callable[[str], None]
    answered: bool = False
    """Whether any broker has answered a round yet."""
    _silent: dict[int, str] = field(default_factory=dict)
    _said: set[str] = field(default_factory=set)
    _skipped: int = 0

    def once(self, line: str) -> None:
        """Print a line once in a run."""
        if line not in self._said:
            self._said.add(line)
            self.say(line)

    def silent(self, broker: int, why: str) -> None:
        """Note that a broker did not answer a round."""
        if self._silent.get(broker) != why:
            self._silent[broker] = why
            self.say(f"broker {broker} does not answer: {why}")

    def answers(self, broker: int) -> None:
        """Note that a broker answered a round."""
        self.answered = True
        if self._silent.pop(broker, None) is not None:
            self.say(f"broker {broker} answers again; what it was not asked for meanwhile is a `lost` row")

    def all_silent(self, brokers: Iterable[int]) -> bool:
        """Whether none of these brokers answered when it was last asked."""
        return set(brokers) <= set(self._silent)

    @property
    def silent_brokers(self) -> set[int]:
        """Brokers that did not answer when they were last asked."""
        return set(self._silent)

    def require_answers(self, links: Mapping[int, BrokerLink]) -> None:
        """Raise NotAnswering if none of the brokers that the cluster names has ever answered."""
        if self.answered or not links or not self.all_silent(links):
            return
        places = {broker: f"{link.address.host}:{link.address.port}" for broker, link in links.items()}
        reasons = "; ".join(f"broker {b} at {places[b]}: {self._silent[b]}" for b in sorted(places))
        raise NotAnswering(f"the cluster names brokers that do not answer from here (advertised.listeners?): {reasons}")

    def skipped(self, ticks: int, interval_s: float) -> None:
        """Note ticks that passed during a round, at the first one and whenever their number has doubled."""
        if not ticks:
            return
        before, self._skipped = self._skipped, self._skipped + ticks
        if before == 0 or before.bit_length() != self._skipped.bit_length():
            self.say(
                f"rounds take longer than the interval of {interval_s:g} s: {self._skipped} skipped so far "
                "(a longer --interval, fewer topics, or a higher max_partitions_per_s)"
            )

    def topics(self, refused: Mapping[str, int]) -> None:
        """Note the topics that were given by name and cannot be described."""
        for name, code in refused.items():
            if code in NOT_PERMITTED:
                self.once(f"topic {name} may not be described: allow DESCRIBE on it; the others are watched")
            else:
                self.once(f"topic {name} is not there: {error_name(code)}")

    def offsets(self, answer: Answer) -> None:
        """Note the partitions whose offsets were refused."""
        refused = np.isin(answer.error, NOT_PERMITTED)
        if not refused.any():
            return
        seen = answer.partitions
        rows = answer.replicas.partition[answer.slots[refused]]
        for topic in np.unique(seen.topic[rows]).tolist():
            name = seen.topics.names[topic]
            self.once(f"offsets of topic {name} are refused: allow DESCRIBE on it; the others are watched")

    def settings(self, settings: Settings) -> None:
        """Note the settings that may not be read."""
        counts = Counter("topics" if name.startswith("topic ") else "cluster" for name in settings.refused)
        if counts["cluster"]:
            self.once(f"{LAG} may not be read: allow DESCRIBE_CONFIGS on the cluster; [rules] lag_max_ms holds instead")
        if counts["topics"]:
            self.once(
                f"{MIN_ISR} of {counts['topics']} topics may not be read: allow DESCRIBE_CONFIGS on them; "
                "[rules] min_isr holds instead"
            )
