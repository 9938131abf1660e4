"""A lake with very many partitions, written at the table level: how long the page takes over it, and how much memory.

python -m tests.web.many LAKE [PARTITIONS]    writes the lake, where there is none, and measures
"""

import resource
import statistics
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from schemas import tables
from tests.unit.project.lakes import job_has_read

BROKERS, REPLICAS, TOPIC = 60, 3, 500
PLACE = "cluster=large&topic=topic-007&partition=3"
VIEWS = ("/", "/partitions", "/partitions?q=topic-19&page=40", f"/partition?{PLACE}", "/brokers", "/incidents",
         "/broker?cluster=large&broker=7", "/topics", "/topic?cluster=large&topic=topic-007", "/quality")  # fmt: skip


def write_many(lake, partitions, now=None):
    """One cluster of 60 brokers in three racks: one slow, one gone, some offline; an hour of changes; no job needed."""
    now = (now or datetime.now(UTC)).replace(microsecond=0)
    draws = np.random.default_rng(7)
    health = _health(partitions, now, draws)
    _append(lake, "partition_health", health)
    _append(lake, "brokers", _brokers(now))
    hour = [now - timedelta(seconds=float(s)) for s in np.sort(draws.uniform(0, 3600, 50_000))[::-1]]
    place = [int(n) for n in draws.integers(0, partitions, 50_000)]
    _append(lake, "isr_changes", [_shrink(health, n, ts) for n, ts in zip(place[:20_000], hour[:20_000], strict=True)])
    _append(lake, "partition_hw", [_advance(n, now) for n in range(4000)])
    _append(
        lake,
        "hw_regressions",
        [_loss(health[n], ts, i) for i, (n, ts) in enumerate(zip(place[:40], hour[:40], strict=True))],
    )
    sources = [{"broker_id": b, "source_id": f"broker-{b}/replication.log"} for b in range(BROKERS)]
    progress = {"event_type": "progress", "partition": -1, "source_epoch": 0, "source_seq": 0, "seq": 0, "level": 3}
    _append(lake, "replication_events", [progress | s | {"cluster": "large", "ts": now} for s in sources])
    job_has_read(lake)


def _append(lake, name, rows):
    table = tables()[name]
    write_deltalake(f"{lake}/{table.path}", pa.Table.from_pylist(rows, schema=table.arrow()), mode="append")


def _name(number):
    return {"cluster": "large", "topic": f"topic-{number // TOPIC:03}", "partition": number % TOPIC}


def _health(partitions, now, draws):
    first = draws.integers(0, BROKERS, partitions)
    fate = draws.random(partitions)
    return [_partition(n, int(first[n]), fate[n], now) for n in range(partitions)]


def _partition(number, leader, fate, now):
    assigned = [(leader + step * 7) % BROKERS for step in range(REPLICAS)]
    gone = [b for b in assigned if b == 13 and b != leader]
    held = 7 in assigned[1:] and fate < 0.5
    isr = [b for b in assigned if b not in gone]
    hw = 1_000_000 + number
    return _name(number) | {
        "leader_id": -1 if fate > 0.9995 else leader, "leader_epoch": 3, "partition_epoch": 9, "hw": hw,
        "leader_leo": hw + 500 * held, "ar": assigned, "isr": isr, "osr": gone, "out_of_sync": [7] if held else gone,
        "holding_replicas": [7] if held else [], "under_replicated": bool(gone), "under_min_isr": len(isr) < 2,
        "offline": fate > 0.9995, "lag_records": 500 * held, "stalled_ms": 40_000 if held else 0, "last_event_ts": now,
        "level": 3, "min_isr": 2, "one_failure_away": "under_min_isr" if gone else "none",
    }  # fmt: skip


def _brokers(now):
    required = [column.name for column in tables()["brokers"].columns if column.type == "bigint" and not column.null]
    counts = dict.fromkeys(required, 5000)
    present = {"cluster": "large", "ts": now, "state": "unfenced"} | counts
    return [present | {"broker_id": broker, "rack": f"rack-{broker % 3}"} for broker in range(BROKERS)]


def _shrink(health, number, ts):
    row = health[number]
    change = {"change": "shrink", "cause": "lag", "removed": [7], "added": [], "leader_epoch": 3, "revision": 1}
    isr = {"isr_before": row["ar"], "isr_after": row["isr"], "partition_epoch": number, "leader_id": row["leader_id"]}
    return _name(number) | {"ts": ts} | change | isr


def _advance(step, now):
    ts = now - timedelta(seconds=3600 - step * 0.9)
    return _name(7 * TOPIC + 3) | {
        "ts": ts,
        "leader_id": 1,
        "leader_epoch": 3,
        "kind": "advance",
        "hw": 10 * step,
        "leader_leo": 10 * step + 5,
    }


def _loss(row, ts, number):
    return {name: row[name] for name in ("cluster", "topic", "partition")} | {
        "ts": ts, "regression_id": f"r{number}", "class": "unclean_loss", "severity": "critical", "proof": "proven",
        "leader_id": 2, "leader_id_before": 1, "hw_before": 300, "hw_after": 120, "lost_from": 120, "lost_to": 300,
        "lost_records": 180, "start_offset": 120, "revision": 1,
    }  # fmt: skip


def measure(lake):
    """Milliseconds of each view cold (the first request after a look at a changed lake) and warm, and bytes."""
    from starlette.testclient import TestClient

    from pipelines.lake.lake import Lake
    from pipelines.verdict import Limits
    from pipelines.web.app import create_app
    from pipelines.web.snapshot import Reader

    for view in VIEWS:
        client = TestClient(create_app(Reader(Lake(lake), Limits(), lambda: datetime.now(UTC), 5)))
        cold, first = _timed(client, view)
        warm = [_timed(client, view)[0] for _ in range(5)]
        parts = first.headers.get("server-timing", "").replace(";dur=", " ")
        print(
            f"{view}: cold {cold:.0f} ms ({parts}), warm {statistics.median(warm):.0f} ms, {len(first.content):,} bytes"
        )
    print(f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")


def _timed(client, view):
    begun = time.perf_counter()
    response = client.get(view)
    assert response.status_code == 200, response.text
    return (time.perf_counter() - begun) * 1000, response


if __name__ == "__main__":
    if not Path(sys.argv[1]).exists():
        write_many(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100_000)
    measure(sys.argv[1])
