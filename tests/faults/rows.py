"""All tables of a lake as multisets of rows, without what the wall clock or a run's name puts into them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from pipelines.lake.table import dataset
from tests.streaming.shell import added_up

Rows = dict[str, Counter[str]]
WITHOUT = {
    "bronze/quarantine": ["quarantined_at"],
    "ops/quality_results": ["run_id", "run_ts"],
    "ops/alerts": ["written_at"],
}
LAGS = {
    "gold/broker_lag": ("broker_id",),
    "gold/replica_lag": ("topic", "partition", "replica_id"),
}
"""Of what the lags are, beside cluster and time."""


def tables(lake: Path) -> Rows:
    """Every table that the lake has, by its path; each is opened as whoever reads it would."""
    paths = sorted(log.parent for log in lake.glob("*/*/_delta_log"))
    return {str(path.relative_to(lake)): _rows(str(path.relative_to(lake)), _read(path)) for path in paths}


def _read(path: Path) -> pa.Table:
    return dataset(DeltaTable(str(path))).to_table()


def _rows(name: str, table: pa.Table) -> Counter[str]:
    if name == "silver/minute_stats":
        return Counter(repr((key, sorted(map(str, n.items())))) for key, n in added_up(table).items())
    names = sorted(column for column in table.column_names if column not in WITHOUT.get(name, ()))
    rows = table.select(names).to_pylist()
    if name == "ops/quality_results":
        rows = _judged(rows)
    if name in LAGS:
        rows = _snapshots(rows, LAGS[name])
    return Counter(map(repr, rows))


def _judged(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Judgements on new rows. A run also says what had nothing new, and how long sources are silent at its time: that
    is of the run, and one that is done again says it again."""
    return [row for row in rows if row["version_from"] is not None and row["suite"] != "sources"]


def _snapshots(rows: list[dict[str, Any]], of: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """When lags were noted, once a cluster and time, and again for each that was noted more than once.

    What a batch knew of them is its own: one that a failure made wait for `--drain` knows more at the same time.
    """
    noted = Counter(tuple(row[column] for column in ("cluster", "ts", *of)) for row in rows)
    again = [key for key, times in noted.items() for _ in range(times - 1)]
    return [*sorted({key[:2] for key in noted}), *again]


def difference(found: Rows, expected: Rows) -> tuple[int, int, int]:
    """Rows that are missing, that are there more often than they should, and that should not be there at all."""
    lost = doubled = foreign = 0
    for name in expected.keys() | found.keys():
        here, there = found.get(name, Counter()), expected.get(name, Counter())
        lost += (there - here).total() + (name not in found)
        for row, count in (here - there).items():
            doubled, foreign = (doubled + count, foreign) if row in there else (doubled, foreign + count)
    return lost, doubled, foreign
