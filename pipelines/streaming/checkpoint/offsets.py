"""How far the streaming job has read bronze, from the checkpoint in its lake: without Spark."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.lake.file_systems import local_path, sync

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
class Begun:
    """A batch that has begun and is not committed; `events` of bronze, where its source counts them."""

    batch_id: int
    events: int | None
    at: datetime


def committed_offset(lake: Lake) -> Mapping[str, Any] | None:
    """The offset of bronze up to which the job has committed, in its source's words; None before its first batch."""
    files = lake.files()
    try:
        folder = _folder(files)
        done = _last(files, f"{folder}/commits", -1)
        return began_at(files) if done < 0 else _planned(files, folder, done)[1]
    except (FileNotFoundError, ValueError):
        return None


def begun(lake: Lake) -> Begun | None:
    """The batch that the job is at; None between two."""
    files = lake.files()
    try:
        folder = _folder(files)
        number, done = _last(files, f"{folder}/offsets"), _last(files, f"{folder}/commits", -1)
        if number <= done:
            return None
        metadata, offset = _planned(files, folder, number)
        start = _planned(files, folder, number - 1)[1] if number else began_at(files)
    except (FileNotFoundError, ValueError):
        return None
    events = int(offset["events"]) - (start or {}).get("events", 0) if "events" in offset else None
    return Begun(number, events, datetime.fromtimestamp(metadata["batchTimestampMs"] / 1000, UTC))


def _folder(files: FileSystem) -> str:
    """The checkpoint of the query that wrote the silver tables."""
    with files.open_input_stream(RECORD) as stream:
        return f"{FOLDER}/{json.loads(stream.read())['query_id']}"


def began_at(files: FileSystem, query_id: str | None = None) -> dict[str, Any] | None:
    """The offset at which the lake's query began, which goes on from the state of another; None where it does not.

    Nor where it is not this one.
    """
    try:
        with files.open_input_stream(RECORD) as stream:
            found = json.loads(stream.read())
    except FileNotFoundError:
        return None
    start: dict[str, Any] | None = found.get("start") if query_id in (None, found["query_id"]) else None
    return start


def query_id(files: FileSystem) -> str | None:
    """The query that wrote the silver tables, None where none did."""
    try:
        return _folder(files).rpartition("/")[2]
    except FileNotFoundError:
        return None


def plan(files: FileSystem, query_id: str, batch_id: int) -> str:
    """The file in which Spark says what a batch reads. Raises FileNotFoundError."""
    return _plan(files, f"{FOLDER}/{query_id}", batch_id)


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
    return _last(files, f"{FOLDER}/{query_id}/{folder}", -1)


def _plan(files: FileSystem, folder: str, batch_id: int) -> str:
    with files.open_input_stream(f"{folder}/offsets/{batch_id}") as stream:
        return str(stream.read().decode())


def _planned(files: FileSystem, folder: str, batch_id: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a batch was planned with: Spark's metadata, and the offset of bronze up to which it reads."""
    content = _plan(files, folder, batch_id)
    return json.loads(content.splitlines()[1]), offset(content)


def _last(files: FileSystem, folder: str, none: int | None = None) -> int:
    """The largest number that names a file. Raises ValueError where there is no such file, unless `none` stands in."""
    from pyarrow.fs import FileSelector

    found = files.get_file_info(FileSelector(folder, allow_not_found=none is not None))
    numbers = [int(entry.base_name) for entry in found if entry.base_name.isdigit()]
    return max(numbers) if none is None else max(numbers, default=none)


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
    """The list in a JSON file of the lake; none where there is no such file."""
    try:
        with lake.files().open_input_stream(path) as stream:
            return list(json.loads(stream.read()))
    except FileNotFoundError:
        return []


def accept_removal(lake: Lake, version: int) -> None:
    """Records that a version of bronze which took rows out may be read past."""
    known = accepted_removals(lake)
    lake.write_durably(REMOVALS, json.dumps(sorted({*known, version})).encode())


def interval(lake: Lake) -> float | None:
    """Seconds between two batches of the job that ran last; None where it ran once, or none ever ran."""
    try:
        with lake.files().open_input_stream(INTERVAL) as stream:
            seconds = json.loads(stream.read()).get("seconds")
    except (FileNotFoundError, ValueError):
        return None
    return None if seconds is None else float(seconds)
