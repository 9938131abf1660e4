"""Questions about controllers, reassignments and fenced brokers to one broker, and to another if that fails."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from time import monotonic

from kafka.future import Future

from generators.cluster.asking.link import PROBE_S, BrokerLink
from generators.cluster.asking.reassignments import Adding, ask_adding
from generators.cluster.asking.registrations import Registered, ask_registered
from generators.cluster.asking.security import Security
from generators.cluster.asking.stopping import CLUSTER_REFUSED, QuorumSeen, ask_quorum
from generators.cluster.metadata.partitions import BrokerAddress, Partitions
from schemas.event_types import FENCED, NO_CONTROLLER, NOT_LOOKED_AT, NOT_REACHED, UNREGISTERED, describe_quorum

EVERY_S = 15.0
KEPT_S = 45.0
"""Seconds for which the last answers count while requests fail: a failed request ends no reassignment."""
ASKED = 2
"""Brokers that must fail to reach a controller, at least one with each listing, before none is reported to be there: a
broker that is cut off from the controllers goes on listing the same brokers."""
FORWARDED_S = 40.0
"""Seconds without an answer of a controller before none is reported to be there: a broker waits for one that hangs
(controller.socket.timeout.ms, 30 s) though there may be another one by then."""
AGAIN_S = 5.0


@dataclass(frozen=True)
class Told:
    """A broker's answers about the controllers; None if it did not answer, or cannot list fenced brokers."""

    quorum: QuorumSeen = field(default_factory=lambda: QuorumSeen(error=-1))
    adding: Adding | None = None
    registered: Registered | None = None


@dataclass
class Controllers:
    """The answers about the controllers, over a connection of their own: a broker that reaches none answers late."""

    security: Security
    _link: BrokerLink | None = None
    _work: Future | None = None
    _at: float = 0.0
    """When a broker is asked next (monotonic seconds)."""
    _begun: float = 0.0
    _failing_since: float | None = None
    """When the first request began that failed since the last answer, or since a controller changed something."""
    _voters: Mapping[int, bool | None] = field(default_factory=lambda: {-1: True})
    """The voters in the last answer, and which were caught up: without their majority no other one can be elected."""
    _failed: set[int] = field(default_factory=set)
    _told: Told = field(default_factory=Told)
    """The last answers."""
    _told_at: float = 0.0
    _ever_registered: set[int] = field(default_factory=set)
    """The brokers in any answer so far: one that has just come may lack in the last."""
    _settled: tuple[Partitions, Adding, Partitions] | None = None
    """The last metadata given to `settle`, the replicas that were being added, and the result."""

    def step(
        self, brokers: Mapping[int, BrokerAddress], done: Callable[[], None], listings: Mapping[int, Collection[int]]
    ) -> tuple[int, str] | None:
        """Return a broker, and the detail of its row, once there is something to say.

        Args:
            brokers: the brokers that answer; one of them is asked.
            done: is called on another thread when an answer has come.
            listings: by broker, the brokers that it lists as up.
        """
        found = None
        if self._link is not None and self._work is not None and self._work.is_done:
            broker, work, self._work = self._link.address.broker_id, self._work, None
            self._link.close()
            found = self._conclude(broker, work, brokers.keys(), listings)
        if self._work is None and brokers and monotonic() >= self._at:
            left = brokers.keys() - self._failed or brokers.keys()
            last = -1 if self._link is None else self._link.address.broker_id
            broker = min((b for b in left if b > last), default=min(left))
            self._begun = monotonic()
            self._at = self._begun + EVERY_S
            self._link = BrokerLink(brokers[broker], self.security, PROBE_S)
            self._work = self._link.begin(_ask, done=done)
        return found

    def see_change(self) -> None:
        """Note that the metadata changed, which shows that a controller was there."""
        if self._failing_since is not None:
            self._failing_since = monotonic()

    def hasten(self) -> None:
        """Make the next `step` ask at once."""
        self._at = 0.0

    def settle(self, seen: Partitions) -> Partitions:
        """The metadata without the replicas that are being added; the same object while both stay the same."""
        adding = self._last().adding or {}
        if self._settled is None or self._settled[0] is not seen or self._settled[1] != adding:
            self._settled = seen, adding, seen.with_adding(adding)
        return self._settled[2]

    def registration(self, broker: int) -> str:
        """FENCED or UNREGISTERED for a broker that others do not list; empty if neither is known."""
        known = self._last().registered
        if known is None:
            return ""
        if broker not in known:
            return UNREGISTERED if broker in self._ever_registered else ""
        if not known[broker]:  # that was asked before others listed it no more
            self.hasten()
        return FENCED if known[broker] else ""

    @property
    def asking(self) -> list[Future]:
        """The running request, if there is one."""
        return [] if self._work is None or self._work.is_done else [self._work]

    def close(self) -> None:
        """End the connection."""
        if self._link is not None:
            self._link.close()

    def _last(self) -> Told:
        """The last answers; those of `Told()` once they are older than KEPT_S."""
        return self._told if monotonic() < self._told_at + KEPT_S else Told()

    def _conclude(
        self, broker: int, work: Future, brokers: Collection[int], listings: Mapping[int, Collection[int]]
    ) -> tuple[int, str] | None:
        told = work.value if work.exception is None else Told()
        seen = told.quorum
        if told.adding is not None:
            self._told, self._told_at = told, monotonic()
            self._ever_registered.update(told.registered or ())
        if seen.error not in (0, CLUSTER_REFUSED):
            # A broker that has fallen silent may reach a controller, although the watcher does not reach that broker.
            self._failed = (self._failed | {broker}) & set(brokers)
            self._failing_since = self._begun if self._failing_since is None else self._failing_since
            untried = {frozenset(one) for other, one in listings.items() if other not in self._failed}
            tried = {frozenset(one) for other, one in listings.items() if other in self._failed}
            if len(self._failed) < max(1, min(ASKED, len(brokers))) or not untried <= tried:
                self._at = 0.0
                return None
            of = f"broker{'s' * (len(self._failed) > 1)} {', '.join(map(str, sorted(self._failed)))}"
            found = f"{NO_CONTROLLER} is reached by {of}"
            caught_up = sum(one is not False for one in self._voters.values())
            if monotonic() < self._failing_since + FORWARDED_S and 2 * caught_up > len(self._voters):
                self._at, found = monotonic() + AGAIN_S, f"{NOT_REACHED}, {of} got no answer of a controller"
        elif seen.error:
            found = f"{NOT_LOOKED_AT}: no right (DESCRIBE on the cluster)"
        elif not seen.voters:  # ZooKeeper's
            found = ""
        else:
            found, self._voters = describe_quorum(seen.voters), seen.voters
        self._failed = set()
        if seen.error in (0, CLUSTER_REFUSED):
            self._failing_since = None
        return (broker, found) if found else None


async def _ask(link: BrokerLink) -> Told:
    seen = await ask_quorum(link)
    try:
        return Told(seen) if seen.error else Told(seen, await ask_adding(link), await ask_registered(link))
    except Exception:  # the controllers are there all the same
        return Told(seen)
