"""A producer as an application has it: batches per partition, retries, and what idempotence adds to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from generators.simulator.cluster.agenda import Agenda
from generators.simulator.cluster.leading import Produced
from generators.simulator.cluster.log import Batch
from generators.simulator.cluster.producer_state import NO_PRODUCER, REMEMBERED, sequence_after
from generators.simulator.cluster.settings import MS, Settings

RETRIABLE = frozenset(
    {
        "NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION", "UNKNOWN_TOPIC_OR_PARTITION", "OUT_OF_ORDER_SEQUENCE_NUMBER",
    }
)  # fmt: skip
"""Errors after which the same batch is sent again."""


class Cluster(Protocol):
    """What a producer needs of a cluster: one way in, and time."""

    settings: Settings
    agenda: Agenda

    def produce(
        self,
        topic: str,
        partition: int,
        count: int = 1,
        acks: int = 1,
        batch: Batch | None = None,
        done: Callable[[Produced], None] | None = None,
    ) -> None: ...


@dataclass(frozen=True)
class ProducerSettings:
    """Kafka's settings of the same names; `acks=-1` is all."""

    acks: int = -1
    idempotence: bool = True
    retries: int = 2**31 - 1
    max_in_flight: int = 5
    delivery_timeout_ms: int = 120_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000

    def __post_init__(self) -> None:
        if self.acks not in (0, 1, -1):
            raise ValueError(f"acks={self.acks}: give 0, 1 or -1 (all)")
        if self.idempotence and (self.acks != -1 or self.retries == 0 or self.max_in_flight > REMEMBERED):
            raise ValueError(f"idempotence wants acks=-1, retries and at most 5 in flight, not {self}")


@dataclass(eq=False)
class Sent:
    """One batch on its way; `answer` once it is known how it ended, which is at most once."""

    partition: int
    values: tuple[str, ...]
    created: int
    attempts: int = 0
    errors: list[str] = field(default_factory=list)
    """What each attempt was answered with that was not the last."""
    ready: int = 0
    """Not to be sent again before this time."""
    epoch: int = -1
    sequence: int = -1
    answer: Produced | None = None

    @property
    def acknowledged(self) -> bool:
        return self.answer is not None and self.answer.error is None


@dataclass
class _Lane:
    """One partition: batches that wait, in order, and those in flight; the numbers of the next one."""

    waiting: list[Sent] = field(default_factory=list)
    in_flight: list[Sent] = field(default_factory=list)
    epoch: int = 0
    sequence: int = 0
    acknowledged: int = -1
    """The last sequence number that was."""
    unresolved: bool = False
    """A batch with a number failed, and the next ones leave a gap: numbers begin anew when none is in flight."""


