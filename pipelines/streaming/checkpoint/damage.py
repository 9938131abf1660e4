"""Unreadable checkpoint files, by name and with the remedy: Spark's own messages have neither."""

from __future__ import annotations

import json
import re

from pipelines.lake.lake import Lake
from pipelines.streaming.checkpoint import offsets
from pipelines.streaming.checkpoint.query import StateMismatch

WAY_OUT = "bring it back from a copy, or start silver anew from bronze with `hwmark run --rebuild`"
_OF_STATE = ("CANNOT_LOAD_STATE_STORE", "STATE_STORE_")
_FILE = re.compile(r"(?:file:)?(\S*/_run/\S+)")


def require_readable(lake: Lake, query_id: str) -> None:
    """Raise StateMismatch with the name of a damaged record in a query's checkpoint; state files are not checked."""
    newest = [(name, offsets.last(lake.files(), query_id, name)) for name in ("offsets", "commits")]
    for path in ("metadata", *(f"{name}/{number}" for name, number in newest if number >= 0)):
        if not is_record(lake, query_id, path):
            raise StateMismatch(f"{lake.root}/{offsets.FOLDER}/{query_id}/{path} is damaged: {WAY_OUT}")


def is_record(lake: Lake, query_id: str, path: str) -> bool:
    """Whether a checkpoint file is absent, or JSON line by line, after a version if Spark writes one there."""
    try:
        with lake.files().open_input_stream(f"{offsets.FOLDER}/{query_id}/{path}") as stream:
            version, *lines = stream.read().decode().splitlines() or [""]
    except FileNotFoundError:
        return True
    except UnicodeDecodeError:
        return False
    if path == "metadata":
        lines = [version, *lines]
    elif not re.fullmatch(r"v\d+", version) or not lines:
        return False
    try:
        return all(isinstance(json.loads(line), dict) or line == "-" for line in lines)
    except ValueError:
        return False


def explained(message: str, lake: Lake, query_id: str) -> str:
    """The message of a failed query; if its state could not be read, with the file and the remedy."""
    if not any(sign in message for sign in _OF_STATE):
        return message
    found = _FILE.search(message)
    where = found[1].rstrip(".,") if found else f"{lake.root}/{offsets.FOLDER}/{query_id}/state"
    what = "is gone" if "does not exist" in message else "cannot be read"
    return f"the job's state {where} {what} ({message.partition('. ')[0]}): {WAY_OUT}"
