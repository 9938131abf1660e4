"""The tables that the streaming job writes, and one commit per table and micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from pipelines.lake.data_file import Written
from pipelines.lake.lake import Lake
from pipelines.lake.table import Mode, add_files, committing
from pipelines.replication.facts.tables import SCHEMAS

if TYPE_CHECKING:
    from deltalake import DeltaTable

KINDS = tuple(SCHEMAS)
"""What the reconstruction emits; each kind is a table of the same name."""
HEALTH = "partition_health"
MINUTES = ("cluster_minute", "broker_minute")
BROKERS = "brokers"
LAGS = ("broker_lag", "replica_lag")
"""With BROKERS what is written whenever HEALTH is, of what each bucket knows a share."""
CHANGES = "partition_changes"
"""What changed of HEALTH, which is written with it."""
TIMELINE = "timeline"
"""The lines of what happened, which `Upkeep` writes."""
REWRITTEN = (HEALTH, BROKERS, *MINUTES, TIMELINE)
"""Tables whose rows the job replaces again and again: their dead files and their log are kept for minutes only."""
WHOLE = (HEALTH, BROKERS)
"""Of these the ones of which a commit replaces every row: there is nothing to compact."""
GOLD_RETENTION_S = 900.0
LOG_RETENTION_S = 86_400.0
LOG_FACTOR = 4
TABLES = (*KINDS, HEALTH, *MINUTES, BROKERS, *LAGS, CHANGES, TIMELINE)
TABLES_AT_ONCE = 8
"""Tables that are made or committed to at a time: most of it is waiting for the disk or the object store."""
ROLE = "run"
"""Whoever holds it commits to these tables."""


def create_tables(lake: Lake, retention_s: float = GOLD_RETENTION_S, log_s: float = LOG_RETENTION_S) -> None:
    """Create every table of the job that does not exist, so that each can be read from the first batch on.

    Those made by an earlier version get the columns that they lack. `retention_s`: seconds for which a file of the
    REWRITTEN tables is kept after the version that replaced it; `log_s`: for which the other tables' log is kept. Each
    commit and each reader lists the log: one of a week, with a commit every ten seconds, takes them seconds.
    """
    log = {"delta.logRetentionDuration": f"interval {round(log_s)} seconds"}
    rewritten = kept_briefly(retention_s)
    at_once(partial(lake.create_with_columns, kind, rewritten if kind in REWRITTEN else log) for kind in TABLES)


def at_once(steps: Iterable[Callable[[], object]]) -> None:
    """Take steps about different tables, several at a time. Raises an error of theirs, once all begun have ended."""
    with ThreadPoolExecutor(TABLES_AT_ONCE) as pool:
        for _ in pool.map(lambda step: step(), steps):
            pass


def kept_briefly(retention_s: float) -> dict[str, str]:
    """Delta's properties of a table that is rewritten every few seconds.

    Its log is longer than its files are kept: every version that can be read can be found, and what was removed when
    is known to who removes files.
    """
    seconds = round(retention_s)
    return {
        "delta.deletedFileRetentionDuration": f"interval {seconds} seconds",
        "delta.logRetentionDuration": f"interval {LOG_FACTOR * seconds} seconds",
    }


def commit(
    lake: Lake,
    kind: str,
    files: Sequence[Written],
    query_id: str,
    batch_id: int,
    *,
    overwrite: bool = False,
    anew: bool = False,
) -> bool:
    """One commit of a micro-batch's files to one table, or to one made `anew`; False where it has that batch already.

    Delta records the transaction and does not refuse an old one: whether it is there is asked here.
    """
    if has_batch(lake.open(kind), query_id, batch_id):
        return False
    mode: Mode = "overwrite" if overwrite else "append"
    if anew:
        committing(lambda: lake.replace(kind))
    committing(lambda: add_files(lake.open(kind), files, {query_id: batch_id}, mode))
    return True


def has_batch(table: DeltaTable, query_id: str, batch_id: int) -> bool:
    """Whether a table holds this batch of this query."""
    last = table.transaction_version(query_id)
    return last is not None and last >= batch_id
