"""The result of the reconstruction: one Arrow table per silver table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa

from schemas import (
    coverage,
    hw_regressions,
    isr_changes,
    minute_stats,
    partition_hw,
    quarantine,
    replica_hw,
    replica_sync,
    telemetry_gaps,
)

SCHEMAS: dict[str, pa.Schema] = {
    "partition_hw": partition_hw.ARROW,
    "isr_changes": isr_changes.ARROW,
    "replica_sync": replica_sync.ARROW,
    "hw_regressions": hw_regressions.ARROW,
    "replica_hw": replica_hw.ARROW,
    "minute_stats": minute_stats.ARROW,
    "telemetry_gaps": telemetry_gaps.ARROW,
    "coverage": coverage.ARROW,
    "quarantine": quarantine.ARROW,
}

EMPTY = {
    name: pa.Table.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
    for name, schema in SCHEMAS.items()
}
"""Each table without rows. To make one of 27 columns takes as long as to reconstruct a thousand events.

`Schema.empty_table` imports pandas, which whoever only looks into a lake should not wait for.
"""


def table(schema: pa.Schema, columns: Mapping[str, Any]) -> pa.Table:
    """The columns of a schema, cast to its types; a cast that changes nothing is left out, as it is not free."""
    made = ((columns[field.name], field.type) for field in schema)
    return pa.table([column if column.type == kind else column.cast(kind) for column, kind in made], schema=schema)


@dataclass(frozen=True)
class Facts:
    """Rows that are now final, per table, in the schemas of `schemas/`."""

    partition_hw: pa.Table
    isr_changes: pa.Table
    replica_sync: pa.Table
    hw_regressions: pa.Table
    replica_hw: pa.Table
    minute_stats: pa.Table
    telemetry_gaps: pa.Table
    coverage: pa.Table
    quarantine: pa.Table

    def tables(self) -> dict[str, pa.Table]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @staticmethod
    def of(**tables: pa.Table) -> Facts:
        """Facts with the named tables and the others empty."""
        return Facts(**{name: tables.get(name, empty) for name, empty in EMPTY.items()})

    @staticmethod
    def concat(parts: Iterable[Facts]) -> Facts:
        """All rows of several Facts, in order."""
        parts = list(parts)
        return Facts.of(**{n: pa.concat_tables([getattr(p, n) for p in parts]) for n in SCHEMAS if parts})
