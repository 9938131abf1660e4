"""A table declared once, as data; Arrow schema, Spark schema and words all come from it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_ARROW: dict[str, pa.DataType] = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "array<int>": pa.list_(pa.int32()),
    "array<bigint>": pa.list_(pa.int64()),
    "array<string>": pa.list_(pa.string()),
    "map<string,bigint>": pa.map_(pa.string(), pa.int64()),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    "array<struct<since:timestamp,replicas:array<int>>>": pa.list_(
        pa.struct([("since", pa.timestamp("us", tz="UTC")), ("replicas", pa.list_(pa.int32()))])
    ),
    "array<struct<source_id:string,source_epoch:int,source_seq:bigint>>": pa.list_(
        pa.struct([("source_id", pa.string()), ("source_epoch", pa.int32()), ("source_seq", pa.int64())])
    ),
}


@dataclass(frozen=True)
class Column:
    """One column: its name, its SQL type, what it means, and whether null (unknown) is allowed."""

    name: str
    type: str
    words: str
    null: bool = True


@dataclass(frozen=True)
class Table:
    """One Delta table of a lake, addressed by its path below the lake's root.

    No two rows have the same values in `key`; a table without one has rows that may be equal.
    """

    path: str
    words: str
    columns: Sequence[Column]
    key: Sequence[str] = ()

    def describe(self) -> str:
        """The table in words: its path and meaning, then a line per column."""
        name, kind = (max(len(getattr(c, part)) for c in self.columns) for part in ("name", "type"))
        lines = (
            f"  {c.name:{name}}  {c.type:{kind}}  {'null' if c.null else '    '}  {c.words}".rstrip()
            for c in self.columns
        )
        key = [f"  key: {', '.join(self.key)}"] if self.key else []
        return "\n".join([f"{self.path}: {self.words}", *lines, *key])

    def as_data(self) -> dict[str, Any]:
        """The table for programs: path, meaning, and its columns with their SQL types."""
        columns = [{"name": c.name, "type": c.type, "nullable": c.null, "description": c.words} for c in self.columns]
        return {"path": self.path, "description": self.words, "columns": columns, "key": list(self.key)}

    def ddl(self, location: str | None = None, database: str | None = None) -> str:
        """Spark SQL that makes the table; or, with `location`, names the one that is there in a catalog.

        That one brings its columns along: Spark refuses a statement that gives them comments of its own.
        """
        columns = ",\n".join(
            f"  {c.name} {_sql_type(c.type)}{'' if c.null else ' NOT NULL'} COMMENT {_text(c.words)}"
            for c in self.columns
        )
        made = f"(\n{columns}\n)\nUSING DELTA" if location is None else f"USING DELTA\nLOCATION {_text(location)}"
        name = ".".join([*([quoted(database)] if database else []), self.path.rpartition("/")[2]])
        return f"CREATE TABLE IF NOT EXISTS {name} {made}\nCOMMENT {_text(self.words)};"

    def arrow(self) -> pa.Schema:
        return pa.schema([pa.field(c.name, _ARROW[c.type], nullable=c.null) for c in self.columns])

    def with_comments(self) -> pa.Schema:
        """The Arrow schema with the meaning of each column, as Delta keeps it."""
        return pa.schema(
            [field.with_metadata({"comment": c.words}) for field, c in zip(self.arrow(), self.columns, strict=True)]
        )

    def spark(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(self.arrow())


def _sql_type(name: str) -> str:
    """A type in capitals, the names of its fields as they are."""
    return re.sub(r"\w+(?!\w*:)", lambda word: word[0].upper(), name)


def quoted(name: str) -> str:
    """A name of Spark's SQL, with or without a catalog before it."""
    parts = (
        part if re.fullmatch(r"[A-Za-z_]\w*", part) else f"`{part.replace('`', '``')}`" for part in name.split(".")
    )
    return ".".join(parts)


def _text(words: str) -> str:
    """A string of Spark's SQL."""
    return "'" + words.replace("\\", "\\\\").replace("'", "\\'") + "'"
