"""A check whether a table's columns are the declared ones of events, or can be cast to them without loss."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from schemas import replication_events
from schemas.replication_events import NAIVE

if TYPE_CHECKING:
    from deltalake import Schema

_WHOLE = ("byte", "short", "integer", "long")
_TAKEN: dict[str, tuple[str, ...]] = {
    "string": ("string",),
    "integer": _WHOLE,
    "long": _WHOLE,
    "double": ("float", "double", *_WHOLE[:3]),
    "boolean": ("boolean",),
    "timestamp": ("timestamp",),
    "struct": ("struct",),
}
"""The Delta types from which each declared type is cast; from long to integer every value is checked."""


class UnsuitableColumnsError(ValueError):
    """Raised for columns that cannot be read as events; the message has the found and expected type of each."""


class UnreadableFileError(ValueError):
    """Raised for an unreadable data file; the message has file, column, and the types found and expected."""

    def __init__(self, path: str, why: object) -> None:
        super().__init__(
            f"file {path} of bronze cannot be read: {' '.join(str(why).split())}; bring back a good copy of it, or go "
            f"on without its rows, which leaves a gap, with `hwmark run --skip-file '{path}'`"
        )


def require_suitable(uri: str, schema: Schema, partitioned_by: Iterable[str] = ()) -> None:
    """Raise UnsuitableColumnsError if a table's columns cannot be read as events. Other columns are ignored."""
    found = {field.name: _delta_type(field.type.to_json()) for field in schema.fields}
    problems = list(_problems(found, set(partitioned_by)))
    if problems:
        raise UnsuitableColumnsError(f"{uri} cannot be read as events: {'; '.join(problems)}")


def _problems(found: Mapping[str, str], partitioned_by: set[str]) -> Iterator[str]:
    for column in replication_events.TABLE.columns:
        expected = _declared_in_delta(column.name)
        kind = found.get(column.name)
        if kind is None:
            if not column.null:
                yield f"column {column.name} is missing, expected {expected}"
        elif kind == "timestamp_ntz" and expected == "timestamp":
            yield f"column {column.name} is {NAIVE}"
        elif not _fits(kind, expected):
            yield f"column {column.name} is {kind}, expected {expected}"
        elif column.name in partitioned_by and kind not in ("string", *_WHOLE):
            yield f"column {column.name} partitions the table, which only text and whole numbers may"


def _fits(kind: str, expected: str) -> bool:
    if kind.startswith("array<") and expected.startswith("array<"):
        return _fits(kind[6:-1], expected[6:-1])
    return kind in _TAKEN.get(expected, ())


def _declared_in_delta(name: str) -> str:
    """A declared column's type as Delta's log writes it."""
    from deltalake import Field

    return _delta_type(Field.from_arrow(replication_events.ARROW.field(name)).type.to_json())


def _delta_type(json_type: str) -> str:
    """The type as text: `"long"` as long, arrays as array<long>, other nested types by their kind."""

    def words(kind: Any) -> str:
        if isinstance(kind, str):
            return kind
        return f"array<{words(kind['elementType'])}>" if kind["type"] == "array" else str(kind["type"])

    return words(json.loads(json_type))
