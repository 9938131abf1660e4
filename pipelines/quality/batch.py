"""A suite of this package with its rows, at most so many, for a context of Great Expectations of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pipelines.errors import UsageError, nearest
from pipelines.lake.changes import since
from pipelines.lake.lake import Lake
from pipelines.lake.table import has_declared
from pipelines.quality.frames import PORTION, New
from pipelines.quality.suites import standard_suites

if TYPE_CHECKING:
    import pandas as pd


def batch(
    lake: str,
    table: str,
    after: int | None = None,
    most_rows: int = PORTION,
    storage_options: Mapping[str, str] | None = None,
) -> tuple[list[dict[str, Any]], pd.DataFrame, int] | None:
    """Return the expectations on a table, the rows that it got after a version (None: all), and its version now.

    None if it got none. Raises UsageError if they are more than `most_rows`: rows left out would be judged by nobody.
    """
    # The quarantined share is one of all events, which `check` alone counts.
    suites = {one.table.path: one for one in standard_suites() if not one.may_be_missing}
    if table not in suites:
        raise UsageError(f"hwmark has no suite on rows of {table!r}; {nearest(table, suites)}")
    suite, place = suites[table], Lake(lake, storage_options or {})
    opened = place.open(suite.table)
    change = since(opened, after, place.storage_options)
    if change is None:
        return None
    if change.rows > most_rows:
        raise UsageError(
            f"{table} has {change.rows:,} new rows, more than most_rows={most_rows:,}: pass a later version, "
            "raise most_rows, or use `hwmark check`, which judges them in pieces"
        )
    new = New(place, suite.table, change, change.rows, has_declared(opened, suite.table.arrow()))
    with new.open_frame(suite.frame, suite.needed_columns, suite.sample) as rows:
        return suite.arguments, rows.connection.sql("FROM judged").df(), change.version_to
