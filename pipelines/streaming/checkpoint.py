"""How far the streaming job has read bronze, from the checkpoint in its lake: without Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from generators.files import StorageOptions, file_system

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

FOLDER = "_run"
RECORD = f"{FOLDER}/query.json"
"""Which query wrote the silver tables: its checkpoint has its id for a name."""
INTERVAL = f"{FOLDER}/interval.json"
"""How often the job that ran last takes what is new."""


@dataclass(frozen=True)
class Begun:
    """A batch that has begun and is not committed; `events` of bronze, where its source counts them."""

    batch_id: int
    events: int | None
    at: datetime


def committed_offset(lake: str, storage_options: StorageOptions | None = None) -> Mapping[str, Any] | None:
    """The offset of bronze up to which the job has committed, in its source's words; None before its first batch."""
    files = file_system(lake, storage_options)
    try:
        folder = _folder(files)
        return _planned(files, folder, _last(files, f"{folder}/commits"))[1]
    except (FileNotFoundError, ValueError):
        return None


def begun(lake: str, storage_options: StorageOptions | None = None) -> Begun | None:
    """The batch that the job is at; None between two."""
    files = file_system(lake, storage_options)
    try:
        folder = _folder(files)
        number, done = _last(files, f"{folder}/offsets"), _last(files, f"{folder}/commits", -1)
        if number <= done:
            return None
        metadata, offset = _planned(files, folder, number)
        before = _planned(files, folder, number - 1)[1].get("events", 0) if number else 0
    except (FileNotFoundError, ValueError):
        return None
    events = int(offset["events"]) - before if "events" in offset else None
    return Begun(number, events, datetime.fromtimestamp(metadata["batchTimestampMs"] / 1000, UTC))


def _folder(files: FileSystem) -> str:
    """The checkpoint of the query that wrote the silver tables."""
    with files.open_input_stream(RECORD) as stream:
        return f"{FOLDER}/{json.loads(stream.read())['query_id']}"


def _planned(files: FileSystem, folder: str, batch_id: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a batch was planned with: Spark's metadata, and the offset of bronze up to which it reads."""
    with files.open_input_stream(f"{folder}/offsets/{batch_id}") as stream:
        lines = stream.read().decode().splitlines()
    return json.loads(lines[1]), json.loads(lines[-1])


def _last(files: FileSystem, folder: str, none: int | None = None) -> int:
    """The largest number that names a file. Raises ValueError where there is no such file, unless `none` stands in."""
    from pyarrow.fs import FileSelector

    found = files.get_file_info(FileSelector(folder, allow_not_found=none is not None))
    numbers = [int(entry.base_name) for entry in found if entry.base_name.isdigit()]
    return max(numbers) if none is None else max(numbers, default=none)


def remember_interval(lake: str, seconds: float | None, storage_options: StorageOptions | None = None) -> None:
    """Records how often the job takes what is new, None: once. Who judges whether it is behind is another process."""
    files = file_system(lake, storage_options)
    files.create_dir(FOLDER)
    with files.open_output_stream(INTERVAL) as stream:
        stream.write(json.dumps({"seconds": seconds}).encode())


def interval(lake: str, storage_options: StorageOptions | None = None) -> float | None:
    """Seconds between two batches of the job that ran last; None where it ran once, or none ever ran."""
    try:
        with file_system(lake, storage_options).open_input_stream(INTERVAL) as stream:
            seconds = json.loads(stream.read()).get("seconds")
    except (FileNotFoundError, ValueError):
        return None
    return None if seconds is None else float(seconds)
