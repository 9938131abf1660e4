"""The step that the next evaluation goes on from, recorded before a table has its rows; and the moments up to which a
`check` of some name has told `ops/alerts` and `ops/quality_results`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from pipelines.alerting.outbox import in_order
from pipelines.alerting.state import AlertState
from pipelines.lake.data_file import Written, write_file
from pipelines.lake.file_systems import path_part
from pipelines.lake.lake import Lake
from pipelines.lake.records import record, write_record
from pipelines.lake.table import add_files, committing
from pipelines.verdict.sources import RECORD, Progress
from schemas import alerts, tables
from schemas.declaration import Table

APP = "hwmark/alerts"
"""The writer by whose transactions a table knows which step it has."""

_log = logging.getLogger("hwmark.alerting")
Episode = tuple[str, datetime]
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Step:
    """One evaluation. Times are microseconds since 1970.

    `clocks`: by rule (`AlertRules.key`) and cluster up to when, in event time, it was evaluated; a cluster without one
    never was. `carried` are the lasting states of alerts that fired then, and `restarts` the broker states of late, so
    that they need not be read again; `sources` is what bronze had of them, `query` who made silver, `newest` by the
    path of a table when (milliseconds) its last file was written. `files` are what the tables get of this step, in
    commits that say its `number`.
    """

    number: int = 0
    clocks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    carried: Sequence[Mapping[str, Any]] = ()
    restarts: Sequence[Mapping[str, Any]] = ()
    query: str | None = None
    newest: Mapping[str, int] = field(default_factory=dict)
    sources: Progress = field(default_factory=Progress)
    files: Sequence[Written] = ()


def last_step(lake: Lake) -> Step:
    """The last step of a lake, each table of it as it should be.

    Where its record is gone, or a file that it was to commit, everything is read anew.
    """
    step = recorded_step(lake)
    for file in step.files:
        if not _commit(lake, file, step.number):
            _log.warning("%s/%s is gone, and was in no commit: the tables are read anew", file.kind, file.path)
            return Step(step.number)
    return step


def recorded_step(lake: Lake) -> Step:
    """The last step as it was recorded, whether or not every table has it."""
    table = lake.find(alerts.TABLE)
    least = (table.transaction_version(APP) or 0) if table else 0
    found = record(lake, RECORD, Step) or Step()
    return replace(found, number=max(found.number, least))


def take_step(lake: Lake, step: Step, rows: Mapping[Table, pa.Table]) -> None:
    """Records what the tables get, then has each of them get it; a kill in between leaves the rest to `last_step`."""
    files = []
    for table, new in rows.items():
        lake.create_with_columns(table)
        files.append(write_file(lake.files(table), table.path, table.arrow(), [new.cast(table.arrow())]))
    write_record(lake, RECORD, replace(step, number=step.number + bool(files), files=files))
    for file in files:
        _commit(lake, file, step.number + 1)


def _commit(lake: Lake, file: Written, number: int) -> bool:
    """Adds a file to its table, unless that has it, or is there no more; False if the file is gone."""
    table = next(one for one in tables().values() if one.path == file.kind)

    def commit() -> None:
        opened = lake.find(table)
        if opened is not None and (opened.transaction_version(APP) or 0) < number:
            if not lake.has_whole(table, file.path, file.size):
                raise FileNotFoundError(file.path)
            add_files(opened, [file], table.arrow(), {APP: number})

    try:
        committing(commit)
    except FileNotFoundError:
        return False
    return True


@dataclass(frozen=True)
class Told:
    """Up to when (wall clock of who wrote them) alerts and results were told under a name."""

    alerts: datetime = _NEVER
    results: datetime = _NEVER


def told(lake: Lake, name: str) -> Told:
    """The moments up to which was told under a name; the beginning of time if that is not known."""
    return record(lake, _path(name), Told) or Told()


def set_told(lake: Lake, name: str, up_to: Told) -> None:
    """Records what was told, once the last line of it is printed."""
    write_record(lake, _path(name), up_to)


@dataclass(frozen=True)
class News:
    """New rows of `ops/alerts`: last states of what fired since, of what only ended, and how many were over before."""

    fired: tuple[AlertState, ...] = ()
    ended: tuple[AlertState, ...] = ()
    history: int = 0


def untold(stored: Iterable[AlertState], before: Told) -> News:
    """The episodes with rows that were not told; what never fired was over before anybody looked."""
    last, ever, fired = dict[Episode, AlertState](), set[Episode](), set[Episode]()
    for state in in_order(stored):
        if before.alerts == _NEVER or (state.written_at or _NEVER) > before.alerts:
            last[state.episode] = state
            fired |= {state.episode} if state.firing else set()
        ever |= {state.episode} if state.firing else set()
    return News(
        tuple(state for key, state in last.items() if key in fired),
        tuple(state for key, state in last.items() if key in ever - fired),
        len(last.keys() - ever),
    )


def _path(name: str) -> str:
    return f"_alerts/told/{path_part(name)}.json"
