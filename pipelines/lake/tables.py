"""The tables that the streaming job writes: where they are, and one commit per table and micro-batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pipelines.lake.bronze import add_files, dataset, with_columns
from pipelines.lake.data_file import CONFIGURATION, Written
from pipelines.lake.delta_log import actions
from pipelines.lake.file_systems import file_system
from pipelines.replication.facts.tables import SCHEMAS
from schemas import tables
from schemas.declaration import Table

if TYPE_CHECKING:
    import pyarrow.dataset as ds
    from deltalake import DeltaTable

KINDS = tuple(SCHEMAS)
"""What the reconstruction emits; each kind is a table of the same name."""
HEALTH = "partition_health"
MINUTES = ("cluster_minute", "broker_minute")
ROLE = "run"
"""Whoever holds it commits to these tables."""


@dataclass(frozen=True)
class Lake:
    """Where a lake is, and what the Rust side needs to get at it."""

    root: str
    storage_options: Mapping[str, str]

    def uri(self, kind: str) -> str:
        return f"{self.root.rstrip('/')}/{declared(kind).path}"

    def open(self, kind: str) -> DeltaTable:
        from deltalake import DeltaTable

        return DeltaTable(self.uri(kind), storage_options=dict(self.storage_options))

    def rows(self, kind: str) -> ds.Dataset:
        """The rows of a table as they are now."""
        return dataset(self.open(kind), storage_options=self.storage_options)

    def path(self, kind: str) -> str:
        """Where a table is below the lake."""
        return declared(kind).path

    def has_table(self, kind: str) -> bool:
        from deltalake import DeltaTable

        return bool(DeltaTable.is_deltatable(self.uri(kind), storage_options=dict(self.storage_options)))

    def table_id(self, kind: str) -> str:
        """The id that a table got when it was made: in its first commit, while the log has that."""
        try:
            first = actions(self.files(kind), 0)
        except FileNotFoundError:
            first = []
        found = next((a["metaData"]["id"] for a in first if "metaData" in a), None)
        return str(self.open(kind).metadata().id if found is None else found)

    def missing_file(self, kind: str, version: int) -> str | None:
        """A file that a version of a table adds and that is not there; None where all are."""
        from pyarrow.fs import FileType

        folder = self.files(kind)
        added = [unquote(a["add"]["path"]) for a in actions(folder, version) if "add" in a]
        return next((f.path for f in folder.get_file_info(added) if f.type != FileType.File), None)

    def files(self, kind: str | None = None) -> Any:
        """A pyarrow file system rooted at a table's folder, or at the lake."""
        return file_system(self.uri(kind) if kind else self.root, self.storage_options)

    def create(self) -> None:
        """Creates every table of the job that does not exist, so that each can be read from the first batch on.

        Those made by an earlier version get the columns that they lack.
        """
        from deltalake import DeltaTable

        for kind in (*KINDS, HEALTH, *MINUTES):
            uri, options = self.uri(kind), dict(self.storage_options)
            schema = declared(kind).arrow()
            if self.has_table(kind):
                with_columns(self.open(kind), schema)
            else:
                DeltaTable.create(uri, schema, mode="ignore", configuration=CONFIGURATION, storage_options=options)


def declared(kind: str) -> Table:
    """The declaration of a table by its name."""
    return tables()[kind]


def commit(
    lake: Lake, kind: str, files: Sequence[Written], query_id: str, batch_id: int, *, overwrite: bool = False
) -> bool:
    """One commit of a micro-batch's files to one table; False where the table has that batch already.

    Delta records the transaction and does not refuse an old one: whether it is there is asked here.
    """
    table = lake.open(kind)
    if has_batch(table, query_id, batch_id):
        return False
    add_files(table, files, declared(kind).arrow(), {query_id: batch_id}, "overwrite" if overwrite else "append")
    return True


def has_batch(table: DeltaTable, query_id: str, batch_id: int) -> bool:
    """Whether a table holds this batch of this query."""
    last = table.transaction_version(query_id)
    return last is not None and last >= batch_id
