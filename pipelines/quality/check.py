"""`hwmark check`: the suites over what is new in a lake since they last ran."""

from __future__ import annotations

import json
import logging
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pipelines.alerting.lookup import read_states
from pipelines.alerting.outbox import NEVER, handled_sources
from pipelines.lake.changes import Change, since
from pipelines.lake.file_systems import StorageOptions
from pipelines.lake.lake import Lake
from pipelines.lake.queries import presents
from pipelines.lake.roles import hold
from pipelines.lake.table import has_declared, is_missing_file, open_table
from pipelines.quality.damage import damage
from pipelines.quality.frames import New
from pipelines.quality.results import BY_CLOCK, CheckSummary, Judged, Result, is_told, judged_versions, last_run_at
from pipelines.quality.suites import Expectation, Suite, own_suites, standard_suites
from pipelines.quality.validation import SAMPLES, Library, error_of, one_line
from pipelines.streaming.checkpoint.offsets import committed_offset
from pipelines.streaming.reconstruction import reconstruction
from pipelines.streaming.source.bronze_log import last_version_read
from pipelines.streaming.source.unread import bronze_of
from pipelines.verdict.judged import restore
from pipelines.verdict.sources import reports
from schemas import quality_results, replication_events

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

    from schemas.declaration import Table

_log = logging.getLogger("hwmark.quality")
SOURCES = Suite(BY_CLOCK, replication_events.TABLE, "", (Expectation("sources_fresh", "", {}, {}),))
"""Judged by the clock."""
WAIT_S = 30
"""For so long a check waits for another one, as two that cron starts at one moment do."""


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
    """Judge what is new of every table and append the outcomes to `ops/quality_results`.

    `now` is the wall clock (aware); `on_suite` gets, in words, what is judged next. `own`: by table the files of suites
    of Great Expectations to judge, too; `project`: the folder of a project of it that is to keep how these came out.
    Raises RoleHeld if another process checks the lake for longer than WAIT_S, UsageError naming what is wrong with a
    suite.
    """
    of_user = own_suites(own or {})
    with hold(lake, "check", storage_options, wait_s=WAIT_S) as held:
        ours, theirs = Library(), Library(project)
        place, say = Lake(lake, storage_options or {}), on_suite or _log.info
        run = _Run(place, now or datetime.now(UTC), say, quarantine_share, stale_after_s)
        last = last_run_at(run.results)
        run_ts = run.now if last is None else max(run.now, last + timedelta(microseconds=1))
        results = [result for suite in (*standard_suites(), SOURCES) for result in run.judge(suite, ours)]
        results += [result for suite in of_user for result in run.judge(suite, theirs)]
        results += damage(run.lake, run.results, made=run.has_reconstruction)
        summary = CheckSummary(run_ts, results, run.run_id, theirs.data_docs)
        held.check()
        try:
            run.lake.append(quality_results.TABLE, summary.to_arrow())
        except Exception as error:  # a full disk, which is no reason to tell nothing
            return replace(summary, unwritten=error)
    return summary


