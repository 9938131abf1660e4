"""Rescued records written to a topic of a live cluster: never the original one, never twice what is there already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, nullcontext
from typing import Any

from generators.cluster.asking.link import silence_library
from generators.cluster.asking.problems import NotAnswering, why
from generators.cluster.asking.security import Security
from pipelines.errors import UsageError

HEADER = "hwmark.rescued."
LEFT_OUT = ("already in the surviving log", "aborted", "open", "unknown")
EMPTY = "neither key nor value"
"""The reason for a record that the client cannot write."""
AT_ONCE = 1000
"""Records that wait for their acknowledgements together."""
ANSWERS_WITHIN_MS = 10_000
LARGEST_REQUEST = 100 << 20
"""Bytes that a broker takes at once (socket.request.max.bytes); what a topic takes is its max.message.bytes."""

Identity = tuple[int, int, int, str]
"""Partition, offset, leader epoch and topic id (if known) from which a record was rescued."""


def reason_left_out(row: dict[str, Any], included: Iterable[str]) -> str | None:
    """The reason why a record is not written back, None if it is: already there, or its transaction not committed."""
    if row["key"] is None and row["value"] is None:
        return EMPTY
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
    """A record's headers, its place of rescue, and the names of null headers, which the client cannot write."""
    names = ("topic", "partition", "offset", "leader_epoch", "broker_id", *(("topic_id",) if row["topic_id"] else ()))
    own = [(header["key"], header["value"] or b"") for header in row["headers"]]
    null = ",".join(header["key"] for header in row["headers"] if header["value"] is None)
    where = [(HEADER + name, str(row[name]).encode()) for name in names]
    return own + where + ([(HEADER + "null_headers", null.encode())] if null else [])


def identity(found: Iterable[tuple[str, bytes]]) -> tuple[str, Identity] | None:
    """The topic and place that a rescued record's headers name; None for any other record."""
    known = {key: value for key, value in found if key.startswith(HEADER)}
    try:
        partition, offset, epoch = (int(known[HEADER + name]) for name in ("partition", "offset", "leader_epoch"))
        topic_id = known.get(HEADER + "topic_id", b"").decode()
        return known[HEADER + "topic"].decode(), (partition, offset, epoch, topic_id)
    except (KeyError, ValueError):
        return None


def write_back(
    read: Callable[[], Iterable[dict[str, Any]]],
    topic: str,
    bootstrap: str,
    security: Security,
    *,
    included: Iterable[str] = (),
    dry_run: bool = True,
) -> Counter[str]:
    """Write the records of a file to `topic`, with acks of all; returns how many were written and left out.

    A dry run looks at the topic, too. After a call that was cut off, another one writes what is missing. Raises
    UsageError if the topic is the original one or internal, does not exist, or has other records, and NotAnswering.
    """
    from kafka import KafkaProducer
    from kafka.errors import KafkaError, MessageSizeTooLargeError

    taken = "to write" if dry_run else "written"
    counts, wanted, origins = Counter({taken: 0}), set[int](), set[str]()
    for row in require_another_topic(topic, read()):  # all are looked at before the first is written
        if reason := reason_left_out(row, included):
            counts[f"left out: {reason}"] += 1
        else:
            wanted.add(row["partition"])
            origins.add(row["topic"])
    if len(origins) > 1:
        raise UsageError("the file has records of several topics: write each to a topic of its own")
    if not wanted:
        return counts
    client = {"bootstrap_servers": bootstrap.split(","), "bootstrap_timeout_ms": ANSWERS_WITHIN_MS, **security.kafka()}
    silence_library(False)
    try:
        present = _present(topic, client, wanted, origins.pop())
        own = {"enable_idempotence": True, "acks": "all", "max_request_size": LARGEST_REQUEST}
        producer = None if dry_run else KafkaProducer(**own, **client)
        waiting, sent = [], set[Identity]()
        with closing(producer) if producer else nullcontext():
            for row in (one for one in read() if not reason_left_out(one, included)):
                place = row["partition"], row["offset"], row["leader_epoch"], row["topic_id"] or ""
                again = "written by an earlier call" if place in present else ""
                if place in sent:  # as in a segment and in the one that the cleaner made of it
                    again = "twice in the file"
                counts[f"left out: {again}" if again else taken] += 1
                sent.add(place)
                if producer and not again:
                    value, at_ms = row["value"], max(row["timestamp_ms"], 0)
                    waiting.append(producer.send(topic, value, row["key"], headers(row), row["partition"], at_ms))
                if len(waiting) >= AT_ONCE:
                    _wait(waiting)
            _wait(waiting)
    except MessageSizeTooLargeError as error:
        raise UsageError(
            f"topic {topic} takes no record as large: raise its max.message.bytes, and call again"
        ) from error
    except KafkaError as error:
        raise NotAnswering(f"{bootstrap}, topic {topic}: {why(error, security)}") from error
    return counts


def _wait(waiting: list[Any]) -> None:
    """Wait for acknowledgements, in order. Raises what the brokers answered."""
    for future in waiting:
        future.get(timeout=60)
    waiting.clear()


def _present(topic: str, client: dict[str, Any], wanted: set[int], origin: str) -> set[Identity]:
    """The records rescued from the topic `origin` that `topic` has already. Raises UsageError as write_back."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(**client, enable_auto_commit=False)
    try:
        partitions = consumer.partitions_for_topic(topic)
        if not partitions:
            create = f"create it, with {max(wanted) + 1} or more partitions, retention.ms=-1 and cleanup.policy=delete"
            raise UsageError(f"there is no topic {topic}: {create}, as the records keep their times")
        if missing := wanted - partitions:
            what = f"topic {topic} has no partition {min(missing)}"
            raise UsageError(f"{what}: create it with {max(missing) + 1} or more")
        places = [TopicPartition(topic, partition) for partition in sorted(partitions)]
        ends = consumer.end_offsets(places)
        consumer.assign(places)
        consumer.seek_to_beginning()
        found: set[Identity] = set()
        while any(consumer.position(place) < ends[place] for place in places):
            for records in consumer.poll(timeout_ms=1000).values():
                for record in records:
                    known = identity(record.headers)
                    if known is None or known[0] != origin:
                        raise UsageError(
                            f"topic {topic} has a record at offset {record.offset} that was not rescued from {origin}: "
                            "name a topic of its own for these records"
                        )
                    found.add(known[1])
        return found
    finally:
        consumer.close()
