"""The offset of bronze that the streaming job has read, from the checkpoint in its lake, without Spark."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.lake.file_systems import local_path, sync
from pipelines.lake.records import decode, record

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from pipelines.lake.lake import Lake

FOLDER = "_run"
RECORD = f"{FOLDER}/query.json"
"""The record of the query that wrote the silver tables; its checkpoint is named by its id."""
INTERVAL = f"{FOLDER}/interval.json"
"""The record of the last job's interval."""
REMOVALS = f"{FOLDER}/accepted_removals.json"
"""The versions of bronze that removed rows and that the job may read past."""


@dataclass(frozen=True)
class QueryRecord:
    """The part of RECORD that other commands than the job read."""

    query_id: str
    start: dict[str, Any] | None = None
    rules: dict[str, Any] | None = None
    older: dict[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True)
class _Interval:
    seconds: float | None


@dataclass(frozen=True)
class Begun:
    """A batch that has begun and is not committed; `events` of bronze if its source counts them."""

    batch_id: int
    events: int | None
    at: datetime


def committed_offset(lake: Lake) -> Mapping[str, Any] | None:
    """The committed offset of bronze as its source writes it; None before the first batch, or if it is damaged."""
    query = record(lake, RECORD, QueryRecord)
    done = -1 if query is None else last(lake.files(), query.query_id, "commits")
    if query is None or done < 0:
        return query.start if query else None
    return _offset(lake, query.query_id, done)


def begun(lake: Lake) -> Begun | None:
    """The batch that has begun and is not committed; None between two batches."""
    files, query = lake.files(), record(lake, RECORD, QueryRecord)
    number, done = (last(files, query.query_id, folder) for folder in ("offsets", "commits")) if query else (-1, -1)
    if query is None or number <= done:
        return None
    try:
        at = json.loads(plan(files, query.query_id, number).splitlines()[1])["batchTimestampMs"]
    except (FileNotFoundError, LookupError, TypeError, ValueError):
        return None
    offset = _offset(lake, query.query_id, number) or {}
    start = _offset(lake, query.query_id, number - 1) if number else query.start
    events = int(offset["events"]) - (start or {}).get("events", 0) if "events" in offset else None
    return Begun(number, events, datetime.fromtimestamp(at / 1000, UTC))


def began_at(lake: Lake, query_id: str | None = None) -> dict[str, Any] | None:
    """The offset at which the lake's query began if it continues another; None if it does not, or is not `query`."""
    query = record(lake, RECORD, QueryRecord)
    return query.start if query and query_id in (None, query.query_id) else None


def query_id(lake: Lake) -> str | None:
    """The id of the query that wrote the silver tables, None if not known."""
    query = record(lake, RECORD, QueryRecord)
    return query.query_id if query else None


def plan(files: FileSystem, query_id: str, batch_id: int) -> str:
    """The text of Spark's file with the offsets of a batch. Raises FileNotFoundError."""
    with files.open_input_stream(f"{FOLDER}/{query_id}/offsets/{batch_id}") as stream:
        return str(stream.read().decode())


def offset(plan: str) -> dict[str, Any]:
    """The offset of bronze at which a batch ends, as its source writes it."""
    found: dict[str, Any] = json.loads(plan.splitlines()[-1])
    return found


def sync_checkpoint(lake: Lake, query_id: str, batch_id: int) -> None:
    """Sync the state and offsets that Spark wrote since the batch before was planned, to outlive a power failure."""
    if (root := local_path(lake.root)) is None:
        return
    before = root / FOLDER / query_id / "offsets" / str(batch_id - 1)
    since = before.stat().st_mtime_ns if before.exists() else 0
    for folder, _, names in os.walk(root / FOLDER / query_id):
        with suppress(FileNotFoundError):  # Spark removes old files meanwhile
            if Path(folder).stat().st_mtime_ns >= since:
                new = [path for name in names if (path := Path(folder, name)).stat().st_mtime_ns >= since]
                for path in (*new, Path(folder)):
                    sync(path)


def restore_plan(lake: Lake, query_id: str, batch_id: int, plan: str) -> None:
    """Write a batch's plan again."""
    lake.write_durably(f"{FOLDER}/{query_id}/offsets/{batch_id}", plan.encode())


def remove_drafts(files: FileSystem, query_id: str) -> None:
    """Remove the unfinished files (`.N.<uuid>.tmp`) of a killed JVM.

    Before its first batch Spark refuses a checkpoint that is not empty, every time.
    """
    from pyarrow.fs import FileSelector

    for folder in ("offsets", "commits"):
        found = files.get_file_info(FileSelector(f"{FOLDER}/{query_id}/{folder}", allow_not_found=True))
        for entry in found:
            if entry.base_name.startswith(".") and entry.base_name.endswith((".tmp", ".tmp.crc")):
                files.delete_file(entry.path)


def last(files: FileSystem, query_id: str, folder: str) -> int:
    """The last batch in a folder of the checkpoint, -1 if there is none."""
    from pyarrow.fs import FileSelector

    found = files.get_file_info(FileSelector(f"{FOLDER}/{query_id}/{folder}", allow_not_found=True))
    return max((int(entry.base_name) for entry in found if entry.base_name.isdigit()), default=-1)


def _offset(lake: Lake, query_id: str, batch_id: int) -> dict[str, Any] | None:
    """The offset of bronze at which a batch ends; None if the record is missing or damaged."""
    path = f"{FOLDER}/{query_id}/offsets/{batch_id}"
    try:
        with lake.files().open_input_stream(path) as stream:
            return decode(lake, path, stream.read().rstrip().rpartition(b"\n")[2], dict[str, Any])
    except (FileNotFoundError, ValueError):
        return None


def planned_offset(lake: Lake, query_id: str) -> dict[str, Any] | None:
    """The offset of bronze at which the last planned batch ends; None before the first."""
    number = last(lake.files(), query_id, "offsets")
    return None if number < 0 else _offset(lake, query_id, number)


def remember_interval(lake: Lake, seconds: float | None) -> None:
    """Record the job's interval (None: it runs once), for the process that judges whether the job is behind."""
    files = lake.files()
    files.create_dir(FOLDER)
    with files.open_output_stream(INTERVAL) as stream:
        stream.write(json.dumps({"seconds": seconds}).encode())


def accepted_removals(lake: Lake) -> list[int]:
    """The versions of bronze that removed rows and that the job may read past."""
    return [int(version) for version in read_list(lake, REMOVALS)]


def read_list(lake: Lake, path: str) -> list[Any]:
    """The list in a JSON file of the lake; empty if there is no file. Raises ValueError for anything else."""
    try:
        with lake.files().open_input_stream(path) as stream:
            return decode(lake, path, stream.read(), list[Any])
    except FileNotFoundError:
        return []


def accept_removal(lake: Lake, version: int) -> None:
    """Record that the job may read past a version of bronze that removed rows."""
    known = accepted_removals(lake)
    lake.write_durably(REMOVALS, json.dumps(sorted({*known, version})).encode())


def interval(lake: Lake) -> float | None:
    """Seconds between two batches of the last job; None if it ran once, or no job ever ran."""
    found = record(lake, INTERVAL, _Interval)
    return found.seconds if found else None
