"""`hwmark check`: the suites over what is new in a lake since they last ran."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from pipelines.alerting.conditions import asking, microseconds
from pipelines.alerting.evidence import Evidence
from pipelines.alerting.reading import sources
from pipelines.alerting.silence import sources as silences_of
from pipelines.lake.file_systems import StorageOptions
from pipelines.lake.lake import Lake
from pipelines.lake.roles import hold
from pipelines.quality import frames
from pipelines.quality.changes import Change, is_as_declared, since
from pipelines.quality.results import CheckSummary, Judged, Result, judged
from pipelines.quality.suites import Limits, Suite, suites
from pipelines.quality.validation import Outcome, Validator
from schemas import quality_results, replication_events

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

    from schemas.declaration import Table

_log = logging.getLogger("hwmark.quality")


def check(
    lake: str,
    *,
    now: datetime | None = None,
    spark: SparkSession | Callable[[], SparkSession] | None = None,
    quarantine_share: float = 0.001,
    stale_after_s: float = 300,
    storage_options: StorageOptions | None = None,
) -> CheckSummary:
    """Judges every table's new rows and appends the outcomes to `ops/quality_results`.

    `now` is the wall clock (aware). `spark` is a session, or starts one when there is something to judge; by
    default the streaming job's. Raises RoleHeld while another process checks the lake.
    """
    with hold(lake, "check", storage_options) as held:
        run = _Run(Lake(lake, storage_options or {}), now or datetime.now(UTC), spark)
        limits = Limits(quarantine_share, stale_after_s)
        results = [result for suite in suites(limits) for result in run.judge(suite)]
        summary = CheckSummary(run.now, results)
        held.check()
        run.lake.append(quality_results.TABLE, summary.to_arrow())
    return summary


@dataclass
class _Run:
    """One check: what was judged before, and what is started only when there is something to judge."""

    lake: Lake
    now: datetime
    given: SparkSession | Callable[[], SparkSession] | None
    _opened: dict[str, DeltaTable | None] = field(default_factory=dict)

    def judge(self, suite: Suite) -> Iterator[Result]:
        table = self._open(suite.table)
        if table is None:
            return self._missing(suite)
        change = self._change(suite, table)
        if change is None:
            return self._nothing_new(suite, table.version())
        _log.info("judging %s, versions %d to %d", suite.table.path, change.version_from, change.version_to)
        outcomes = self.validator.validate(suite.prepare(self._new(suite, change)), suite.expectations, suite.sample)
        return (_result(suite, change, outcome) for outcome in outcomes)

    def _missing(self, suite: Suite) -> Iterator[Result]:
        observed = "no such table" + (
            "" if suite.may_be_missing else f": run `hwmark run --lake {self.lake.root}` first"
        )
        for expected in suite.expectations:
            yield Result(suite.name, expected.name, suite.table.path, None, None, suite.may_be_missing, observed)

    def _nothing_new(self, suite: Suite, version: int) -> Iterator[Result]:
        for expected in suite.expectations:
            observed = f"nothing new, still version {version}"
            yield Result(suite.name, expected.name, suite.table.path, None, version, True, observed)

    def _change(self, suite: Suite, table: DeltaTable) -> Change | None:
        """A silent source is one that adds nothing: sources are judged whether there is something new or not."""
        if suite.prepare is frames.sources:
            return Change(table.version(), table.version(), len(self.silent)) if len(self.silent) else None
        return since(table, self.before.get((suite.name, suite.table.path)), self.lake.storage_options)

    def _new(self, suite: Suite, change: Change) -> frames.New:
        table = self._open(suite.table)
        as_declared = table is not None and is_as_declared(table, suite.table)
        return frames.New(self.spark, self.lake, suite.table, change, self.events, self.silent, as_declared)

    @cached_property
    def before(self) -> Judged:
        return judged(self.lake.read(quality_results.TABLE, quality_results.ARROW))

    @cached_property
    def events(self) -> int:
        """Events that quarantined rows are measured by: the new ones, or all where none came since."""
        table = self._open(replication_events.TABLE)
        if table is None:
            return 0
        before, options = self.before.get(("bronze", replication_events.TABLE.path)), self.lake.storage_options
        change = since(table, before, options) or since(table, None, options)
        return change.rows if change else 0

    @cached_property
    def silent(self) -> pa.Table:
        reported, closed = sources(self.lake)
        with asking(Evidence.of(reported=reported, closed=closed).in_microseconds()) as ask:
            return frames.silences(silences_of(ask, microseconds(self.now)))

    @cached_property
    def spark(self) -> SparkSession:
        from pipelines.streaming.session import session

        given = self.given
        if given is None:
            return session()
        return given() if callable(given) else given

    @cached_property
    def validator(self) -> Validator:
        # The library takes the session that is there: it must be ours.
        assert self.spark is not None
        return Validator()

    def _open(self, table: Table) -> DeltaTable | None:
        if table.path not in self._opened:
            self._opened[table.path] = self.lake.find(table)
        return self._opened[table.path]


def _result(suite: Suite, change: Change, outcome: Outcome) -> Result:
    rows = f"{change.rows:,} {suite.counted}{'' if change.rows == 1 else 's'}"
    observed = rows if outcome.success else f"{outcome.unexpected:,} of {rows}"
    return Result(
        suite.name, outcome.expectation, suite.table.path, change.version_from, change.version_to, outcome.success,
        observed, outcome.unexpected, outcome.sample,
    )  # fmt: skip
