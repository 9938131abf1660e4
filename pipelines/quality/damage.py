"""Tables of a lake that are missing or were made anew, and damaged records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from pipelines.alerting.step import last_step
from pipelines.lake.lake import Lake
from pipelines.lake.records import damaged_records
from pipelines.quality.results import Result
from pipelines.quality.validation import one_line
from pipelines.streaming.checkpoint.offsets import FOLDER, INTERVAL, interval
from pipelines.streaming.tables import CHANGES, TABLES, TIMELINE
from pipelines.verdict.judged import restore

if TYPE_CHECKING:
    import pyarrow as pa


def damage(lake: Lake, results: pa.Table, *, made: bool) -> Iterator[Result]:
    """Yield a failed expectation for each table that is missing, whole or in part, or was made anew since, and for each
    damaged record.

    Tables are those that an evaluation of alerts has seen, and where the job `made` its own, those and what it has
    read. `results`: what earlier checks found.
    """
    step = last_step(lake)
    of_job = [name for name in TABLES if name not in (CHANGES, TIMELINE)]  # which the next run makes if they lack
    said = {*results.filter(pc.field("expectation") == "table_is_there")["judged"].to_pylist()}
    for name in (*(("replication_events", *of_job) if made else ()), *step.tables):
        path, was = lake.path(name), step.tables.get(name)
        try:
            there = lake.has_table(name)
            why = lake.missing_files(name) if there else "is missing"
            gone = was if was and there and lake.table_id(name) != was else step.gone.get(name)
        except Exception as error:
            there, why = True, f"cannot be read: {one_line(error)}"
        if why is not None:
            words, what = restore(f"{path} {why}"), None if there else was
            yield Result("lake", "table_is_there", path, None, None, False, words, judged=what)
        elif gone is not None and gone not in said:
            words = f"{path} was made anew: what it held is gone"
            yield Result("lake", "table_is_there", path, None, None, False, words, judged=gone)
    interval(lake)  # the others were read by now
    for path, reason in sorted(damaged_records(lake).items()):
        words = f"{path} is damaged ({reason})"
        anew = path == INTERVAL or not path.startswith(f"{FOLDER}/")
        words = f"{words}: nothing to do, its writer makes it anew" if anew else restore(words)
        yield Result("lake", "record_is_whole", path, None, None, False, words)
