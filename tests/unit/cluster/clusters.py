"""Metadata and answers as a watcher gets them, for an `Observer`."""

import numpy as np
import pyarrow as pa

from generators.cluster.metadata.lists import Lists
from generators.cluster.metadata.partitions import BrokerAddress, Partitions, Topics
from generators.cluster.observing.answers import Answer, Instant
from generators.cluster.observing.observer import Observer

T0 = 1_795_000_000_000_000
"""The first round, in microseconds."""
SECOND = 1_000_000


def partitions(topics, brokers=(1, 2, 3)):
    """`topics`: by (name, id) a list of (leader, epoch, isr, replicas)."""
    keys = sorted(topics)
    rows = [row for key in keys for row in topics[key]]
    sizes = [len(topics[key]) for key in keys]
    return Partitions(
        topics=Topics(
            tuple(name for name, _ in keys),
            tuple(topic_id for _, topic_id in keys),
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        ),
        leader=np.array([row[0] for row in rows], np.int32),
        leader_epoch=np.array([row[1] for row in rows], np.int32),
        isr=Lists.of([row[2] for row in rows]),
        replicas=Lists.of([row[3] for row in rows]),
        brokers=tuple(BrokerAddress(b, "host", 9092) for b in brokers),
    )


ORDERS = {("orders", "o1"): [(1, 0, [1, 2], [1, 2]), (2, 0, [1, 2], [2, 1])]}
"""Two partitions on brokers 1 and 2, each leading one."""


def at(second, error_ms=1.0):
    return Instant(T0 + round(second * SECOND), error_ms)


def answer(observer, broker, second, leo, **columns):
    """The answer of a broker for all it hosts, slot by slot in the order of partitions."""
    seen, replicas = observer.partitions, observer.replicas
    slots = np.arange(*replicas.of_broker(broker).indices(len(replicas)))
    count = len(slots)
    values = {
        "error": [0] * count,
        "log_epoch": [0] * count,
        "leads": (seen.leader[replicas.partition[slots]] == broker).tolist(),
        "hw": leo,
        "hw_error": [0] * count,
        "term_start": [-1] * count,
        **columns,
    }
    return Answer(
        broker=broker,
        partitions=seen,
        replicas=replicas,
        slots=slots,
        leo=np.array(leo, np.int64),
        error=np.array(values["error"], np.int32),
        log_epoch=np.array(values["log_epoch"], np.int32),
        leads=np.array(values["leads"], np.bool_),
        hw=np.array(values["hw"], np.int64),
        hw_error=np.array(values["hw_error"], np.int32),
        term_start=np.array(values["term_start"], np.int64),
        ts_us=np.full(count, at(second).ts_us),
        ts_error_ms=np.full(count, 2.0),
        at=at(second),
        complete=values.get("complete", True),
    )


def rows(tables, *columns):
    """Rows as tuples of these columns, of all tables in order."""
    if isinstance(tables, dict):
        tables = [table for one in tables.values() for table in one]
    if not tables:
        return []
    every = pa.concat_tables(tables, promote_options="default")
    values = [every[name].to_pylist() if name in every.column_names else [None] * len(every) for name in columns]
    return list(zip(*values, strict=True))


def observer(topics=ORDERS, second=0):
    """An observer that has seen this metadata from broker 1."""
    one = Observer("prod", "main")
    one.learn(partitions(topics), at(second), 1)
    return one
