"""`hwmark check`: the suites over what is new in a lake since they last ran."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from pipelines.alerting.conditions import asking, microseconds, moment
from pipelines.alerting.evidence import BROKERS, Evidence
from pipelines.alerting.reading import sources_after
from pipelines.alerting.silence import sources as silences_of
from pipelines.alerting.step import recorded_step
from pipelines.lake.changes import Change, since
from pipelines.lake.file_systems import StorageOptions
from pipelines.lake.lake import Lake, declared
from pipelines.lake.roles import hold
from pipelines.lake.table import has_declared, is_missing_file
from pipelines.quality import frames
from pipelines.quality.frames import New
from pipelines.quality.own_suites import OwnSuite, own_suites
from pipelines.quality.results import CheckSummary, Judged, Result, judged
from pipelines.quality.suites import Limits, Suite, suites
from pipelines.quality.validation import Outcome, Validator, outcome
from pipelines.streaming.reconstruction import reconstruction
from pipelines.streaming.source.unread import bronze_of
from pipelines.streaming.tables import TABLES
from schemas import brokers, quality_results, replication_events

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from pipelines.quality.own_validation import OwnValidator
    from schemas.declaration import Table

_log = logging.getLogger("hwmark.quality")


def check(
    lake: str,
    *,
    now: datetime | None = None,
    quarantine_share: float = 0.001,
    stale_after_s: float = 300,
    storage_options: StorageOptions | None = None,
    on_suite: Callable[[str], None] | None = None,
    own: Mapping[str, str | list[str]] | None = None,
    project: str | None = None,
) -> CheckSummary:
    """Judges every table's new rows and appends the outcomes to `ops/quality_results`.

    `now` is the wall clock (aware); `on_suite` gets, in words, what is judged next. `own`: by table the files of suites
    of Great Expectations to judge, too; `project`: the folder of a project of it that is to keep how these came out.
    Raises RoleHeld while another process checks the lake, UsageError naming what is wrong with a suite.
    """
    of_user = own_suites(own or {})
    with hold(lake, "check", storage_options) as held:
        run = _Run(Lake(lake, storage_options or {}), now or datetime.now(UTC), on_suite or _log.info, project)
        limits = Limits(quarantine_share, stale_after_s)
        results = [result for suite in suites(limits) for result in run.judged(suite, partial(run.judge, suite))]
        results += [result for suite in of_user for result in run.judged(suite, partial(run.judge_own, suite))]
        results += run.gone()
        summary = CheckSummary(run.now, results, run.run_id, run.data_docs())
        held.check()
        run.lake.append(quality_results.TABLE, summary.to_arrow())
    return summary


@dataclass
class _Run:
    """One check: what was judged before, and what is asked for only when there is something to judge."""

    lake: Lake
    now: datetime
    say: Callable[[str], None]
    project: str | None = None
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    _opened: dict[str, DeltaTable | None] = field(default_factory=dict)

    def judged(self, suite: Suite | OwnSuite, judge: Callable[[], Iterator[Result]]) -> list[Result]:
        """The results of a suite, of the table as it is by then where a file of it goes meanwhile, as gold's do."""
        try:
            return list(judge())
        except Exception as error:
            if not is_missing_file(error):
                return self._not_judged(suite, error)
            self._opened.pop(suite.table.path, None)
        try:
            return list(judge())
        except Exception as error:
            return self._not_judged(suite, error)

    def _not_judged(self, suite: Suite | OwnSuite, error: Exception) -> list[Result]:
        """An expectation that raises, or whose table cannot be read, has failed: the next check judges it anew."""
        _log.debug("%s could not be judged", suite.name, exc_info=error)
        why = f"could not be judged: {' '.join(str(error).split())[:300] or type(error).__name__}"
        return [Result(suite.name, e.name, suite.table.path, None, None, False, why) for e in suite.expectations]

    def gone(self) -> Iterator[Result]:
        """Of each table that the job made and that is not there, or cannot be opened, an expectation that failed."""
        for path in (declared(kind) for kind in TABLES) if reconstruction(self.lake).made else ():
            try:
                why = None if self.lake.find(path) is not None else "no such table, though the job made it"
            except Exception as error:
                why = f"cannot be read: {' '.join(str(error).split())[:300]}"
            if why is not None:
                yield Result("lake", "table_is_there", path.path, None, None, False, why)

    def judge(self, suite: Suite) -> Iterator[Result]:
        table = self._open(suite.table)
        if table is None:
            return self._missing(suite, suite.may_be_missing)
        if suite.frame is None and self.reported:
            return self._by_the_clock(suite, table.version())
        change = None if suite.frame is None else self._change(suite, table)
        if change is None or suite.frame is None:
            return self._nothing_new(suite, table.version())
        new = self._new(suite.table, table, change)
        columns = [*(expected.column for expected in suite.expectations), *suite.sample]
        with new.portions(suite.frame, columns) as portions:
            outcomes = self.validator.validate(portions, suite.expectations, suite.sample)
        return (_result(suite, change, outcome, "new row") for outcome in outcomes)

    def judge_own(self, suite: OwnSuite) -> Iterator[Result]:
        """As `judge`, of a suite of the user's own."""
        table = self._open(suite.table)
        if table is None:
            return self._missing(suite)
        change = self._change(suite, table)
        if change is None:
            return self._nothing_new(suite, table.version())
        with self._new(suite.table, table, change).portions(frames.AS_IT_IS, suite.columns) as portions:
            outcomes = self.own_validator.validate(suite, portions, self.run_id)
        return (_result(suite, change, outcome, "new row") for outcome in outcomes)

    def data_docs(self) -> str | None:
        """Where the page is that shows how the user's own suites came out, where a project is to keep it."""
        return self.own_validator.data_docs() if self.project is not None else None

    def _new(self, declared: Table, table: DeltaTable, change: Change) -> New:
        self.say(f"{change.rows:,} new rows of {declared.path}, versions {change.version_from} to {change.version_to}")
        return New(self.lake, declared, change, self.events, has_declared(table, declared.arrow()))

    def _missing(self, suite: Suite | OwnSuite, may_be: bool = False) -> Iterator[Result]:
        observed = "no such table" + ("" if may_be else f": run `hwmark run --lake {self.lake.root}` first")
        for expected in suite.expectations:
            yield Result(suite.name, expected.name, suite.table.path, None, None, may_be, observed)

    def _nothing_new(self, suite: Suite | OwnSuite, version: int) -> Iterator[Result]:
        for expected in suite.expectations:
            observed = f"nothing new, still version {version}"
            yield Result(suite.name, expected.name, suite.table.path, None, version, True, observed)

    def _by_the_clock(self, suite: Suite, version: int) -> Iterator[Result]:
        """A silent source adds no rows, so there are none for a library to judge: each has been silent so long."""
        change = Change(version, version, len(self.reported))
        for expected in suite.expectations:
            known = [row for row in self.reported if row[expected.column] is not None]
            failed = [row for row in known if expected.most is not None and row[expected.column] > expected.most]
            yield _result(suite, change, outcome(expected.name, len(failed), failed), "source")

    def _change(self, suite: Suite | OwnSuite, table: DeltaTable) -> Change | None:
        return since(table, self.before.get((suite.name, suite.table.path)), self.lake.storage_options)

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
    def reported(self) -> list[dict[str, Any]]:
        """Every source: reported_to, and silent_s, None where its cluster was closed after that."""
        seen = sources_after(self.lake, recorded_step(self.lake), bronze_of(self.lake))
        known = self.lake.read(brokers.TABLE, BROKERS)
        found = Evidence.of(reported=seen.reported, closed=seen.closed, brokers=known)
        with asking(found.in_microseconds()) as ask:
            return [_silence(row) for row in silences_of(ask, microseconds(self.now))]

    @cached_property
    def validator(self) -> Validator:
        return Validator()

    @cached_property
    def own_validator(self) -> OwnValidator:
        from pipelines.quality.own_validation import OwnValidator

        return OwnValidator(self.project)

    def _open(self, table: Table) -> DeltaTable | None:
        if table.path not in self._opened:
            self._opened[table.path] = self.lake.find(table)
        return self._opened[table.path]


def _silence(row: Mapping[str, Any]) -> dict[str, Any]:
    """A source of `alerting.silence.sources` as it is judged and shown."""
    return {
        "cluster": row["cluster"],
        "source_id": row["source_id"],
        "reported_to": moment(row["reported_to"]).isoformat(),
        "silent_s": None if row["closed"] else row["silent"] / 1e6,
    }


def _result(suite: Suite | OwnSuite, change: Change, found: Outcome, counted: str) -> Result:
    rows = f"{change.rows:,} {counted}{'' if change.rows == 1 else 's'}"
    which = found.observed or (f"{found.unexpected:,} of" if found.unexpected else "")
    observed = f"{which} {rows}".strip()
    return Result(
        suite.name, found.expectation, suite.table.path, change.version_from, change.version_to, found.success,
        observed, found.unexpected, found.sample,
    )  # fmt: skip
