"""Files of rescued records: Parquet or JSON lines, written whole or not at all, and read again."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.errors import UsageError

SCHEMA = pa.schema(
    [
        *(("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("leader_epoch", pa.int32())),
        *(("timestamp_ms", pa.int64()), ("key", pa.binary()), ("value", pa.binary())),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        *(("producer_id", pa.int64()), ("producer_epoch", pa.int16()), ("sequence", pa.int32())),
        *(("below_hw", pa.bool_()), ("transaction", pa.string()), ("in_survivor", pa.bool_())),
        *(("broker_id", pa.int32()), ("source", pa.string()), ("topic_id", pa.string())),
    ]
)
"""One record. `below_hw`: whether it lies below the high watermark known in its directory, null if that is not known;
`transaction`: committed, aborted, open in what is there, or unknown, null without one; `in_survivor`: whether a
surviving log has it, null if that is not known. `topic_id` tells topics of one name apart."""
ROWS_OF_A_GROUP = 20_000


def write(rows: Iterator[pa.Table], out: Path, inside: Sequence[Path]) -> str:
    """Write records to `out` (.parquet or .jsonl), whole or not at all; returns its SHA-256.

    Raises UsageError for a file that exists, of another kind, or below one of the directories `inside`.
    """
    if out.suffix not in (".parquet", ".jsonl"):
        raise UsageError(f"--out {out}: name a file that ends in .parquet or .jsonl")
    if out.exists():
        raise UsageError(f"--out {out} exists: name a new file")
    if any(out.resolve().is_relative_to(folder.resolve()) for folder in inside):
        raise UsageError(f"--out {out} lies below a log directory: name a file elsewhere")
    part = out.with_name(out.name + ".part")
    try:
        if out.suffix == ".parquet":
            with pq.ParquetWriter(part, SCHEMA, compression="zstd") as writer:
                for table in rows:
                    writer.write_table(table)
        else:
            with open(part, "w") as file:
                file.writelines(json.dumps(row, default=_as_text) + "\n" for table in rows for row in table.to_pylist())
        with open(part, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
        part.rename(out)
    finally:
        part.unlink(missing_ok=True)
    return digest


def _as_text(value: Any) -> str:
    """Bytes of keys and values as base64: they may be anything."""
    return base64.b64encode(value).decode()


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a file that `write` wrote. Raises UsageError for any other."""
    try:
        if path.suffix == ".parquet":
            for group in pq.ParquetFile(path).iter_batches(ROWS_OF_A_GROUP):
                yield from _in_schema(group).to_pylist()
        else:
            with open(path) as file:
                yield from (_from_json(json.loads(line)) for line in file)
    except (pa.ArrowInvalid, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is no file of `hwmark rescue`: {error}") from error


def _in_schema(group: pa.RecordBatch) -> pa.Table:
    """A group of rows in SCHEMA; files of an earlier version have no `topic_id`."""
    table = pa.table(group)
    if "topic_id" not in table.column_names:
        table = table.append_column("topic_id", pa.nulls(len(table), pa.string()))
    return table.cast(SCHEMA)


def _from_json(row: dict[str, Any]) -> dict[str, Any]:
    def bytes_of(text: str | None) -> bytes | None:
        return None if text is None else base64.b64decode(text)

    headers = [{"key": header["key"], "value": bytes_of(header["value"])} for header in row["headers"]]
    return {"topic_id": None, **row, "key": bytes_of(row["key"]), "value": bytes_of(row["value"]), "headers": headers}
