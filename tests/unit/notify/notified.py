"""Small lakes whose present is the present, and alerts made by hand."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from deltalake import write_deltalake

from pipelines.alerting.state import AlertState
from pipelines.notify.channel import Post
from pipelines.notify.config import Links, Timing
from pipelines.notify.ledger import Ledger
from schemas import partition_health
from tests.unit.project import lakes

START = datetime.now(UTC).replace(microsecond=0)
CLUSTERS = ("prod",)
LINKS = Links("/data/lake", "https://wiki/runbooks", "https://hwmark/a/{alert_id}?c={cluster}", {"lake": "eu"})
TIMING = Timing(every_s=30, hold_s=3600, retry_max_s=600)


def ago(seconds):
    return datetime.now(UTC) - timedelta(seconds=seconds)


def fresh(lake, *, brokers=(1, 2, 3), cluster="prod"):
    """Everything of the cluster is judged, and reported just now."""
    now = ago(0)
    rows = [lakes.health("orders", n, cluster=cluster) | {"last_event_ts": now} for n in range(3)]
    ar = pa.Table.from_pylist([{"topic_id": None, **row} for row in rows], schema=partition_health.ARROW)
    write_deltalake(f"{lake}/{partition_health.TABLE.path}", ar, mode="overwrite", predicate=f"cluster = '{cluster}'")
    row = {"cluster": cluster, "event_type": "progress", "partition": -1, "level": 3, "topic": None, "ts": now}
    reports = [row | {"broker_id": broker, "source_id": f"broker-{broker}/server.log"} for broker in brokers]
    lakes.write(lake, "replication_events", *reports)
    lakes.job_has_read(lake)


def lost(lake, seconds=30, **values):
    lakes.write(lake, "hw_regressions", lakes.loss(ts=ago(seconds), **values))


def frozen(lake, seconds=400, kind="freeze", partition=0):
    row = {"ts": ago(seconds), "kind": kind, "isr": [1], "frozen": kind == "freeze", "partition": partition}
    lakes.write(lake, "partition_hw", row)


def settings(folder, *, every="500ms", hold="1h", per="rule", **sections):
    """A file of settings: keyword arguments are the inline tables of [notify]."""
    lines = ["[notify]", f'every = "{every}"', f'hold = "{hold}"', f'per = "{per}"', 'retry_max = "1s"']
    lines += [f"{name} = {value}" for name, value in sections.items()]
    file = folder / "hwmark.toml"
    file.write_text("\n".join(lines) + "\n")
    return str(file)


FIRING = AlertState(
    "a1", "under_min_isr", "critical", "firing", "broker 3", START - timedelta(minutes=9),
    START - timedelta(minutes=4), "prod: UNDER MIN ISR: broker 3 gone: 2 partitions under min ISR: orders-0, orders-1",
    {"cluster": "prod", "topic": "orders", "partitions": "orders-0, orders-1", "count": "2", "cause": "broker 3"},
    START - timedelta(minutes=4),
)  # fmt: skip
LOSS = replace(
    FIRING, alert_id="l1", rule="loss", subject="incident at noon", summary="prod: LOST: 180 offsets in 1 partition"
)


def later(state, minutes=1, /, **changes):
    """The next row of an alert, written so many minutes later."""
    return replace(state, written_at=state.written_at + timedelta(minutes=minutes), **changes)


def ended(state, minutes=1):
    return later(state, minutes, state="resolved", last_ts=state.last_ts + timedelta(minutes=minutes))


class Clock:
    def __init__(self):
        self.now = START

    def __call__(self):
        return self.now

    def pass_(self, seconds):
        self.now += timedelta(seconds=seconds)


class Desk:
    """What channels write and say, in memory; `again()` is the ledger that the next process reads."""

    def __init__(self):
        self.rows, self.said, self.clock = [], [], Clock()
        self.ledger = Ledger((), self.rows.extend)

    def again(self):
        self.ledger = Ledger(list(self.rows), self.rows.extend)

    def post(self, name="oncall"):
        return Post(name, self.ledger, TIMING, self.clock, self.said.append)

    def outcomes(self):
        return [str(row.outcome) for row in self.rows]
