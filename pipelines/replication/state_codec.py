"""Dataclasses to compact JSON and back, by their type annotations."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")


def encode(value: object, version: int) -> bytes:
    """A dataclass as JSON: its fields' values in order, after a version."""
    return json.dumps([version, _plain(value)], separators=(",", ":")).encode()


def decode(kind: type[T], blob: bytes, version: int) -> T:
    """The dataclass that `encode` wrote. Raises ValueError naming another version."""
    found, plain = json.loads(blob)
    if found != version:
        raise ValueError(f"state of {kind.__name__} has version {found}, this program reads {version}; rebuild it")
    decoded: T = _typed(kind, plain)
    return decoded


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return [_plain(getattr(value, f.name)) for f in fields(value)]
    if isinstance(value, dict):
        return [[_plain(k), _plain(v)] for k, v in value.items()]
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value


@cache
def _hints(kind: type) -> list[tuple[str, Any]]:
    hints = get_type_hints(kind)
    return [(f.name, hints[f.name]) for f in fields(kind)]


def _typed(kind: Any, plain: Any) -> Any:
    if plain is None:
        return None
    if isinstance(kind, type) and is_dataclass(kind):
        return kind(**{name: _typed(hint, v) for (name, hint), v in zip(_hints(kind), plain, strict=True)})
    origin, args = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return _typed(next(a for a in args if a is not type(None)), plain)
    if origin is dict and args[1] is not Any:
        return {k: _typed(args[1], v) for k, v in plain}
    if origin is list:
        return [_typed(args[0], v) for v in plain]
    if origin in (tuple, frozenset):
        return origin(plain)
    if origin is dict:
        return dict(plain)
    return plain
