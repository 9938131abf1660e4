"""Snapshots of a parser's state as bytes."""

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
    """The state in a snapshot. Raises ValueError for another version."""
    stored: dict[str, Any] = json.loads(zlib.decompress(blob))
    if stored["version"] != VERSION:
        raise ValueError(
            f"the state of a log parser has version {stored['version']}, and this hwmark reads {VERSION}: remove its "
            "source's folder below _ingest of the lake, and its logs are read anew, as another incarnation of it"
        )
    report = stored["report"]
    stored["report"] = report | {name: Counter(report[name]) for name in ("ignored", "shapes")}
    return stored
