"""The engine that writes a Delta table: on a local disk there may be only one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.lake.file_systems import local_path

if TYPE_CHECKING:
    from deltalake import DeltaTable

OURS = "delta-rs"
"""The name of deltalake in its commits; Polars and others write through it, too."""
MARK = "hwmark"
"""The key in commitInfo of hwmark's upkeep commits, to tables of any writer."""
UPKEEP = ("OPTIMIZE", "VACUUM START", "VACUUM END", "FSCK")
LOOKED_AT = 100
UNNAMED = "an engine that does not give its name"


class OtherEngineError(RuntimeError):
    """Raised if another engine writes the table: two would replace each other's commits."""


def other_engine(table: DeltaTable) -> str | None:
    """The engine that last added rows to a table on a local disk, if it is not ours; None on an object store.

    On an object store every engine commits by a conditional put. On a disk delta-rs creates a version's file only if
    there is none, while Spark checks first and then renames: each guards against itself only.
    """
    if local_path(table.table_uri) is None:
        return None
    for looked_at in (1, LOOKED_AT):  # every append asks, and the last commit answers in most cases
        for commit in table.history(looked_at):
            if commit.get("operation") not in UPKEEP and MARK not in commit:
                engine = str(commit.get("engineInfo") or commit.get("clientVersion") or UNNAMED)
                return None if engine.startswith(OURS) else engine
    return None


def require_ours(table: DeltaTable, lake: str) -> None:
    """Raise OtherEngineError if another engine writes the table."""
    if (engine := other_engine(table)) is not None:
        raise OtherEngineError(
            f"bronze of lake {lake} is written by {engine}: on a local disk only one engine may write a Delta table, "
            "as two can replace each other's commits; write into another lake, or put this one on an object store"
        )
