"""Bytes of what a parser keeps between two calls, and those of the version before."""

from __future__ import annotations

import json
import zlib
from base64 import b85decode, b85encode
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

VERSION = 2
Packed = Mapping[str, Any]
"""An array as JSON can hold it: `type` as numpy describes it, `bytes` as text."""

_FIRST_STATE = np.dtype(
    [("level", "i1"), ("full", "i1"), ("broken", "i1"), ("opened", "i8"), ("number", "i8"), ("ts", "i8")], align=True
)
_FIRST_SOURCE = np.dtype([("recorded", "i8"), ("lean", "i1"), ("broker", "i4")], align=True)
_FIRST_PLACE = np.dtype(
    [
        ("wanted", "i1"),
        ("again", "i1"),
        ("unclean", "i1"),
        ("leader_epoch", "i4"),
        ("partition_epoch", "i4"),
        ("topic_id", "i4"),
        ("leader_leo", "i8"),
        ("hw", "i8"),
    ],
    align=True,
)
_FIRST_TOLD = np.dtype([("replica", "i4"), ("leo", "i8"), ("ts", "i8")], align=True)


def pack(values: np.ndarray) -> Packed:
    """A one-dimensional array."""
    kept = np.ascontiguousarray(values)
    return {"type": _described(kept.dtype), "bytes": b85encode(kept.tobytes()).decode()}


def _described(dtype: np.dtype) -> Any:
    """What `_dtype` reads: names, formats and offsets, so that no byte between fields is taken for one."""
    if dtype.fields is None:
        return dtype.str
    fields = [(name, of.str, offset) for name, (of, offset, *_) in dtype.fields.items()]
    return {"fields": fields, "size": dtype.itemsize}


def _dtype(described: Any) -> np.dtype:
    if isinstance(described, str):
        return np.dtype(described)
    names, formats, offsets = zip(*described["fields"], strict=True)
    return np.dtype(
        {"names": list(names), "formats": list(formats), "offsets": list(offsets), "itemsize": described["size"]}
    )


def unpack(packed: Packed, dtype: np.dtype) -> np.ndarray:
    """The array that was packed, as `dtype` is now: fields that were not there yet are 0."""
    held = np.frombuffer(b85decode(packed["bytes"]), _dtype(packed["type"]))
    if dtype.names is None:
        return held.astype(dtype)
    values = np.zeros(len(held), dtype)
    for name in set(dtype.names) & set(held.dtype.names or ()):
        values[name] = held[name]
    return values


def dump(held: Mapping[str, Any]) -> bytes:
    """The snapshot of what a parser keeps."""
    return zlib.compress(json.dumps({"version": VERSION, **held}).encode(), 1)


def load(blob: bytes) -> dict[str, Any]:
    """What a snapshot holds, one of the version before brought up to date. Raises ValueError for others."""
    held: dict[str, Any] = json.loads(zlib.decompress(blob))
    if held["version"] == 1:
        held = _second(held)
    if held["version"] != VERSION:
        raise ValueError(f"snapshot of a log parser has version {held['version']}, this program reads 1 and {VERSION}")
    report = held["report"]
    held["report"] = report | {name: Counter(report[name]) for name in ("ignored", "shapes")}
    return held


def _second(held: dict[str, Any]) -> dict[str, Any]:
    """Version 1 had bytes of its own types, and the rare lines' state beside the rest."""

    def packed(text: str, dtype: np.dtype) -> Packed:
        return {"type": _described(dtype), "bytes": text}

    known = held["known"] | {
        "state": packed(held["known"]["state"], _FIRST_PLACE),
        "full": packed(held["known"]["full"], np.dtype("u1")),
        "told": packed(held["known"]["told"], _FIRST_TOLD),
    }
    rare = {name: held.pop(name) for name in ("names", "proposed", "partitions", "brokers", "changed")}
    return held | {
        "version": 2,
        "known": known,
        "rare": rare,
        "report": held["report"] | {"shapes": {}},
        "decided": packed(held["decided"], _FIRST_STATE),
        "source": packed(held["source"], _FIRST_SOURCE),
    }
