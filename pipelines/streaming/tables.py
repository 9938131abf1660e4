"""The tables that the streaming job writes, and one commit per table and micro-batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipelines.lake.data_file import Written
from pipelines.lake.lake import Lake, declared
from pipelines.lake.table import add_files
from pipelines.replication.facts.tables import SCHEMAS

if TYPE_CHECKING:
    from deltalake import DeltaTable

KINDS = tuple(SCHEMAS)
"""What the reconstruction emits; each kind is a table of the same name."""
HEALTH = "partition_health"
MINUTES = ("cluster_minute", "broker_minute")
ROLE = "run"
"""Whoever holds it commits to these tables."""


def create_tables(lake: Lake) -> None:
    """Creates every table of the job that does not exist, so that each can be read from the first batch on.

    Those made by an earlier version get the columns that they lack.
    """
    for kind in (*KINDS, HEALTH, *MINUTES):
        lake.create_with_columns(kind)


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
