"""What of a Delta table a commit of hwmark would break: such a table is refused by name."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from pipelines.errors import UsageError

if TYPE_CHECKING:
    from deltalake import DeltaTable

REMOVES = {"delta.appendOnly"}
"""Properties that a commit breaks which takes files away."""
REWRITES = {*REMOVES, "delta.enableChangeDataFeed"}
"""Those that one breaks which puts some of their rows into others: it writes no record of what changed."""
KEPT = {
    "appendOnly", "changeDataFeed", "checkConstraints", "generatedColumns", "invariants", "timestampNtz",
    "v2Checkpoint", "variantType",
}  # fmt: skip
"""Features of Delta that deltalake writes; what they ask of a commit stands in properties or columns."""
CHECKED = "delta.constraints."
"""The beginning of the properties that are CHECK constraints."""


def require_writable(table: DeltaTable, broken: Collection[str] = REWRITES) -> DeltaTable:
    """The table. Raises UsageError naming what of it deltalake cannot write, or our commits do not ask or keep, as
    properties in `broken`."""
    for what, way_out in _obligations(table, broken):
        raise UsageError(
            f"{table.table_uri} has {what}: drop it where it was set ({way_out}), or have hwmark write into another "
            "lake"
        )
    return table


def _obligations(table: DeltaTable, broken: Collection[str]) -> Iterator[tuple[str, str]]:
    """What no commit of ours keeps, and how it goes."""
    properties, protocol, schema = table.metadata().configuration, table.protocol(), table.schema().to_json()
    for name in properties:
        if name.startswith(CHECKED):
            rule = name.removeprefix(CHECKED)
            unasked = f"the CHECK constraint {rule}, which hwmark does not ask before it writes"
            yield unasked, f"ALTER TABLE ... DROP CONSTRAINT {rule}"
    for name in ("delta.invariants", "delta.generationExpression"):
        if f'"{name}"' in schema:
            yield f"{name} of a column, which hwmark does not ask before it writes", "in a table made anew"
    for name in sorted(broken):
        if properties.get(name, "").lower() == "true":  # Delta takes either case
            unkept = f"{name} as a property, which a commit that takes rows away does not keep"
            yield unkept, f"ALTER TABLE ... UNSET TBLPROPERTIES ({name})"
    features = set(protocol.writer_features or ())
    if protocol.min_writer_version == 6:
        features.add("identityColumns")
    if properties.get("delta.columnMapping.mode", "none").lower() != "none":
        features.add("columnMapping")
    for name in sorted(features - KEPT):
        yield f"{name}, which deltalake cannot write", f"ALTER TABLE ... DROP FEATURE {name}"
