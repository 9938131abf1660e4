"""States of version 7, and the histories of version 4 inside them, under the names that they have now.

Version 8 changed names only: of tables, of columns, and of keys of JSON objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from msgspec.json import decode, encode

from pipelines.replication.partition import history
from pipelines.replication.partition.encoded import ENCODED

VERSION, _HISTORY = 7, 4
Renamed = Mapping[str, str]

_TABLES = {
    "carry": "pending_rows", "recent": "recent_hws", "recorded": "recorded_epochs", "heard": "reported_epochs",
    "asked": "requested_epochs", "apart": "clock_offsets", "assigned": "assignments", "starting": "pending_starts",
}  # fmt: skip
_COLUMNS: Mapping[str, Renamed] = {
    "series": {"ahead_most": "clock_offset_max", "ahead_least": "clock_offset_min", "apart": "clock_offset"},
    "partitions": {"noted": "has_events"},
    "lanes": {
        "told_leo": "reported_leo", "told_min_isr": "reported_min_isr", "held": "unknown_leos", "held_at": "paused_at",
        "witness": "evidence_hw", "witness_ts": "evidence_ts", "ahead": "clock_offset", "compared": "clock_compared",
        "learnt": "epoch_learned_at", "asked": "proposed_isr", "asked_ts": "proposed_ts", "carried": "pending",
    },
    "replicas": {"told": "reported_leo", "barred": "ineligible_until"},
    "pending_rows": {"before": "hw_before"},
    "clock_offsets": {"ahead": "clock_offset"},
}  # fmt: skip
"""By the present name of the table."""
_REST = {
    "notes": "queued_events", "ended": "ended_terms", "gaps": "lost_numbers", "told_lost": "reported_losses",
    "holds": "gap_times", "assigned": "reassigned", "unread": "misread_times", "clocks_apart": "wrong_clocks",
}  # fmt: skip
_SOURCE = {"first": "first_ts", "told": "low_watermark", "ahead": "pending_runs", "gone": "superseded"}
_EVENT = {"foretold": "predicted", "place": "reported_by"}


def renamed(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The tables of a state, as version 8 has them."""
    found = {}
    for old, table in tables.items():
        name = _TABLES.get(old, old)
        columns = _COLUMNS.get(name, {})
        found[name] = table.rename_columns([columns.get(column, column) for column in table.column_names])
    rest = _with_keys(decode(found["rest"]["json"][0].as_py()), _REST)
    rest["sources"] = [_with_keys(source, _SOURCE) for source in rest["sources"]]
    found["rest"] = pa.table({"json": pa.array([encode(rest).decode()], pa.string())})
    blobs = [renamed_history(blob) for blob in found["histories"]["history"].to_pylist()]
    found["histories"] = pa.table([found["histories"]["partition"], pa.array(blobs, pa.binary())], schema=ENCODED)
    return found


def renamed_history(blob: bytes) -> bytes:
    """A partition's history of version 4, as version 5 has it. Raises ValueError for any other version."""
    version, *parts = decode(blob)
    if version != _HISTORY:
        raise ValueError(f"a history in a state of version {VERSION} has version {version} instead of {_HISTORY}")
    return encode((history.VERSION, *_with_event_keys(parts)))


def _with_event_keys(value: Any) -> Any:
    """A JSON value in which every partition event has the present keys."""
    if isinstance(value, list):
        return [_with_event_keys(part) for part in value]
    if isinstance(value, dict):
        keys = _EVENT if "event_type" in value else {}
        return {keys.get(key, key): _with_event_keys(part) for key, part in value.items()}
    return value


def _with_keys(value: Mapping[str, Any], keys: Renamed) -> dict[str, Any]:
    return {keys.get(key, key): part for key, part in value.items()}
