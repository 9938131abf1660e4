"""Clients under load: what was acknowledged at which offset, and what a consumer was shown while it lasted."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

Place = tuple[str, int]
"""Topic and partition."""
Log = dict[int, bytes]
"""The value at each offset."""
Record = tuple[int, bytes]
"""Offset and value; after a loss an offset is given out again, to another value."""

READ_WITHIN_S = 30


@dataclass(frozen=True)
class Topic:
    """A topic under load: so many partitions, each written at so many records a second."""

    name: str
    partitions: int
    rate: float

    def places(self) -> Iterator[Place]:
        """Its partitions."""
        return ((self.name, partition) for partition in range(self.partitions))


class Producers:
    """Writes numbered records with acks=all: an acknowledged one was committed, at the offset in the answer."""

    def __init__(self, bootstrap: str, topics: list[Topic]) -> None:
        self.acked: dict[Place, set[Record]] = defaultdict(set)
        self.sent: Counter[Place] = Counter()
        self.refused: Counter[str] = Counter()
        self._bootstrap, self._topics = bootstrap, topics
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(topic,), daemon=True) for topic in topics]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop writing, and wait for the answers that are under way."""
        self._stop.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(40)

    def unacked(self, place: Place) -> int:
        """Records that were sent and never acknowledged."""
        return self.sent[place] - len(self.acked[place])

    def _write(self, topic: Topic) -> None:
        settings = {"bootstrap.servers": self._bootstrap, "acks": "all", "linger.ms": 5, "log_level": 0}
        # Without idempotence: a sequence that a loss tore would end it. A repeat is acknowledged at one offset only.
        producer = Producer({**settings, "message.timeout.ms": 25000, "enable.idempotence": False})
        while not self._stop.is_set():
            began = time.monotonic()
            for place in topic.places():
                self._send(producer, place)
            producer.poll(0)
            self._stop.wait(max(0.0, 1 / topic.rate - (time.monotonic() - began)))
        producer.flush(30)

    def _send(self, producer: Producer, place: Place) -> None:
        value = b"%s-%d %d" % (place[0].encode(), place[1], self.sent[place])
        self.sent[place] += 1

        def answered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.acked[place].add((message.offset(), value))
            else:
                self.refused[error.name()] += 1

        try:
            producer.produce(place[0], value.ljust(150, b"."), partition=place[1], on_delivery=answered)
        except BufferError:
            self.refused["BUFFER_FULL"] += 1


class Reader:
    """A consumer beside the load: what it was shown lay below the high watermark, so it was committed."""

    def __init__(self, bootstrap: str, topics: list[Topic]) -> None:
        self.shown: dict[Place, set[Record]] = defaultdict(set)
        self._consumer = Consumer(_consumer(bootstrap))
        self._consumer.assign([TopicPartition(*place, 0) for topic in topics for place in topic.places()])
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(20)

    def _read(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.2)
            if message is not None and not message.error():
                self.shown[message.topic(), message.partition()].add((message.offset(), _value(message)))
        self._consumer.close()


def read_back(bootstrap: str, topics: list[Topic]) -> dict[Place, Log]:
    """Everything there is now. Raises TimeoutError for a partition that cannot be read to its end."""
    return {place: _read_partition(bootstrap, place) for topic in topics for place in topic.places()}


def _read_partition(bootstrap: str, place: Place) -> Log:
    consumer = Consumer({**_consumer(bootstrap), "enable.partition.eof": True})
    found: Log = {}
    try:
        consumer.assign([TopicPartition(*place, 0)])
        until = time.monotonic() + READ_WITHIN_S
        while time.monotonic() < until:
            message = consumer.poll(1)
            if message is None:
                continue
            if not message.error():
                found[message.offset()] = _value(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return found
            elif not message.error().retriable():
                raise KafkaException(message.error())
    finally:
        consumer.close()
    raise TimeoutError(f"{place[0]}-{place[1]} was not read to its end within {READ_WITHIN_S} s")


def _consumer(bootstrap: str) -> dict[str, str | int | bool]:
    return {
        "bootstrap.servers": bootstrap,
        "group.id": "hwmark-harness",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "log_level": 0,
    }


def _value(message: Message) -> bytes:
    return bytes(message.value() or b"").rstrip(b".")
