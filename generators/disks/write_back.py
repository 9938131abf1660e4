"""Rescued records written to a topic of a live cluster: never the original one, never twice what is there already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from generators.cluster.asking.security import Security
from pipelines.errors import UsageError

HEADER = "hwmark.rescued."
LEFT_OUT = ("already in the surviving log", "aborted", "open")


def reason_left_out(row: dict[str, Any], included: Iterable[str]) -> str | None:
    """Why a record is not written back, None if it is: it is there already, or its transaction was not committed."""
    reason = LEFT_OUT[0] if row["in_survivor"] else row["transaction"]
    return reason if reason in LEFT_OUT and reason not in included else None


def require_another_topic(topic: str, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The rows. Raises UsageError if they are of `topic` itself, or it is an internal one."""
    if topic.startswith("__"):
        raise UsageError(f"{topic} is an internal topic: name one of your own, made for these records")
    for row in rows:
        if row["topic"] == topic:
            raise UsageError(
                f"the records are of {topic} itself, which has others at their offsets: name another topic"
            )
        yield row


def headers(row: dict[str, Any]) -> list[tuple[str, bytes]]:
    """The record's headers, and where it was rescued from."""
    names = ("topic", "partition", "offset", "leader_epoch", "broker_id")
    own = [(header["key"], header["value"] or b"") for header in row["headers"]]
    return own + [(HEADER + name, str(row[name]).encode()) for name in names]


def write_back(
    rows: Iterable[dict[str, Any]],
    topic: str,
    bootstrap: str,
    security: Security,
    *,
    included: Iterable[str] = (),
    dry_run: bool = True,
) -> Counter[str]:
    """Write records to `topic`, idempotently and with acks of all; returns how many were written and left out.

    Raises UsageError for the topic that they are of, an internal one, one that does not exist or is not empty.
    """
    counts: Counter[str] = Counter()
    chosen = []
    for row in require_another_topic(topic, rows):
        reason = reason_left_out(row, included)
        counts[f"left out: {reason}" if reason else "to write" if dry_run else "written"] += 1
        if reason is None and not dry_run:
            chosen.append(row)
    if chosen:
        _send(chosen, topic, bootstrap, security)
    return counts


def _send(rows: list[dict[str, Any]], topic: str, bootstrap: str, security: Security) -> None:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    settings = {"bootstrap_servers": bootstrap.split(","), **security.kafka()}
    consumer = KafkaConsumer(**settings)
    try:
        partitions = consumer.partitions_for_topic(topic)
        if not partitions:
            raise UsageError(
                f"there is no topic {topic} at {bootstrap}: create it, with a partition for each rescued one"
            )
        ends = consumer.end_offsets([TopicPartition(topic, partition) for partition in sorted(partitions)])
        if any(ends.values()):
            raise UsageError(f"topic {topic} is not empty, records would be there twice: name a new one")
    finally:
        consumer.close()
    missing = {row["partition"] for row in rows} - partitions
    if missing:
        raise UsageError(f"topic {topic} has no partition {min(missing)}: create it with {max(missing) + 1} or more")
    producer = KafkaProducer(enable_idempotence=True, acks="all", **settings)
    try:
        sent = [
            producer.send(topic, row["value"], row["key"], headers(row), row["partition"], max(row["timestamp_ms"], 0))
            for row in rows
        ]
        for future in sent:
            future.get(timeout=60)
    finally:
        producer.close()
