"""Small lakes written straight from the schemas, without any job."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
from deltalake import write_deltalake

from schemas import tables

NOON = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)


def at(seconds):
    return NOON + timedelta(seconds=seconds)


def write(lake, name, *rows):
    """Appends rows to a table; a required column that a test does not care about gets a stand-in of its type."""
    table = tables()[name]
    stand_ins = {"string": "x", "int": 0, "bigint": 0, "boolean": False, "timestamp": NOON}
    required = {c.name: stand_ins.get(c.type) for c in table.columns if not c.null}
    place = {"cluster": "prod", "topic": "orders", "partition": 0, "ts": NOON}
    given = {k: v for k, v in place.items() if k in required}
    data = pa.Table.from_pylist([{**required, **given, **row} for row in rows], schema=table.arrow())
    write_deltalake(f"{lake}/{table.path}", data, mode="append")


def health(topic, partition, **values):
    sound = {
        "cluster": "prod",
        "leader_id": 1,
        "leader_epoch": 4,
        "hw": 100,
        "leader_leo": 100,
        "ar": [1, 2, 3],
        "isr": [1, 2, 3],
        "osr": [],
        "out_of_sync": [],
        "holding_replicas": [],
        "under_replicated": False,
        "under_min_isr": False,
        "offline": False,
        "lag_records": 0,
        "stalled_ms": 0,
        "last_event_ts": at(60),
    }
    return {**sound, "topic": topic, "partition": partition, **values}


def loss(**values):
    unclean = {
        "regression_id": "r1",
        "class": "unclean_loss",
        "severity": "critical",
        "proof": "proven",
        "topic": "clicks",
        "leader_id": 2,
        "leader_id_before": 1,
        "hw_before": 300,
        "hw_after": 120,
        "start_offset": 120,
        "lost_from": 120,
        "lost_to": 300,
        "lost_records": 180,
        "revision": 1,
    }
    return {**unclean, **values}
