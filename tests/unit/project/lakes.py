"""Small lakes written straight from the schemas, without any job."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

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
        "behind": [],
        "holding_replicas": [],
        "under_replicated": False,
        "under_min_isr": False,
        "offline": False,
        "lag_records": 0,
        "stalled_ms": 0,
        "last_event_ts": at(60),
        "level": 3,
        "min_isr": 2,
        "one_failure_away": "none",
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
        "leader_epoch": 3,
        "hw_before": 300,
        "hw_after": 120,
        "start_offset": 120,
        "lost_from": 120,
        "lost_to": 300,
        "lost_records": 180,
        "revision": 1,
    }
    return {**unclean, **values}


def reported(lake, *brokers, to=60, cluster="prod", **more):
    """Progress rows of these brokers' sources, up to so many seconds after NOON, and that they show starts of terms."""
    row = {"cluster": cluster, "event_type": "progress", "partition": -1, "level": 3, "topic": None, "ts": at(to)}
    sources = [{"broker_id": broker, "source_id": f"broker-{broker}/server.log"} for broker in brokers]
    write(lake, "replication_events", *(row | source | more for source in sources))
    stretch = {"cluster": cluster, "kind": "terms", "from_ts": at(-7 * 86_400), "to_ts": at(to)}
    write(lake, "coverage", *(stretch | source for source in sources if "source_id" not in more))


def drained(lake, to=60, cluster="prod"):
    """The closing row of a drain, and the job has read it."""
    reported(lake, -1, to=to, cluster=cluster, source_id="hwmark/drain", detail="closed")
    job_has_read(lake)


def job_has_read(lake, version=None):
    """The record and the checkpoint of a job that has read bronze up to and with `version`, by default all of it."""
    last = DeltaTable(f"{lake}/bronze/replication_events").version() if version is None else version
    query = Path(lake) / "_run/q"
    for folder in ("commits", "offsets"):
        (query / folder).mkdir(parents=True, exist_ok=True)
    (query.parent / "query.json").write_text(json.dumps({"query_id": "q"}))
    (query / "commits/0").write_text("v1\n{}")
    offset = {"snapshot": last, "version": last + 1, "index": 0, "events": 0}
    (query / "offsets/0").write_text("v1\n{}\n" + json.dumps(offset))


def committed_at(lake, version, ts, table="bronze/replication_events"):
    """Makes a commit of a table one of that moment of the wall clock."""
    commit = Path(lake) / f"{table}/_delta_log/{version:020}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    ms = int(ts.timestamp() * 1000)
    for action in actions:
        if "commitInfo" in action:
            action["commitInfo"]["timestamp"] = ms
        if "add" in action:
            action["add"]["modificationTime"] = ms
    commit.write_text("".join(json.dumps(action) + "\n" for action in actions))


def sound(lake, *partitions):
    """A lake of cluster prod whose three brokers have reported until 12:01:00 UTC, all of it judged."""
    write(lake, "partition_health", *partitions)
    reported(lake, 1, 2, 3)
    job_has_read(lake)
