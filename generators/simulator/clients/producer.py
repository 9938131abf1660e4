"""A producer of an application: batches per partition, retries, idempotence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from generators.simulator.cluster.leader_requests import Produced
from generators.simulator.cluster.log import Batch
from generators.simulator.cluster.producer_state import NO_PRODUCER, sequence_after
from generators.simulator.cluster.settings import MS

if TYPE_CHECKING:
    from generators.simulator.cluster.simulation import Simulation

RETRIABLE = frozenset(
    {
        "NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION", "UNKNOWN_TOPIC_OR_PARTITION", "OUT_OF_ORDER_SEQUENCE_NUMBER",
    }
)  # fmt: skip
"""Errors after which the same batch is sent again."""


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


@dataclass(eq=False)
class Sent:
    """One batch; `answer` once it is known how it ended, which happens at most once."""

    partition: int
    values: tuple[str, ...]
    created: int
    attempts: int = 0
    errors: list[str] = field(default_factory=list)
    """Errors of all attempts but the last."""
    ready: int = 0
    """Not to be sent again before this time."""
    epoch: int = -1
    sequence: int = -1
    answer: Produced | None = None

    @property
    def acknowledged(self) -> bool:
        return self.answer is not None and self.answer.error is None


@dataclass
class _PartitionQueue:
    """The batches of one partition: waiting, in order, and in flight; and the numbers of the next one."""

    waiting: list[Sent] = field(default_factory=list)
    in_flight: list[Sent] = field(default_factory=list)
    epoch: int = 0
    sequence: int = 0
    acknowledged: int = -1
    """The last acknowledged sequence number."""
    unresolved: bool = False
    """A numbered batch failed, and the next ones leave a gap: numbers restart when none is in flight."""


class Producer:
    """Sends batches of values to one topic. `ids` gives producer ids, a new one to every process.

    In a cluster that a script moves it retries on request (`retry`), in others by itself, after a backoff.
    """

    def __init__(
        self, cluster: Simulation, topic: str, ids: Iterator[int], settings: ProducerSettings = ProducerSettings()
    ) -> None:
        self.cluster = cluster
        self.topic = topic
        self.settings = settings
        self.sent: list[Sent] = []
        """Every batch of every process, in the order of sending."""
        self._ids = ids
        self._queues: dict[int, _PartitionQueue] = {}
        self.restart()

    def restart(self) -> None:
        """The process ends, with its unsent batches; the next one has a new producer id (InitProducerId)."""
        for queue in self._queues.values():
            queue.waiting.clear()
            queue.in_flight.clear()
        self._queues.clear()
        self.id = next(self._ids) if self.settings.idempotence else NO_PRODUCER
        self.epoch = 0

    def send(self, partition: int, *values: str) -> Sent:
        """Send one batch; its `answer` is set as time passes."""
        sent = Sent(partition, values, self.cluster.event_queue.now)
        self.sent.append(sent)
        queue = self._queues.setdefault(partition, _PartitionQueue(epoch=self.epoch))
        queue.waiting.append(sent)
        self._drain(queue)
        return sent

    def retry(self) -> None:
        """Send all batches that wait for a retry, backoff or not."""
        for queue in self._queues.values():
            for sent in queue.waiting:
                sent.ready = 0
            self._drain(queue)

    def _drain(self, queue: _PartitionQueue) -> None:
        """Send what may be sent now (RecordAccumulator.drain)."""
        if queue.unresolved and not queue.in_flight:
            self._renumber(queue)
        while queue.waiting and len(queue.in_flight) < self.settings.max_in_flight and not queue.unresolved:
            first = queue.waiting[0]
            if first.ready > self.cluster.event_queue.now or (
                self.settings.idempotence and _follows(first, queue.in_flight)
            ):
                return
            queue.in_flight.append(queue.waiting.pop(0))
            self._transmit(queue, first)

    def _renumber(self, queue: _PartitionQueue) -> None:
        """A new epoch, in which numbers begin at 0 again (KIP-360)."""
        self.epoch = max(self.epoch, queue.epoch + 1)
        queue.epoch, queue.sequence, queue.acknowledged, queue.unresolved = self.epoch, 0, -1, False
        for sent in queue.waiting:
            sent.sequence = -1

    def _transmit(self, queue: _PartitionQueue, sent: Sent) -> None:
        count, settings = len(sent.values), self.settings
        if settings.idempotence and sent.sequence < 0:
            sent.epoch, sent.sequence = queue.epoch, queue.sequence
            queue.sequence = sequence_after(queue.sequence, count)
        sent.attempts += 1
        batch = Batch(self.id, sent.epoch, sent.sequence, sent.values)
        attempt = sent.attempts

        def answered(answer: Produced) -> None:
            if attempt == sent.attempts and sent in queue.in_flight:
                self._answered(queue, sent, answer)

        done = answered if settings.acks else None
        self.cluster.produce(self.topic, sent.partition, count, settings.acks, batch, done)
        if settings.acks == 0:
            answered(Produced(None))

    def _answered(self, queue: _PartitionQueue, sent: Sent, answer: Produced) -> None:
        queue.in_flight.remove(sent)
        if answer.error is not None and self._may_retry(sent, answer.error):
            sent.errors.append(answer.error)
            queue.unresolved |= _is_behind(queue, sent, answer.error)
            self._again(queue, sent)
        else:
            sent.answer = answer
            self._ended(queue, sent)
        self._drain(queue)

    def _ended(self, queue: _PartitionQueue, sent: Sent) -> None:
        if self.settings.idempotence and sent.acknowledged:
            queue.acknowledged = max(queue.acknowledged, sequence_after(sent.sequence, len(sent.values) - 1))
        elif self.settings.idempotence:
            queue.unresolved = True

    def _may_retry(self, sent: Sent, error: str) -> bool:
        settings = self.settings
        due = self.cluster.event_queue.now + self._backoff(sent) - sent.created
        in_time = sent.attempts <= settings.retries and due < settings.delivery_timeout_ms * MS
        return in_time and error in RETRIABLE

    def _again(self, queue: _PartitionQueue, sent: Sent) -> None:
        """Back into the queue: at its front, or where its sequence number belongs."""
        backoff = self._backoff(sent)
        sent.ready = self.cluster.event_queue.now + backoff
        ahead = [w for w in queue.waiting if self.settings.idempotence and _follows(sent, [w])]
        queue.waiting.insert(len(ahead), sent)
        if self.cluster.settings.automatic:
            self.cluster.event_queue.after(backoff, self._drain, queue)

    def _backoff(self, sent: Sent) -> int:
        """Doubled with each attempt, up to a bound (KIP-580, without its jitter); in us."""
        settings = self.settings
        return min(settings.retry_backoff_ms << min(sent.attempts - 1, 16), settings.retry_backoff_max_ms) * MS


def _follows(sent: Sent, others: list[Sent]) -> bool:
    """Whether a numbered batch has to wait for one of `others`, which comes before it."""
    return sent.sequence >= 0 and any(o.epoch == sent.epoch and 0 <= o.sequence < sent.sequence for o in others)


def _is_behind(queue: _PartitionQueue, sent: Sent, error: str) -> bool:
    """Out of order though it is next: the leader lost acknowledged records (TransactionManager.canRetry)."""
    return error == "OUT_OF_ORDER_SEQUENCE_NUMBER" and sent.sequence == sequence_after(queue.acknowledged)
