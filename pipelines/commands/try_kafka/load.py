"""Somebody who writes to a topic, acks=all, until it is enough."""

from __future__ import annotations

import logging
import threading

EVERY_S = 0.05
VALUE = b"x" * 150


class Load:
    """Twenty records a second into each partition; what is refused is not written again."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._bootstrap, self._topic, self._partitions = bootstrap, topic, partitions
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(5)

    def _write(self) -> None:
        from kafka import KafkaProducer
        from kafka.errors import KafkaError

        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap,
            acks="all",
            enable_idempotence=False,  # a loss tears the numbers of a sequence, and would end it
            delivery_timeout_ms=15_000,
            request_timeout_ms=5_000,
            max_block_ms=2_000,
            linger_ms=5,
        )
        while not self._stop.wait(EVERY_S):
            for partition in range(self._partitions):
                try:
                    producer.send(self._topic, VALUE, partition=partition)
                except KafkaError:
                    break
        producer.close(timeout=2)
