"""Small records of a lake in JSON, beside its tables."""

from __future__ import annotations

import logging
from typing import TypeVar

import msgspec

from pipelines.lake.lake import Lake

T = TypeVar("T")
_log = logging.getLogger("hwmark.lake")
_damaged: dict[str, dict[str, str]] = {}
"""The reason why a record was damaged when this process last read it, by root of the lake and path."""


def record(lake: Lake, path: str, kind: type[T], damaged: T | None = None) -> T | None:
    """The value in a record; None if there is none, `damaged` if the content is something else."""
    try:
        with lake.files().open_input_stream(path) as stream:
            return decode(lake, path, stream.read(), kind)
    except FileNotFoundError:
        return None
    except ValueError:
        return damaged


def decode(lake: Lake, path: str, content: bytes, kind: type[T]) -> T:
    """The value in a record with this content. Raises ValueError if it is something else, and remembers that."""
    damage = _damaged.setdefault(lake.root, {})
    try:
        value = msgspec.json.decode(content, type=kind)
    except msgspec.MsgspecError as error:
        why = f"{lake.root}/{path} is damaged ({error})"
        if path not in damage:  # a command reads the same one several times
            _log.warning(why)
        damage[path] = str(error)
        raise ValueError(why) from error
    damage.pop(path, None)
    return value


def damaged_records(lake: Lake) -> dict[str, str]:
    """The records that were damaged when this process last read them, by path, with the reason."""
    return dict(_damaged.get(lake.root, {}))


def write_record(lake: Lake, path: str, value: object) -> None:
    """Write a value as a record, durably."""
    lake.write_durably(path, msgspec.json.encode(value))
