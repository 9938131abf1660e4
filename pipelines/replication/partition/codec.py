"""Base classes of what a partition's history consists of, and its bytes: compact JSON arrays of the fields in order."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from msgspec import Raw, Struct
from msgspec.json import Decoder, Encoder

T = TypeVar("T")
_encoder, _versioned = Encoder(), Decoder(tuple[int, Raw])


class Persisted(Struct, array_like=True, gc=False):
    """State kept between micro-batches. The ORDER of the fields is the format; their names are free.

    These objects form no reference cycles, so the garbage collector need not walk through them again and again.
    """


class PersistedFrozen(Struct, array_like=True, gc=False, frozen=True):
    """State kept between micro-batches that never changes."""


def encode(value: object, version: int) -> bytes:
    """A value as JSON, after a version."""
    return _encoder.encode((version, value))


def decode(kind: type[T], blob: bytes, version: int) -> T:
    """The value that `encode` wrote. Raises ValueError naming another version."""
    found, plain = _versioned.decode(blob)
    if found != version:
        raise ValueError(f"state of {kind.__name__} has version {found}, this program reads {version}; rebuild it")
    decoder: Decoder[T] = _decoder(kind)  # type: ignore[arg-type]  # a type is hashable
    return decoder.decode(plain)


@cache
def _decoder(kind: Any) -> Decoder[Any]:
    return Decoder(kind)
