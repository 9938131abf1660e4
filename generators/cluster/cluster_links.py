"""The links to all brokers of a cluster, and to the one that is asked for its metadata."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from time import monotonic

from kafka.future import Future

from generators.cluster.asking.decoded import Described, TopicFilter
from generators.cluster.asking.link import BrokerLink
from generators.cluster.asking.problems import NotAnswering, why
from generators.cluster.asking.round import ask_metadata
from generators.cluster.asking.security import Security
from generators.cluster.metadata.partitions import BrokerAddress
from generators.cluster.observing.answers import Instant


@dataclass
class ClusterLinks:
    """A link per broker; `wake` is set whenever some work has ended. `fit`: brokers that answer, and that most of those
    list: one of these is asked for the metadata, as long as there is one."""

    security: Security
    topics: TopicFilter
    timeout_s: float
    wake: threading.Event = field(default_factory=threading.Event)
    by_broker: dict[int, BrokerLink] = field(default_factory=dict)
    fit: frozenset[int] = frozenset()
    _describer: int | None = None
    _describing: Future | None = None
    _errors: list[tuple[int, BaseException]] = field(default_factory=list)

    def bootstrap(self, servers: Sequence[tuple[str, int]]) -> Described:
        """The metadata from the first server that answers. Raises NotAnswering."""
        reasons = []
        for host, port in servers:
            link = self.link_to(host, port)
            try:
                work = link.begin(ask_metadata, self.topics, done=self.wake.set)
                self.wait([work], monotonic() + 2 * self.timeout_s)
                if work.is_done and work.exception is None:
                    return work.value[0]  # type: ignore[no-any-return]
                error = work.exception or TimeoutError("timed out")
                reasons.append(f"{host}:{port}: {why(error, self.security)}")
            finally:
                link.close()
        raise NotAnswering("no cluster can be asked: " + "; ".join(reasons))

    def link_to(self, host: str, port: int) -> BrokerLink:
        """A link to a server with an unknown broker id."""
        return BrokerLink(BrokerAddress(-1, host, port), self.security, self.timeout_s)

    def connect(self, brokers: Sequence[BrokerAddress], hosting: Iterable[int] = ()) -> None:
        """Keep links to these brokers, and to those `hosting` replicas at their last address; close all others."""
        wanted = {b: self.by_broker[b].address for b in hosting if b in self.by_broker}
        wanted |= {broker.broker_id: broker for broker in brokers}
        for broker, link in list(self.by_broker.items()):
            if broker not in wanted or link.address[:3] != wanted[broker][:3]:
                self.by_broker.pop(broker).close()
                if broker == self._describer:
                    self.pass_on()
        for broker, address in wanted.items():
            if broker not in self.by_broker:
                self.by_broker[broker] = BrokerLink(address, self.security, self.timeout_s)

    def describe(self, until: float) -> tuple[int, Described, Instant] | None:
        """The metadata and the broker that sent it; None if none did by `until` (monotonic seconds).

        The same broker is asked as long as it answers: metadata from one that lags would look like a change back.
        """
        if self._describing is None and not self._ask_next():
            return None
        assert self._describing is not None
        self.wait([self._describing], until)
        work, broker = self._describing, self._describer
        assert broker is not None
        if not work.is_done:  # of a large cluster it takes its time; a broker that hangs ends with an error
            return None
        self._describing = None
        if work.exception is not None:
            self._errors.append((broker, work.exception))
            self.pass_on()
            return None
        described, at = work.value
        return broker, described, at

    @property
    def describing(self) -> list[Future]:
        """The running metadata request, if there is one."""
        return [] if self._describing is None or self._describing.is_done else [self._describing]

    def take_errors(self) -> list[tuple[int, BaseException]]:
        """The brokers whose metadata requests failed since the last call, with the errors."""
        taken, self._errors = self._errors, []
        return taken

    def pass_on(self) -> None:
        """Ask another broker for metadata from now on."""
        idle = sorted(b for b, link in self.by_broker.items() if not link.busy)
        idle = [b for b in idle if b in self.fit] or idle
        later = [b for b in idle if self._describer is not None and b > self._describer]
        self._describer, self._describing = next(iter(later or idle), None), None

    def wait(self, works: Sequence[Future], until: float, stop: threading.Event | None = None) -> None:
        """Wait until all works have ended, `until` has passed, or `stop` is set."""
        while any(not work.is_done for work in works):
            left = until - monotonic()
            if left <= 0 or (stop is not None and stop.is_set()):
                return
            self.wake.wait(min(left, 0.2))
            self.wake.clear()

    def close(self) -> None:
        """End every connection."""
        for link in self.by_broker.values():
            link.close()
        self.by_broker.clear()

    def _ask_next(self) -> bool:
        link = self.by_broker.get(-1 if self._describer is None else self._describer)
        if link is None or link.busy or (self.fit and self._describer not in self.fit):
            self.pass_on()
            link = None if self._describer is None else self.by_broker[self._describer]
        if link is None:
            return False
        self._describing = link.begin(ask_metadata, self.topics, done=self.wake.set)
        return True
