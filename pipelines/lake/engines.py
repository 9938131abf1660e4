"""Which engine writes a Delta table: on a local disk there may be one only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.lake.file_systems import local_path

if TYPE_CHECKING:
    from deltalake import DeltaTable

OURS = "delta-rs"
"""How deltalake, through which Polars and others write, too, names itself in its commits."""
MARK = "hwmark"
"""The key in commitInfo of commits that hwmark makes in upkeep, whoever writes the table."""
UPKEEP = ("OPTIMIZE", "VACUUM START", "VACUUM END", "FSCK")
LOOKED_AT = 100
UNNAMED = "an engine that does not give its name"


class OtherEngineError(RuntimeError):
    """Another engine writes the table, and two would replace each other's commits."""


def other_engine(table: DeltaTable) -> str | None:
    """The engine that added rows to a table on a local disk last, where that is not ours; None on an object store.

    There every engine commits by a conditional put. On a disk delta-rs makes a version's file where
    there is none, while Spark asks first and then renames: each guards against itself only.
    """
    if local_path(table.table_uri) is None:
        return None
    for looked_at in (1, LOOKED_AT):  # every append asks, and the last commit mostly answers
        for commit in table.history(looked_at):
            if commit.get("operation") not in UPKEEP and MARK not in commit:
                engine = str(commit.get("engineInfo") or commit.get("clientVersion") or UNNAMED)
                return None if engine.startswith(OURS) else engine
    return None


def require_ours(table: DeltaTable, lake: str) -> None:
    """Raises OtherEngineError where another engine writes the table."""
    if (engine := other_engine(table)) is not None:
        raise OtherEngineError(
            f"bronze of lake {lake} is written by {engine}: on a local disk only one engine may write a Delta table, "
            "as two can replace each other's commits; write into another lake, or put this one on an object store"
        )
