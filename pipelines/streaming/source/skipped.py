"""Removal of an unreadable data file from bronze by name, with rows that record the gap."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import UsageError, nearest
from pipelines.lake.lake import Lake
from pipelines.lake.table import append
from pipelines.streaming.checkpoint.offsets import FOLDER, read_list
from pipelines.streaming.source.bronze_log import BronzeLog, VersionVanishedError
from pipelines.streaming.source.suitable import UnreadableFileError
from schemas import replication_events

SOURCE, SKIPPED = "hwmark/skipped", "skipped"
RECORD = f"{FOLDER}/skipped.json"
KEPT_BELOW = f"{FOLDER}/skipped"

Row = Mapping[str, Any]


def skipped(lake: Lake) -> list[str]:
    """The skipped files of bronze, by their paths below the table's folder."""
    return [str(path) for path in read_list(lake, RECORD)]


def skip_file(lake: Lake, path: str) -> str:
    """Remove a file from bronze, keep it below the lake, and append a `lost` row per broker.

    Returns what was done, in words. Raises UsageError if bronze has no such file. The next call finishes a call that
    was cut off.
    """
    log = BronzeLog(lake.create(replication_events.TABLE).table_uri.rstrip("/"), lake.storage_options)
    last = log.latest()
    present = {file.path: file for file in log.files(last, last)}
    known = skipped(lake)
    if path not in present and path not in known:
        raise UsageError(f"bronze of lake {lake.root} has no file {path}; {nearest(path, present)}")
    brokers = _brokers(log, [file.part for file in present.values() if file.path not in {path, *known}])
    # In this order, a call that is cut off has recorded the gap, or the file is still read.
    _append_lost_rows(lake, path, brokers)
    _record(lake, [*known, path])
    if path in present:
        _take_out(lake, path)
    places = (
        ", ".join(sorted({f"broker {row['broker_id']} of {row['cluster']}" for row in brokers})) or "no broker known"
    )
    return f"file {path} is no part of bronze any more and lies in {KEPT_BELOW}; what it held is a gap of {places}"


def _record(lake: Lake, paths: Iterable[str]) -> None:
    lake.write_durably(RECORD, json.dumps(sorted(set(paths))).encode())


def _brokers(log: BronzeLog, parts: Sequence[Any]) -> list[Row]:
    """The brokers and the largest time of each cluster, from the readable files."""
    largest = [
        events.group_by(["cluster", "broker_id"]).aggregate([("ts", "max")])
        for part in parts
        for events in _readable(log, part)
    ]
    if not largest:
        return []
    times = pa.concat_tables(largest)
    latest = times.group_by("cluster").aggregate([("ts_max", "max")]).rename_columns(["cluster", "ts_max"])
    ids = times.filter(pc.greater_equal(times["broker_id"], 0)).group_by(["cluster", "broker_id"]).aggregate([])
    brokers = ids.join(latest, "cluster").sort_by([("cluster", "ascending"), ("broker_id", "ascending")])
    return list(brokers.to_pylist())


def _readable(log: BronzeLog, part: Any) -> Iterator[pa.Table]:
    """The readable events of a file; the rest is skipped by a call of its own."""
    from pipelines.streaming.source.bronze_file import read

    try:
        for events in read(log, part):
            columns = events.select(["cluster", "broker_id", "ts"])
            yield columns.set_column(0, "cluster", columns["cluster"].cast(pa.string()))
    except (UnreadableFileError, VersionVanishedError):
        return


def _take_out(lake: Lake, path: str) -> None:
    """Move the file away and remove it from the table, with others that were skipped before.

    Raises UsageError if the table has lost other files, too.
    """
    table, files = lake.open(replication_events.TABLE), lake.files()
    gone = set(table.repair(dry_run=True)["files_removed"]) - set(skipped(lake))
    if gone:
        raise UsageError(f"bronze of lake {lake.root} has lost other files, too: skip {sorted(gone)[0]} as well")
    source = f"{replication_events.TABLE.path}/{path}"
    if files.get_file_info(source).is_file:
        target = f"{KEPT_BELOW}/{path}"
        files.create_dir(target.rpartition("/")[0], recursive=True)
        files.move(source, target)
    table.repair()


def _append_lost_rows(lake: Lake, path: str, brokers: Sequence[Row]) -> None:
    """Append one `lost` row per broker, once for each file."""
    writer = f"{SOURCE}/{path}"
    table = lake.open(replication_events.TABLE)
    if table.transaction_version(writer) is not None:
        return
    there = [field.name for field in table.schema().fields if field.name in replication_events.ARROW.names]
    events = pa.Table.from_pylist([_lost(path, row) for row in brokers], replication_events.ARROW)
    append(table, events.select(there), {writer: 0}, SKIPPED)


def _lost(path: str, row: Row) -> dict[str, Any]:
    source = f"{SOURCE}/{path}/{row['broker_id']}"
    return {
        "cluster": row["cluster"],
        "source_id": source,
        "source_epoch": 0,
        "source_seq": 0,
        "seq": 0,
        "ts": row["ts_max"],
        "broker_id": row["broker_id"],
        "event_type": "lost",
        "partition": -1,
        "level": 0,
        "detail": f"an unknown number of rows: file {path} was skipped",
    }
