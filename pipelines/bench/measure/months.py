"""A lake after a year, at the level of its tables: `python -m pipelines.bench.measure.months [HOURS_OF_LOG ...]`.

What the job, with a batch every ten seconds, and a daily `maintain` leave of `silver/partition_hw` and
`gold/partition_health`: files, bytes, the length of the log, and what a reader and a commit then take. The log is
written as delta-rs writes it, without the job; rows are few, since their number does not matter for it.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.commands.show.tables import as_table
from pipelines.lake.compaction import COMPRESSION
from pipelines.lake.data_file import Written, write_file
from pipelines.lake.delta_log import commit_path
from pipelines.lake.lake import Lake, declared
from pipelines.lake.queries import Filter, rows
from pipelines.lake.table import add_files
from pipelines.streaming.tables import commit, create_tables

INTERVAL_S = 10
DAYS = 365
PARTITIONS = 2_000
TODAY = 2_160
"""Batches since `maintain` ran: six hours."""
HW, HEALTH = "partition_hw", "partition_health"
COLUMNS = ["table", "log kept", "files", "MB", "entries of the log", "open, s", "commit, s", "show, s"]


def measured(hours: float) -> list[dict[str, str]]:
    """One year with a log of so many hours: a row for each table."""
    with tempfile.TemporaryDirectory(prefix="hwmark-months-") as folder:
        lake, now = Lake(folder), datetime.now(UTC)
        create_tables(lake)
        days = [_hw(lake, now - timedelta(days=day), PARTITIONS) for day in range(DAYS, 0, -1)]
        add_files(lake.open(HW), days, declared(HW).arrow(), {"job": 0})
        batches = round(hours * 3600 / INTERVAL_S)
        _appended(lake, now, batches)
        for batch in range(batches + 1, batches + 101):
            commit(lake, HEALTH, [_health(lake, batch)], "job", batch, overwrite=True)
        return [_row(lake, name, hours) for name in (HW, HEALTH)]


def _hw(lake: Lake, at: datetime, count: int, first: int = 0) -> Written:
    """A file of HWs, as a compaction of a day or a batch of ten seconds leaves one."""
    place = {"cluster": "c", "topic": "orders", "kind": "advance", "ts": at}
    made = [{**place, "partition": number, "hw": number} for number in range(first, first + count)]
    table = pa.Table.from_pylist(made, declared(HW).arrow())
    return write_file(lake.files(HW), HW, table.schema, [table], compression=COMPRESSION)


def _health(lake: Lake, hw: int) -> Written:
    place = {"cluster": "c", "topic": "orders", "hw": hw}
    made = pa.Table.from_pylist([{**place, "partition": n} for n in range(PARTITIONS)], declared(HEALTH).arrow())
    return write_file(lake.files(HEALTH), HEALTH, made.schema, [made])


def _appended(lake: Lake, now: datetime, batches: int) -> None:
    """The commits of so many batches; of all but today's the files were put together and removed."""
    template, folder = _hw(lake, now, 20), Path(lake.root, lake.path(HW))
    first, at_ms = lake.open(HW).version() + 1, int(now.timestamp() * 1000)
    content = (folder / template.path).read_bytes()
    before = ""
    for number in range(batches):
        of_today = number >= batches - TODAY
        name = f"part-{uuid.uuid4()}.zstd.parquet"
        add = {
            "path": name,
            "partitionValues": {},
            "size": template.size,
            "modificationTime": at_ms,
            "dataChange": True,
        }
        done: list[dict[str, Any]] = [
            {"commitInfo": {"timestamp": at_ms, "operation": "WRITE", "engineInfo": "delta-rs:bench"}},
            {"txn": {"appId": "job", "version": number + 1, "lastUpdated": at_ms}},
            {"add": {**add, "stats": template.stats}},
        ]
        if before:
            gone = {"path": before, "dataChange": False, "deletionTimestamp": at_ms, "partitionValues": {}}
            done.append({"remove": {**gone, "size": template.size}})
        if of_today:
            (folder / name).write_bytes(content)
        before = "" if of_today else name
        (folder / commit_path(first + number)).write_text("\n".join(map(json.dumps, done)) + "\n")
    lake.open(HW).create_checkpoint()


def _row(lake: Lake, name: str, hours: float) -> dict[str, str]:
    folder = Path(lake.root, lake.path(name))
    files = list(folder.glob("*.parquet"))
    written = _hw(lake, datetime.now(UTC), 20) if name == HW else _health(lake, 0)
    table = lake.open(name)
    view, wanted = {HW: "hw", HEALTH: "health"}[name], Filter("c", "orders", 17)
    row = {
        "table": lake.path(name),
        "log kept": f"{hours:g} h" if name == HW else "1 h",
        "files": f"{len(files):,}",
        "MB": f"{sum(file.stat().st_size for file in files) / 1e6:,.0f}",
        "entries of the log": f"{sum(1 for _ in (folder / '_delta_log').iterdir()):,}",
        "open, s": _seconds(lambda: lake.open(name)),
        "show, s": _seconds(lambda: rows(lake, view, wanted, 20)),
    }
    row["commit, s"] = _seconds(lambda: add_files(table, [written], declared(name).arrow(), {}))
    return row


def _seconds(do: Callable[[], object]) -> str:
    begun = time.monotonic()
    do()
    return f"{time.monotonic() - begun:.2f}"


def main(hours: Sequence[float]) -> None:
    """Prints a year for each length of the log."""
    found = []
    for each in hours:
        print(f"a year with a log of {each:g} hours", file=sys.stderr, flush=True)
        found += measured(each)
    print(as_table(found, COLUMNS))


if __name__ == "__main__":
    main([float(word) for word in sys.argv[1:]] or [24, 168])
