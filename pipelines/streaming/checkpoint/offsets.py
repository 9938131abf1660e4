"""How far the streaming job has read bronze, from the checkpoint in its lake: without Spark."""

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
"""Which query wrote the silver tables: its checkpoint has its id for a name."""
INTERVAL = f"{FOLDER}/interval.json"
"""How often the job that ran last takes what is new."""
REMOVALS = f"{FOLDER}/accepted_removals.json"
"""Versions of bronze that took rows out and may be read past."""


@dataclass(frozen=True)
class QueryRecord:
    """The part of RECORD that others than the job read."""

    query_id: str
    start: dict[str, Any] | None = None
    rules: dict[str, Any] | None = None
    older: dict[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True)
class _Interval:
    seconds: float | None


@dataclass(frozen=True)
class Begun:
    """A batch that has begun and is not committed; `events` of bronze, where its source counts them."""

    batch_id: int
    events: int | None
    at: datetime


def committed_offset(lake: Lake) -> Mapping[str, Any] | None:
    """The offset of bronze up to which the job has committed, in its source's words; None before its first batch, and
    where that is not known, as its records are damaged."""
    query = record(lake, RECORD, QueryRecord)
    done = -1 if query is None else last(lake.files(), query.query_id, "commits")
    if query is None or done < 0:
        return query.start if query else None
    return _offset(lake, query.query_id, done)


def begun(lake: Lake) -> Begun | None:
    """The batch that the job is at; None between two."""
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
    """The offset at which the lake's query began, which goes on from the state of another; None where it does not, or
    is not this one."""
    query = record(lake, RECORD, QueryRecord)
    return query.start if query and query_id in (None, query.query_id) else None


def query_id(lake: Lake) -> str | None:
    """The query that wrote the silver tables, None where none is known."""
    query = record(lake, RECORD, QueryRecord)
    return query.query_id if query else None


def plan(files: FileSystem, query_id: str, batch_id: int) -> str:
    """The file in which Spark says what a batch reads. Raises FileNotFoundError."""
    with files.open_input_stream(f"{FOLDER}/{query_id}/offsets/{batch_id}") as stream:
        return str(stream.read().decode())


def offset(plan: str) -> dict[str, Any]:
    """The offset of bronze up to which a batch reads, in its source's words."""
    found: dict[str, Any] = json.loads(plan.splitlines()[-1])
    return found


def sync_checkpoint(lake: Lake, query_id: str, batch_id: int) -> None:
    """Has what Spark wrote since the batch before was planned, of state as of offsets, outlive a power failure."""
    if (root := local_path(lake.root)) is None:
        return
    before = root / FOLDER / query_id / "offsets" / str(batch_id - 1)
    since = before.stat().st_mtime_ns if before.exists() else 0
    for folder, _, names in os.walk(root / FOLDER / query_id):
        with suppress(FileNotFoundError):  # Spark removes what is old meanwhile
            if Path(folder).stat().st_mtime_ns >= since:
                new = [path for name in names if (path := Path(folder, name)).stat().st_mtime_ns >= since]
                for path in (*new, Path(folder)):
                    sync(path)


def restore_plan(lake: Lake, query_id: str, batch_id: int, plan: str) -> None:
    """Writes anew what a batch reads."""
    lake.write_durably(f"{FOLDER}/{query_id}/offsets/{batch_id}", plan.encode())


def remove_drafts(files: FileSystem, query_id: str) -> None:
    """Removes what a JVM that was killed left of files it was about to give their names, `.N.<uuid>.tmp`.

    Before its first batch Spark refuses a checkpoint with anything in it, and would do so for good.
    """
    from pyarrow.fs import FileSelector

    for folder in ("offsets", "commits"):
        found = files.get_file_info(FileSelector(f"{FOLDER}/{query_id}/{folder}", allow_not_found=True))
        for entry in found:
            if entry.base_name.startswith(".") and entry.base_name.endswith((".tmp", ".tmp.crc")):
                files.delete_file(entry.path)


def last(files: FileSystem, query_id: str, folder: str) -> int:
    """The last batch in a folder of the checkpoint, -1 where there is none."""
    from pyarrow.fs import FileSelector

    found = files.get_file_info(FileSelector(f"{FOLDER}/{query_id}/{folder}", allow_not_found=True))
    return max((int(entry.base_name) for entry in found if entry.base_name.isdigit()), default=-1)


def _offset(lake: Lake, query_id: str, batch_id: int) -> dict[str, Any] | None:
    """The offset of bronze up to which a batch reads; None where it is not there, or damaged."""
    path = f"{FOLDER}/{query_id}/offsets/{batch_id}"
    try:
        with lake.files().open_input_stream(path) as stream:
            return decode(lake, path, stream.read().rstrip().rpartition(b"\n")[2], dict[str, Any])
    except (FileNotFoundError, ValueError):
        return None


def planned_offset(lake: Lake, query_id: str) -> dict[str, Any] | None:
    """Return the offset of bronze up to which the last batch that was planned reads; None before the first."""
    number = last(lake.files(), query_id, "offsets")
    return None if number < 0 else _offset(lake, query_id, number)


def remember_interval(lake: Lake, seconds: float | None) -> None:
    """Records how often the job takes what is new, None: once. Who judges whether it is behind is another process."""
    files = lake.files()
    files.create_dir(FOLDER)
    with files.open_output_stream(INTERVAL) as stream:
        stream.write(json.dumps({"seconds": seconds}).encode())


def accepted_removals(lake: Lake) -> list[int]:
    """Versions of bronze that took rows out and may be read past."""
    return [int(version) for version in read_list(lake, REMOVALS)]


def read_list(lake: Lake, path: str) -> list[Any]:
    """The list in a JSON file of the lake; none where there is no such file. Raises ValueError for anything else."""
    try:
        with lake.files().open_input_stream(path) as stream:
            return decode(lake, path, stream.read(), list[Any])
    except FileNotFoundError:
        return []


def accept_removal(lake: Lake, version: int) -> None:
    """Records that a version of bronze which took rows out may be read past."""
    known = accepted_removals(lake)
    lake.write_durably(REMOVALS, json.dumps(sorted({*known, version})).encode())


def interval(lake: Lake) -> float | None:
    """Seconds between two batches of the job that ran last; None where it ran once, or none ever ran."""
    found = record(lake, INTERVAL, _Interval)
    return found.seconds if found else None
