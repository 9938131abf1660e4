"""A follower's fetches from one leader, one at a time, of all it follows there (AbstractFetcherThread)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from generators.simulator.cluster import rules
from generators.simulator.cluster.leader_requests import Asked, Fetched
from generators.simulator.cluster.replica import Replica
from generators.simulator.cluster.sessions import FetchSession
from generators.simulator.cluster.settings import MS

if TYPE_CHECKING:
    from generators.simulator.cluster.broker import Broker

Key = tuple[str, int]
THROTTLED_PAUSE = 500 * MS


@dataclass(eq=False)
class Request:
    """A fetch on its way: the offset for each partition, the process that sent it, and the limit of records."""

    fetcher: Fetcher
    process: int
    broker_epoch: int | None
    asked: dict[Key, Asked]
    most: int
    patient: bool = False
    """Parked in any case: replica.fetch.min.bytes is more than there will be."""
    answered: bool = False

    @property
    def follower(self) -> int:
        return self.fetcher.broker.id


class Fetcher:
    """All partitions that `broker` follows at `leader`."""

    def __init__(self, broker: Broker, leader: int) -> None:
        self.broker = broker
        self.leader = leader
        self.flying: Request | None = None
        self.session = FetchSession(self)
        self._ready: dict[Key, int] = {}
        """By partition that is not at rest: the time from which it may be fetched again."""
        self._order: dict[Key, int] = {}
        """Numbers in the order in which partitions were added, which is that of a request."""
        self._count = count()
        self._planned = False

    def add(self, key: Key) -> None:
        self._ready[key] = 0
        self._order.pop(key, None)
        self._order[key] = next(self._count)
        self._plan(0)

    def remove(self, key: Key) -> None:
        self.session.wake(key)
        self._ready.pop(key, None)
        self._order.pop(key, None)

    def ask(self, key: Key) -> None:
        """Fetch a partition by name again, also in a request that is not answered yet."""
        self._ready[key] = 0
        if self.flying is not None and not self.flying.answered:
            self.flying.asked[key] = self._asked(key)

    def _plan(self, delay: int) -> None:
        """Send soon, unless a request is out or planned already."""
        if self.flying is None and not self._planned and self.broker.settings.automatic:
            self._planned = True
            self.broker.later(delay, self.send)

    def send(self) -> None:
        self._planned = False
        if self.flying is not None or not (self._ready or self.session):
            return
        now = self.broker.now
        keys = [key for key, ready in self._ready.items() if ready <= now]
        if self.broker.cluster.rest is not None:
            keys.sort(key=self._order.__getitem__)
        if not (keys or self.session):
            self._plan(min(self._ready.values()) - now)
            return
        self.flying = self.request(keys)
        self.broker.cluster.deliver_fetch(self.flying, self.leader)

    def request(self, keys: list[Key], **how: bool) -> Request:
        asked = {key: self._asked(key) for key in keys}
        most = self.broker.settings.fetch_max_records
        if self.broker.throttle is not None:
            most = min(most, self.broker.throttle)
        return Request(self, self.broker.process, self.broker.epoch, asked, most, **how)

    def _asked(self, key: Key) -> Asked:
        replica = self.broker.replicas[key]
        last = None if self.broker.version.truncates_to_high_watermark else replica.log.last_epoch
        return Asked(replica.topic_id, replica.log.leo, replica.leader_epoch, last)

    @property
    def keys(self) -> list[Key]:
        return list(self._order)

    def failed(self, request: Request) -> None:
        """The connection broke: all its partitions wait."""
        if self.flying is request:
            self.flying = None
            self.session.wake_all()
            self._plan(self.broker.settings.fetch_backoff_ms * MS)

    def received(self, request: Request, answers: dict[Key, Fetched]) -> None:
        if self.flying is not request:
            return
        self.flying = None
        self.apply(request, answers)
        self._plan(THROTTLED_PAUSE if self.broker.throttle is not None else 0)

    def apply(self, request: Request, answers: dict[Key, Fetched]) -> None:
        for key, answer in answers.items():
            replica, asked = self.broker.replicas.get(key), request.asked[key]
            if key not in self._ready or replica is None or not asked.still(replica):
                continue
            if answer.error is None and replica.log.leo == asked.offset:
                self._append(replica, answer) if answer.diverging is None else self._diverged(replica, answer)
                if self.broker.cluster.rest is not None and not answer.runs and answer.diverging is None:
                    self._may_rest(replica)
            elif answer.error == "OFFSET_OUT_OF_RANGE":
                self._out_of_range(replica, answer)
            elif answer.error is not None:
                self._ready[key] = self.broker.now + self.broker.settings.fetch_backoff_ms * MS

    def _may_rest(self, replica: Replica) -> None:
        """An empty answer: if its leader has nothing more for it either, it need not be named in fetches."""
        leader = self.broker.cluster.brokers[self.leader]
        theirs = leader.replicas.get(replica.key)
        if theirs is None or theirs.leader_partition is None or theirs.leader_partition.epoch != replica.leader_epoch:
            return
        if theirs.leader_partition.has_all(self.broker.id, replica) and not leader.version.lag_by_messages:
            del self._ready[replica.key]
            self.session.rest(replica.key, theirs.leader_partition)

    def _append(self, replica: Replica, answer: Fetched) -> None:
        """Records, then the HW, then the log start (ReplicaFetcherThread.processPartitionData)."""
        replica.log.extend(run for run in answer.runs if run.epoch <= replica.leader_epoch)
        self._set_hw(replica, rules.follower_high_watermark(answer.hw, replica.log.start, replica.log.leo))
        if answer.log_start > replica.log.start:
            replica.log.advance_start(answer.log_start)
            self._set_hw(replica, max(replica.hw, replica.log.start))

    def _diverged(self, replica: Replica, answer: Fetched) -> None:
        """Truncate to where the epochs diverge; if that takes more than one step, the next fetch continues
        (getOffsetTruncationState)."""
        assert answer.diverging is not None
        epoch, end = answer.diverging
        mine = replica.log.end_of(epoch)
        own_epoch, own_end = mine if mine is not None else (epoch, replica.log.leo)
        self._cut(replica, own_end if own_epoch != epoch else min(own_end, end))

    def _out_of_range(self, replica: Replica, answer: Fetched) -> None:
        """Behind the leader's log start: restart there; beyond its LEO: truncate (fetchOffsetAndTruncate)."""
        if answer.log_start > replica.log.leo:
            replica.restart(answer.log_start)
            self.broker.emit(
                "truncate", replica, replica=self.broker.id, leo=replica.log.leo, log_start=replica.log.start
            )
        else:
            self._cut(replica, answer.leo)
        self._ready[replica.key] = self.broker.now + self.broker.settings.fetch_backoff_ms * MS

    def _cut(self, replica: Replica, offset: int) -> None:
        before = replica.hw
        if replica.truncate(offset):
            self.broker.emit("truncate", replica, replica=self.broker.id, leo=replica.log.leo)
            if replica.hw != before:
                self.broker.emit("hw", replica, replica=self.broker.id, hw=replica.hw)

    def _set_hw(self, replica: Replica, hw: int) -> None:
        if hw != replica.hw:
            replica.hw = hw
            self.broker.emit("hw", replica, replica=self.broker.id, hw=hw)
