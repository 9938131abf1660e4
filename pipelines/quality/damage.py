"""Tables of a lake that are missing or were made anew, and damaged records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from pipelines.alerting.step import last_step
from pipelines.lake.lake import Lake, declared
from pipelines.lake.queries import microseconds, moment
from pipelines.lake.records import damaged_records
from pipelines.quality.results import Result
from pipelines.quality.validation import one_line
from pipelines.streaming.checkpoint.offsets import FOLDER, INTERVAL, interval
from pipelines.streaming.tables import CHANGES, TABLES
from pipelines.verdict.judged import restore
from pipelines.verdict.words import clock

if TYPE_CHECKING:
    import pyarrow as pa


def damage(lake: Lake, results: pa.Table, *, made: bool) -> Iterator[Result]:
    """Yield a failed expectation for each table that is missing, whole or in part, or was made anew since, and for each
    damaged record.

    Tables are those that an evaluation of alerts has seen, and where the job `made` its own, those and what it has
    read. `results`: what earlier checks found.
    """
    step = last_step(lake)
    of_job = [name for name in TABLES if name != CHANGES]  # which the next run makes where an earlier version was
    for table in map(declared, (*(("replication_events", *of_job) if made else ()), *step.ops)):
        path = table.path
        try:
            why = lake.missing_files(table) if lake.has_table(table) else "is missing"
        except Exception as error:
            why = f"cannot be read: {one_line(error)}"
        if why is not None:
            yield Result("lake", "table_is_there", path, None, None, False, restore(f"{path} {why}"))
        elif (at := step.missing.get(path)) is not None and not _is_said_to_be_missing(path, at, results):
            words = f"{path} was missing at {clock(moment(at))} and was made anew: what it held is gone"
            yield Result("lake", "table_is_there", path, None, None, False, words, judged=str(at))
    interval(lake)  # the others were read by now
    for path, reason in sorted(damaged_records(lake).items()):
        words = f"{path} is damaged ({reason})"
        anew = path == INTERVAL or not path.startswith(f"{FOLDER}/")
        words = f"{words}: who writes it does so anew" if anew else restore(words)
        yield Result("lake", "record_is_whole", path, None, None, False, words)


def _is_said_to_be_missing(path: str, at: int, results: pa.Table) -> bool:
    """Return True if an earlier check said that a table was missing at a moment (microseconds), or is since."""
    rows = results.filter((pc.field("table") == path) & (pc.field("expectation") == "table_is_there"))
    return any(row["judged"] == str(at) or microseconds(row["run_ts"]) >= at for row in rows.to_pylist())
