"""What a history is made of, and its bytes: compact JSON, fields in their order, by their type annotations."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from msgspec import Raw, Struct
from msgspec.json import Decoder, Encoder

T = TypeVar("T")
_encoder, _versioned = Encoder(), Decoder(tuple[int, Raw])


class Kept(Struct, array_like=True, gc=False):
    """A part of what is kept between micro-batches. None of them holds what holds it: the garbage collector, which
    would walk through all of them again and again, leaves them alone."""


class Fixed(Struct, array_like=True, gc=False, frozen=True):
    """Such a part that never changes."""


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
