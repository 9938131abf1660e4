"""Tables and JSON as bytes that depend on their values alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.facts.tables import Facts

Output: TypeAlias = tuple[str, bytes]
"""A name, and what must stay."""


def canonical(table: pa.Table) -> bytes:
    """Names, types and values of a table in the order of its rows, whatever its chunks, buffers and nulls hold."""
    fields = [[field.name, str(field.type), field.nullable] for field in table.schema]
    parts = [json.dumps([fields, table.num_rows]).encode()]
    for column in table.columns:
        parts += _values(column.combine_chunks())
    return framed(parts)


def _values(array: Any) -> list[bytes]:
    """Which values are null, and the others."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _values(array.dictionary_decode())
    there = np.packbits(np.asarray(array.is_valid())).tobytes()
    values = array.drop_null()
    if pa.types.is_list(kind):
        return [there, pc.list_value_length(values).to_numpy().tobytes(), *_values(values.flatten())]
    if pa.types.is_struct(kind) and len(values):
        return [there, *(part for child in values.flatten() for part in _values(child))]
    if pa.types.is_map(kind):
        return [there, json.dumps(values.to_pylist()).encode()]
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        lengths = pc.binary_length(values).to_numpy().astype(np.int64)
        return [there, lengths.tobytes(), b"".join(values.cast(pa.binary()).to_pylist())]
    if pa.types.is_timestamp(kind):
        values = values.cast(pa.int64())
    return [there, values.to_numpy(zero_copy_only=False).tobytes()]


def framed(parts: Sequence[bytes]) -> bytes:
    """Several pieces as one, each with its length."""
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def of_facts(place: str, facts: Facts) -> Iterator[Output]:
    """The tables that have rows."""
    yield from ((f"{place}/{name}", canonical(table)) for name, table in facts.tables().items() if table.num_rows)