@dataclass
class _Run:
    """One check: what was judged before, and what is asked for only when there is something to judge."""

    lake: Lake
    now: datetime
    say: Callable[[str], None]
    quarantine_share: float
    stale_after_s: float
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    _opened: dict[str, DeltaTable | None] = field(default_factory=dict)
    _ids: dict[str, str] = field(default_factory=dict)
    _commits: dict[tuple[str, int], str | None] = field(default_factory=dict)

    def judge(self, suite: Suite, library: Library, *, again: bool = True) -> list[Result]:
        """The results of a suite, of the table as it is by then if a file of it goes meanwhile, as gold's do."""
        try:
            what = {expected.name: expected for expected in suite.expectations}
            return [
                result
                if result.version_to is None
                else replace(result, judged=self._what(suite, what[result.expectation], result.version_to))
                for result in self._judge(suite, library)
            ]
        except Exception as error:
            if again and is_missing_file(error):
                self._opened.pop(suite.table.path, None)
                return self.judge(suite, library, again=False)
            _log.debug("%s could not be judged", suite.name, exc_info=error)
            return [_not_judged(suite, expected, error) for expected in suite.expectations]

    def _judge(self, suite: Suite, library: Library) -> Iterator[Result]:
        table = self._open(suite.table)
        if table is None:
            words = "no such table"
            if not suite.may_be_missing:
                first = f"{words}: run `hwmark run --lake {self.lake.root}` first"
                words = restore(f"{suite.table.path} is missing") if self.has_reconstruction else first
            yield from (_row(suite, one, suite.may_be_missing, words) for one in suite.expectations)
            return
        if suite is SOURCES:
            yield self._sources_fresh(table.version())
            return
        # An expectation that was added or changed since is judged on what was there before, too.
        by_version = defaultdict[int | None, list[Expectation]](list)
        for expected in suite.expectations:
            by_version[self._judged_to(suite, expected)].append(expected)
        for after, some in by_version.items():
            version = max(table.version(), after or 0)
            change = since(table, after, self.lake.storage_options) if after != version else None
            if change is None:
                change = Change(version, version, 0, ())
                words = f"nothing new, still version {version}"
                yield from (_row(suite, one, True, words, version) for one in some if not one.counts_rows)
                some = [one for one in some if one.counts_rows]
            if some:
                yield from self._judge_rows(suite, tuple(some), table, change, library)

    def _judged_to(self, suite: Suite, expected: Expectation) -> int | None:
        """The version up to which it was judged on this table, whatever its name and place in the suite were; None,
        too, if that version is another one by now, as in a copy of the table that was restored."""
        key = suite.name, suite.table.path, self._what(suite, expected)
        version, commit = self.before.get(key, (None, ""))
        if version is None:
            return None
        there = self._commit(suite.table, version)
        same = self.lake.open(suite.table).version() >= version if there is None else commit in ("", there)
        return version if same else None

    def _what(self, suite: Suite, expected: Expectation, version: int | None = None) -> str:
        if suite.table.path not in self._ids:
            self._ids[suite.table.path] = self.lake.table_id(suite.table)
        commit = "" if version is None else f"@{self._commit(suite.table, version) or ''}"
        return f"{expected.digest}:{self._ids[suite.table.path]}{commit}"

    def _commit(self, table: Table, version: int) -> str | None:
        if (table.path, version) not in self._commits:
            self._commits[table.path, version] = self.lake.commit_id(table, version)
        return self._commits[table.path, version]

    def _judge_rows(
        self, suite: Suite, some: tuple[Expectation, ...], table: DeltaTable, change: Change, library: Library
    ) -> Iterator[Result]:
        first, last = change.version_from, change.version_to
        self.say(f"{change.rows:,} new rows of {suite.table.path}, versions {first} to {last}")
        part = replace(suite, part=f" from version {first}", expectations=some) if some != suite.expectations else suite
        new = New(self.lake, suite.table, change, self.events, has_declared(table, suite.table.arrow()))
        with new.open_frame(suite.frame, part.needed_columns, suite.sample) as rows:
            found = library.judge(part, rows, {"quarantine_share": self.quarantine_share}, self.run_id)
        for expected in some:
            result = _result(suite, expected, change, found[expected.name])
            told = not result.success and suite.table.path.startswith("silver/") and is_told(result, self.results)
            yield replace(result, success=True, observed=f"{result.observed}, told before") if told else result

    def _sources_fresh(self, version: int) -> Result:
        """Whether every source is fresh. A silent one adds no rows, so that there are none for a library to judge."""
        failed = [
            row for row in self.reported if row["source_id"] is None or (row["silent_s"] or 0) > self.stale_after_s
        ]
        return Result(
            SOURCES.name, "sources_fresh", SOURCES.table.path, version, version, not failed,
            _observed(len(self.reported), "source", len(failed)), len(failed),
            json.dumps(failed[:SAMPLES]) if failed else None,
        )  # fmt: skip

    @cached_property
    def has_reconstruction(self) -> bool:
        return reconstruction(self.lake).made

    @cached_property
    def results(self) -> pa.Table:
        return self.lake.read(quality_results.TABLE, quality_results.ARROW)

    @cached_property
    def before(self) -> Judged:
        return judged_versions(self.results)

    @cached_property
    def events(self) -> int:
        """Events that quarantined rows are measured by: those that the job has read since the last check, or else what
        it may be reading, or all."""
        ours = next(suite for suite in standard_suites() if suite.table is replication_events.TABLE)
        read, newest = self._open(ours.table), self.lake.find(ours.table)
        if read is None or newest is None:
            return 0
        before = self._judged_to(ours, ours.expectations[0])
        tried = [(table, before) for table in (read, newest) if before is None or before < table.version()]
        changes = (since(table, after, self.lake.storage_options) for table, after in [*tried, (newest, None)])
        return next((change.rows for change in changes if change), 0)

    @cached_property
    def reported(self) -> list[dict[str, Any]]:
        """Every source: reported_to, and silent_s, None where its cluster has ended, or it was handled; of a cluster
        of which none is known source_id is None."""
        handled = handled_sources(read_states(self.lake))
        bronze, rows = bronze_of(self.lake), list[dict[str, Any]]()
        clusters = bronze.clusters | presents(self.lake).keys()
        for cluster, seen in sorted(reports(self.lake, clusters, bronze, self.now).items()):
            if not seen.sources and seen.closed is None:  # retention took the reports, which makes none fresh
                rows.append({"cluster": cluster, "source_id": None, "silent_s": None, "reported_to": None})
            closed = seen.closed is not None and all(one.reported_to <= seen.closed for one in seen.sources)
            for source in seen.sources:
                over = closed or source.reported_to <= handled.get((cluster, source.source_id), NEVER)
                silent_s = None if over else (self.now - source.reported_to).total_seconds()
                row = {"cluster": cluster, "source_id": source.source_id, "silent_s": silent_s}
                rows.append(row | {"reported_to": source.reported_to.isoformat()})
        return rows

    def _open(self, table: Table) -> DeltaTable | None:
        if table.path not in self._opened:
            self._opened[table.path] = self._as_read() if table is replication_events.TABLE else self.lake.find(table)
        return self._opened[table.path]

    def _as_read(self) -> DeltaTable | None:
        """Bronze as far as the job has read it; as it is now if that is not known, or its log does not reach back."""
        newest, offset = self.lake.find(replication_events.TABLE), committed_offset(self.lake)
        version = None if offset is None else last_version_read(offset)
        if newest is None or version is None or not 0 <= version < newest.version():
            return newest
        try:
            return open_table(self.lake.uri(replication_events.TABLE), self.lake.storage_options, version)
        except Exception:
            return newest


