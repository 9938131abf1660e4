"""Small records of a lake in JSON, beside its tables."""

from __future__ import annotations

import logging
from functools import lru_cache
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
        _say_damaged(f"{lake.root}/{path}", str(error))
        return damaged


@lru_cache
def _say_damaged(path: str, why: str) -> None:
    """Log a damaged record, once in a process: a command reads the same one several times."""
    _log.warning("%s is damaged (%s)", path, why)


def write_record(lake: Lake, path: str, value: object) -> None:
    """Has a record hold this value, durably."""
    lake.write_durably(path, msgspec.json.encode(value))