class Producer:
    """Sends batches of values to one topic. `ids` gives producer ids, a new one to every process.

    In a cluster moved by a script it sends again when told to (`retry`), in others by itself, after a pause.
    """

    def __init__(
        self, cluster: Cluster, topic: str, ids: Iterator[int], settings: ProducerSettings = ProducerSettings()
    ) -> None:
        self.cluster = cluster
        self.topic = topic
        self.settings = settings
        self.sent: list[Sent] = []
        """Every batch of every process, in the order of sending."""
        self._ids = ids
        self._lanes: dict[int, _Lane] = {}
        self.restart()

    def restart(self) -> None:
        """The process ends, with what it still had to send; the next one has a new producer id (InitProducerId)."""
        for lane in self._lanes.values():
            lane.waiting.clear()
            lane.in_flight.clear()
        self._lanes.clear()
        self.id = next(self._ids) if self.settings.idempotence else NO_PRODUCER
        self.epoch = 0

    def send(self, partition: int, *values: str) -> Sent:
        """One batch; its `answer` comes as time goes by."""
        sent = Sent(partition, values, self.cluster.agenda.now)
        self.sent.append(sent)
        lane = self._lanes.setdefault(partition, _Lane(epoch=self.epoch))
        lane.waiting.append(sent)
        self._drain(lane)
        return sent

    def retry(self) -> None:
        """Sends again whatever waits for that, pause or not."""
        for lane in self._lanes.values():
            for sent in lane.waiting:
                sent.ready = 0
            self._drain(lane)

    def _drain(self, lane: _Lane) -> None:
        """Sends what may be sent now (RecordAccumulator.drain)."""
        if lane.unresolved and not lane.in_flight:
            self._renumber(lane)
        while lane.waiting and len(lane.in_flight) < self.settings.max_in_flight and not lane.unresolved:
            first = lane.waiting[0]
            if first.ready > self.cluster.agenda.now or (self.settings.idempotence and _follows(first, lane.in_flight)):
                return
            lane.in_flight.append(lane.waiting.pop(0))
            self._transmit(lane, first)

    def _renumber(self, lane: _Lane) -> None:
        """A new epoch, in which numbers begin at 0 again (KIP-360)."""
        self.epoch = max(self.epoch, lane.epoch + 1)
        lane.epoch, lane.sequence, lane.acknowledged, lane.unresolved = self.epoch, 0, -1, False
        for sent in lane.waiting:
            sent.sequence = -1

    def _transmit(self, lane: _Lane, sent: Sent) -> None:
        count, settings = len(sent.values), self.settings
        if settings.idempotence and sent.sequence < 0:
            sent.epoch, sent.sequence = lane.epoch, lane.sequence
            lane.sequence = sequence_after(lane.sequence, count)
        sent.attempts += 1
        batch = Batch(self.id, sent.epoch, sent.sequence, sent.values)
        attempt = sent.attempts

        def answered(answer: Produced) -> None:
            if attempt == sent.attempts and sent in lane.in_flight:
                self._answered(lane, sent, answer)

        done = answered if settings.acks else None
        self.cluster.produce(self.topic, sent.partition, count, settings.acks, batch, done)
        if settings.acks == 0:
            answered(Produced(None))

    def _answered(self, lane: _Lane, sent: Sent, answer: Produced) -> None:
        lane.in_flight.remove(sent)
        if answer.error is not None and self._may_retry(sent, answer.error):
            sent.errors.append(answer.error)
            lane.unresolved |= _is_behind(lane, sent, answer.error)
            self._again(lane, sent)
        else:
            sent.answer = answer
            self._ended(lane, sent)
        self._drain(lane)

    def _ended(self, lane: _Lane, sent: Sent) -> None:
        if self.settings.idempotence and sent.acknowledged:
            lane.acknowledged = max(lane.acknowledged, sequence_after(sent.sequence, len(sent.values) - 1))
        elif self.settings.idempotence:
            lane.unresolved = True

    def _may_retry(self, sent: Sent, error: str) -> bool:
        settings = self.settings
        due = self.cluster.agenda.now + self._backoff(sent) - sent.created
        in_time = sent.attempts <= settings.retries and due < settings.delivery_timeout_ms * MS
        return in_time and error in RETRIABLE

    def _again(self, lane: _Lane, sent: Sent) -> None:
        """Back into the queue: at its front, or where its sequence number belongs."""
        backoff = self._backoff(sent)
        sent.ready = self.cluster.agenda.now + backoff
        ahead = [w for w in lane.waiting if self.settings.idempotence and _follows(sent, [w])]
        lane.waiting.insert(len(ahead), sent)
        if self.cluster.settings.automatic:
            self.cluster.agenda.after(backoff, self._drain, lane)

    def _backoff(self, sent: Sent) -> int:
        """Doubled with each attempt, up to a bound (KIP-580, without its jitter); in us."""
        settings = self.settings
        return min(settings.retry_backoff_ms << min(sent.attempts - 1, 16), settings.retry_backoff_max_ms) * MS


def _follows(sent: Sent, others: list[Sent]) -> bool:
    """Whether a numbered batch has to wait for one of `others`, which comes before it."""
    return sent.sequence >= 0 and any(o.epoch == sent.epoch and 0 <= o.sequence < sent.sequence for o in others)


def _is_behind(lane: _Lane, sent: Sent, error: str) -> bool:
    """Out of order though it is next: the leader lost what was acknowledged (TransactionManager.canRetry)."""
    return error == "OUT_OF_ORDER_SEQUENCE_NUMBER" and sent.sequence == sequence_after(lane.acknowledged)
