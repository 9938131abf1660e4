"""Small records of a lake in JSON, beside its tables."""

from __future__ import annotations

import logging
from typing import TypeVar

import msgspec

from pipelines.lake.lake import Lake

T = TypeVar("T")
_log = logging.getLogger("hwmark.lake")
_damaged: dict[str, dict[str, str]] = {}
"""By root of a lake and path of a record why it was no such record when this process read it last."""


def record(lake: Lake, path: str, kind: type[T], damaged: T | None = None) -> T | None:
    """The value that a record holds; None where it is not there, `damaged` where it is something else."""
    try:
        with lake.files().open_input_stream(path) as stream:
            return decode(lake, path, stream.read(), kind)
    except FileNotFoundError:
        return None
    except ValueError:
        return damaged


def decode(lake: Lake, path: str, content: bytes, kind: type[T]) -> T:
    """The value in a record with this content. Raises ValueError where it is something else, and keeps that."""
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
    """The records that were damaged when this process read them last, by their paths, and why."""
    return dict(_damaged.get(lake.root, {}))


def write_record(lake: Lake, path: str, value: object) -> None:
    """Has a record hold this value, durably."""
    lake.write_durably(path, msgspec.json.encode(value))
