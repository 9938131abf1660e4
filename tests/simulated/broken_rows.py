"""Rows broken on purpose: for each row rule of the contract a way to break it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.replication.events.columns import NOT_UTF8
from pipelines.replication.events.row_rules import ROW_RULES
from schemas.event_types import DETAILS, REQUIRED

Row = dict[str, Any]

NAMES = tuple(rule.name for rule in ROW_RULES)
"""Every row rule."""
WRITABLE = tuple(name for name in NAMES if not name.startswith("null_"))
"""Rules that a row of a Delta table can break: its non-null columns refuse nulls."""
_LATER = re.compile(
    r"more_than_32_replicas|closes_nothing|not_utf8_.*|.*_above_\d{2,}|(.*_epoch|hw_before)_below_-1",
)
DRAWN = tuple(name for name in WRITABLE if not _LATER.fullmatch(name))
"""What a seed draws from: later rules are not among these, so that every seed goes on to give the same rows."""


def corrupted(events: pa.Table, rows: npt.NDArray[np.int64], rules: Sequence[str]) -> pa.Table:
    """The events with row `rows[k]` broken by rule `rules[k]`; the schema stays, even where it allows no nulls."""
    if not len(rows):
        return events
    broken = events.take(pa.array(rows)).to_pylist()
    for row, rule in zip(broken, rules, strict=True):
        row.update(_breaking(rule, row))
    arrays = [pa.array([row[f.name] for row in broken], f.type) for f in events.schema]
    both = pa.concat_tables([events, pa.table(arrays, schema=events.schema)])
    order = np.arange(len(events))
    order[rows] = len(events) + np.arange(len(rows))
    return both.take(pa.array(order))


def _breaking(rule: str, row: Row) -> Row:
    """The values that make a row break a rule."""
    if rule.startswith("null_"):
        return {rule.removeprefix("null_"): None}
    if rule.startswith("missing_") and rule.removeprefix("missing_") in _COLUMNS:
        return _on_partition(row) | _missing(rule.removeprefix("missing_"), row)
    if rule.startswith("unknown_detail_of_"):
        return _with_type(rule.removeprefix("unknown_detail_of_"), row) | {"detail": "nonsense"}
    if "_below_" in rule:
        column, _, least = rule.rpartition("_below_")
        return {column: int(least) - 1}
    if "_above_" in rule and rule not in _BREAKING:
        column, _, most = rule.rpartition("_above_")
        return {column: int(most) + 1}
    if rule.startswith("not_utf8_"):
        return {rule.removeprefix("not_utf8_"): NOT_UTF8}
    if rule.startswith("no_broker_in_"):
        return {rule.removeprefix("no_broker_in_"): [1, -7]}
    return _BREAKING[rule](row)


def _missing(column: str, row: Row) -> Row:
    needs = [t for t, columns in REQUIRED.items() if column in columns]
    kind = row["event_type"] if row["event_type"] in needs else needs[0]
    return _with_type(kind, row) | {column: None}


def _with_type(kind: str, row: Row) -> Row:
    """The columns that an event of this type needs."""
    details = DETAILS.get(kind)
    wide = kind in ("broker_state", "config", "progress", "lost")
    place = {"partition": -1, "topic": None} if wide else _on_partition(row)
    return {"event_type": kind, "detail": details[0] if details else None} | place


def _on_partition(row: Row) -> Row:
    return {"partition": max(row["partition"], 0), "topic": row["topic"] or "orders"}


_COLUMNS = {column for needs in REQUIRED.values() for column in needs}
_BREAKING: dict[str, Callable[[Row], Row]] = {
    "unknown_event_type": lambda row: {"event_type": "rumour"},
    "missing_config": lambda row: _with_type("config", row) | {"min_isr": None, "lag_max_ms": None},
    "sample_without_offset": lambda row: _with_type("sample", row) | {"leo": None, "hw": None},
    "level_above_3": lambda row: {"level": 9},
    "time_outside_2010_to_2100": lambda row: {"ts": datetime(1970, 1, 1, tzinfo=UTC)},
    "hw_above_leo": lambda row: {"replica_id": row["broker_id"], "leo": 3, "hw": 4},
    "replica_not_assigned": lambda row: {"replica_id": 99, "replicas": [1, 2, 3]},
    "empty_isr_with_leader": lambda row: {"leader_id": 1, "isr": []},
    "more_than_32_replicas": lambda row: {"leader_id": 1, "isr": list(range(1, 40))},
    "partition_event_without_partition": lambda row: _with_type("append", row) | {"partition": -1, "leader_leo": 1},
    "broker_wide_event_on_partition": lambda row: _with_type("progress", row) | {"partition": 0, "topic": "orders"},
    "closes_nothing": lambda row: _with_type("append", row) | {"source_id": "hwmark/drain", "leader_leo": 1},
    "illegal_topic": lambda row: _with_type("append", row) | {"topic": "no/topic", "leader_leo": 1},
    "missing_topic": lambda row: {"partition": max(row["partition"], 0), "topic": None},
}
"""Rules that no pattern above covers."""
