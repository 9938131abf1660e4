"""Snapshots of a parser's state as bytes, with readers of the versions before."""

from __future__ import annotations

import json
import zlib
from base64 import b85decode, b85encode
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

VERSION = 3
PackedArray = Mapping[str, Any]
"""An array as a JSON value: `type` as numpy describes it, `bytes` in base85."""

_STATE_1 = np.dtype(
    [("level", "i1"), ("full", "i1"), ("broken", "i1"), ("opened", "i8"), ("number", "i8"), ("ts", "i8")], align=True
)
_SOURCE_1 = np.dtype([("recorded", "i8"), ("lean", "i1"), ("broker", "i4")], align=True)
_PARTITION_1 = np.dtype(
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
_LEO_1 = np.dtype([("replica", "i4"), ("leo", "i8"), ("ts", "i8")], align=True)


def pack(values: np.ndarray) -> PackedArray:
    """A one-dimensional array as a JSON value."""
    kept = np.ascontiguousarray(values)
    return {"type": _describe(kept.dtype), "bytes": b85encode(kept.tobytes()).decode()}


def _describe(dtype: np.dtype) -> Any:
    """A dtype as names, formats and offsets, without the padding between fields; `_dtype` reads it."""
    if dtype.fields is None:
        return dtype.str
    fields = [(name, of.str, offset) for name, (of, offset, *_) in dtype.fields.items()]
    return {"fields": fields, "size": dtype.itemsize}


def _dtype(description: Any) -> np.dtype:
    if isinstance(description, str):
        return np.dtype(description)
    names, formats, offsets = zip(*description["fields"], strict=True)
    return np.dtype(
        {"names": list(names), "formats": list(formats), "offsets": list(offsets), "itemsize": description["size"]}
    )


def unpack(packed: PackedArray, dtype: np.dtype) -> np.ndarray:
    """The packed array in the current `dtype`; fields that it did not have are 0."""
    stored = np.frombuffer(b85decode(packed["bytes"]), _dtype(packed["type"]))
    if dtype.names is None:
        return stored.astype(dtype)
    values = np.zeros(len(stored), dtype)
    for name in set(dtype.names) & set(stored.dtype.names or ()):
        values[name] = stored[name]
    return values


def dump(stored: Mapping[str, Any]) -> bytes:
    """The state of a parser as bytes."""
    return zlib.compress(json.dumps({"version": VERSION, **stored}).encode(), 1)


def load(blob: bytes) -> dict[str, Any]:
    """The state in a snapshot, one of version 1 or 2 converted. Raises ValueError for versions that are not known."""
    stored: dict[str, Any] = json.loads(zlib.decompress(blob))
    if stored["version"] == 1:
        stored = _upgrade_from_1(stored)
    if stored["version"] == 2:
        stored = _upgrade_from_2(stored)
    if stored["version"] != VERSION:
        raise ValueError(f"snapshot of a log parser has version {stored['version']}, this program reads 1 to {VERSION}")
    report = stored["report"]
    stored["report"] = report | {name: Counter(report[name]) for name in ("ignored", "shapes")}
    return stored


def _upgrade_from_1(stored: dict[str, Any]) -> dict[str, Any]:
    """Version 1 stored arrays without their types, and the state of the rare lines among the rest."""

    def packed(text: str, dtype: np.dtype) -> PackedArray:
        return {"type": _describe(dtype), "bytes": text}

    known = stored["known"] | {
        "state": packed(stored["known"]["state"], _PARTITION_1),
        "full": packed(stored["known"]["full"], np.dtype("u1")),
        "told": packed(stored["known"]["told"], _LEO_1),
    }
    rare = {name: stored.pop(name) for name in ("names", "proposed", "partitions", "brokers", "changed")}
    return stored | {
        "version": 2,
        "known": known,
        "rare": rare,
        "report": stored["report"] | {"shapes": {}},
        "decided": packed(stored["decided"], _STATE_1),
        "source": packed(stored["source"], _SOURCE_1),
    }


def _upgrade_from_2(stored: dict[str, Any]) -> dict[str, Any]:
    """Version 2 had other names."""
    known, rare = dict(stored.pop("known")), dict(stored["rare"])
    return stored | {
        "version": 3,
        "low_watermark": stored.pop("told"),
        "partitions": known | {"leos": known.pop("told"), "has_leo": known.pop("full")},
        "rare": rare | {"reported_at": rare.pop("told", {})},
    }
