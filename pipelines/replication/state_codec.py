"""Dataclasses to compact JSON and back, by their type annotations."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from operator import attrgetter
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
Reader = Callable[[Any], Any]


def encode(value: object, version: int) -> bytes:
    """A dataclass as JSON: its fields' values in order, after a version."""
    return json.dumps([version, value], separators=(",", ":"), default=_plain).encode()


def decode(kind: type[T], blob: bytes, version: int) -> T:
    """The dataclass that `encode` wrote. Raises ValueError naming another version."""
    found, plain = json.loads(blob)
    if found != version:
        raise ValueError(f"state of {kind.__name__} has version {found}, this program reads {version}; rebuild it")
    wanted: Any = kind
    decoded: T = (_reader(wanted) or _same)(plain)
    return decoded


def _plain(value: Any) -> Any:
    kind: Any = type(value)
    return sorted(value) if kind is frozenset else _values(kind)(value)


@cache
def _values(kind: Any) -> Callable[[Any], Any]:
    return attrgetter(*(f.name for f in fields(kind)))


@cache
def _reader(kind: Any) -> Reader | None:
    """What turns plain JSON into this type; None where plain JSON is it already."""
    origin, args = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        return _dataclass(kind)
    if origin is UnionType:
        inner = _reader(next(a for a in args if a is not type(None)))
        return inner and (lambda plain: None if plain is None else inner(plain))
    if origin in (tuple, frozenset):
        return tuple if origin is tuple else frozenset
    if origin is list and _reader(args[0]) is not None:
        return lambda plain: [_reader(args[0])(item) for item in plain]  # type: ignore[misc]
    if origin is dict and args[0] is int:
        value = _reader(args[1]) or _same
        return lambda plain: {int(k): value(v) for k, v in plain.items()}
    return None


def _dataclass(kind: type) -> Reader:
    hints = get_type_hints(kind)
    special = [(place, _reader(hints[f.name])) for place, f in enumerate(fields(kind))]
    readers = [(place, read) for place, read in special if read is not None]

    def read(plain: list[Any]) -> Any:
        for place, reader in readers:
            plain[place] = reader(plain[place])
        return kind(*plain)

    return read


def _same(plain: Any) -> Any:
    return plain