def _row(suite: Suite, expected: Expectation, success: bool, words: str, version: int | None = None) -> Result:
    return Result(suite.name, expected.name, suite.table.path, None, version, success, words)


def _not_judged(suite: Suite, expected: Expectation, error: object) -> Result:
    """An expectation that raises, or whose table cannot be read, has failed: the next check judges it anew."""
    return _row(suite, expected, False, f"could not be judged: {one_line(error)}")


def _result(suite: Suite, expected: Expectation, change: Change, judged: Any) -> Result:
    """A row for the library's result of one expectation."""
    if (error := error_of(judged)) is not None:
        return _not_judged(suite, expected, error)
    details = judged.result
    unexpected, sample = int(details.get("unexpected_count") or 0), details.get("partial_unexpected_index_list")
    words = None if (value := details.get("observed_value")) is None else f"{value} observed in"
    if missing := details.get("partial_missing_list"):
        words = f"missing {missing} in"
    return Result(
        suite.name, expected.name, suite.table.path, change.version_from if change.rows else None, change.version_to,
        bool(judged.success),
        _observed(change.rows, "new row", unexpected, words), unexpected,
        json.dumps(sample, default=str) if sample else None,
    )  # fmt: skip


def _observed(count: int, noun: str, failed: int, words: str | None = None) -> str:
    which = words or (f"{failed:,} of" if failed else "")
    return f"{which} {count:,} {noun}{'' if count == 1 else 's'}".strip()
