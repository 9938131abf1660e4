"""Rows of `ops/quality_results`: each expectation that was judged, up to which version, and its outcome."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.printable import printable
from schemas import quality_results

BY_CLOCK = "sources"
"""The suite that is judged by the clock, and not by new rows."""
_WHAT = ("suite", "table", "expectation")
Judged = dict[tuple[str, str, str], tuple[int, str]]
"""The last version judged and its commit, empty if that is not said, by suite, table, and what was judged."""


@dataclass(frozen=True)
class Result:
    """One row of `ops/quality_results` without its run."""

    suite: str
    expectation: str
    table: str
    version_from: int | None
    version_to: int | None
    success: bool
    observed: str
    unexpected: int = 0
    sample: str | None = None
    judged: str | None = None


@dataclass(frozen=True)
class CheckSummary:
    """The outcome of one run."""

    run_ts: datetime
    results: Sequence[Result]
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    data_docs: str | None = None
    """Where Great Expectations' own page is of how the user's suites came out, where one was wanted."""
    unwritten: Exception | None = None
    """Why `ops/quality_results` did not get it, where it did not."""

    @property
    def failed(self) -> list[Result]:
        return [result for result in self.results if not result.success]

    def lines(self, earlier: Sequence[str] = ()) -> list[str]:
        """One line an expectation, the failed ones with a sample, what failed `earlier`, and a last one that counts."""
        width = max((len(f"{r.table} {r.expectation}") for r in self.results), default=0)
        lines = [
            f"{'ok    ' if r.success else 'FAILED'} {f'{r.table} {r.expectation}':{width}}  {r.observed}"
            + (f"  e.g. {r.sample}" if r.sample else "")
            for r in self.results
        ]
        names = ", ".join(f"{r.table} {r.expectation}" for r in self.failed)
        which = f": {names}" if names else ""
        before = f"; {len(earlier)} failed since the last check" if earlier else ""
        pages = [] if self.data_docs is None else [f"Data Docs: {self.data_docs}"]
        return [
            *map(printable, [*lines, *pages, *earlier]),
            f"{len(self.results)} expectations, {len(self.failed)} failed{which}{before}",
        ]

    def to_arrow(self) -> pa.Table:
        """Rows in the schema of `ops/quality_results`."""
        run = {"run_id": self.run_id, "run_ts": self.run_ts}
        return pa.Table.from_pylist([{**run, **vars(r)} for r in self.results], schema=quality_results.ARROW)


def failed_since(results: pa.Table, after: datetime, run_id: str) -> list[str]:
    """A line for each expectation that failed in a run after that moment, other than this one, and what it saw last.

    What could not be judged at all is no longer said once it was; nor, of that and of sources, what this run says too.
    """
    last: dict[tuple[str, ...], dict[bool, tuple[int, dict[str, Any]]]] = {}
    for row in results.filter(pc.field("run_ts") > after).sort_by("run_ts").to_pylist():
        failed = last.setdefault(tuple(row[name] for name in _WHAT), {})
        judged = row["version_to"] is not None
        if judged or row["success"]:
            failed.pop(False, None)
        if row["run_id"] != run_id and not row["success"]:
            failed[judged] = failed.get(judged, (0, {}))[0] + 1, row
        elif not row["success"] and (not judged or row["suite"] == BY_CLOCK):
            failed.pop(judged, None)
    return [_failed_before(row, times) for failed in last.values() for times, row in failed.values()]


def _failed_before(row: Mapping[str, Any], times: int) -> str:
    when = f"judged at {row['run_ts']:%Y-%m-%d %H:%M:%S} UTC" + (f", the last of {times}" if times > 1 else "")
    sample = f"  e.g. {row['sample']}" if row["sample"] else ""
    return printable(f"FAILED {row['table']} {row['expectation']}  {row['observed']}, {when}{sample}")


def is_told(failed: Result, results: pa.Table) -> bool:
    """Whether these rows failed before, by their samples and number: a rebuild of silver makes the same rows anew."""
    of = [pc.field(name) == getattr(failed, name) for name in _WHAT]
    before = results.filter(of[0] & of[1] & of[2] & ~pc.field("success")).to_pylist()
    told = {json.dumps(row) for one in before for row in json.loads(one["sample"] or "[]")}
    rows = {json.dumps(row) for row in json.loads(failed.sample or "[]")}
    return bool(rows) and rows <= told and failed.unexpected <= sum(one["unexpected"] for one in before)


def judged_versions(results: pa.Table) -> Judged:
    """The version up to which each expectation was judged last, from the rows of `ops/quality_results`."""
    said = results.filter(pc.field("version_to").is_valid() & pc.field("judged").is_valid()).sort_by("run_ts")
    said = said.append_column("what", pc.replace_substring_regex(said["judged"], "@.*", ""))
    by = said.group_by(["suite", "table", "what"], use_threads=False)
    rows = by.aggregate([("version_to", "last"), ("judged", "last")]).to_pylist()
    return {
        (row["suite"], row["table"], row["what"]): (row["version_to_last"], row["judged_last"].partition("@")[2])
        for row in rows
    }


def last_run_at(results: pa.Table) -> datetime | None:
    """When the last run of these rows was, None if there are none."""
    found: datetime | None = pc.max(results["run_ts"]).as_py()
    return found
