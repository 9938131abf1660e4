"""Delta features and properties that a commit of hwmark would break: such a table is refused with their names."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from pipelines.errors import UsageError

if TYPE_CHECKING:
    from deltalake import DeltaTable

REMOVES = {"delta.appendOnly"}
"""Properties that a commit with removed files breaks."""
REWRITES = {*REMOVES, "delta.enableChangeDataFeed"}
"""Properties that a rewriting commit breaks: it writes no change data."""
KEPT = {
    "appendOnly", "changeDataFeed", "checkConstraints", "generatedColumns", "invariants", "timestampNtz",
    "v2Checkpoint", "variantType",
}  # fmt: skip
"""Delta features that deltalake writes; their demands on a commit are in properties or columns."""
CHECKED = "delta.constraints."
"""The prefix of properties that are CHECK constraints."""


def require_writable(table: DeltaTable, broken: Collection[str] = REWRITES) -> DeltaTable:
    """Return the table. Raises UsageError with a feature that deltalake cannot write or our commits would break.

    `broken` are the properties that the commit breaks.
    """
    for what, way_out in _obligations(table, broken):
        raise UsageError(
            f"{table.table_uri} has {what}: drop it where it was set ({way_out}), or have hwmark write into another "
            "lake"
        )
    return table


def _obligations(table: DeltaTable, broken: Collection[str]) -> Iterator[tuple[str, str]]:
    """The features and properties that our commits would break, each with its remedy."""
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
