"""Small records of a lake in JSON, beside its tables."""

from __future__ import annotations

import logging
from typing import TypeVar

import msgspec

from pipelines.lake.lake import Lake

T = TypeVar("T")
_log = logging.getLogger("hwmark.lake")


def record(lake: Lake, path: str, kind: type[T], damaged: T | None = None) -> T | None:
    """The value that a record holds; None where it is not there, `damaged` where it is something else."""
    try:
        with lake.files().open_input_stream(path) as stream:
            return msgspec.json.decode(stream.read(), type=kind)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        _log.warning("%s/%s is damaged (%s)", lake.root, path, error)
        return damaged


def write_record(lake: Lake, path: str, value: object) -> None:
    """Has a record hold this value, durably."""
    lake.write_durably(path, msgspec.json.encode(value))
