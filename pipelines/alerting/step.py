"""The record that the next evaluation starts from, and up to when each `check --name` has told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pipelines.alerting.outbox import NEVER, Telling, in_order, next_telling
from pipelines.alerting.state import AlertState
from pipelines.lake.file_systems import path_part
from pipelines.lake.lake import Lake
from pipelines.lake.records import record, write_record
from pipelines.streaming.reconstruction import EVALUATED
from pipelines.verdict.records import Wait
from pipelines.verdict.sources import Progress
from schemas import tables

Episode = tuple[str, datetime]


@dataclass(frozen=True)
class Step:
    """The record of one evaluation, from which the next one starts. Times are microseconds since 1970.

    `clocks`: for a rule (`AlertRules.key`) and a cluster, the event time up to which it was evaluated; without an entry
    it never was. `carried`: lasting states of the alerts that fired, and `restarts`: recent broker states; neither has
    to be read again. `sources`: the progress of the sources in bronze. `query`: the Spark query that made silver.
    `newest`: by table path, the time (milliseconds) when the table's last file was written. `waits`: states that do not
    fire yet. `unread`: by path, since when the table cannot be read, or a cluster is rebuilt. `tables`: by name, the
    ids of the tables of `ops`. `gone`: by name, ids of tables that were replaced since. `written_at`: of the last
    row of `ops/alerts`.
    """

    clocks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    carried: Sequence[Mapping[str, Any]] = ()
    restarts: Sequence[Mapping[str, Any]] = ()
    query: str | None = None
    newest: Mapping[str, int] = field(default_factory=dict)
    sources: Progress = field(default_factory=Progress)
    waits: Sequence[Wait] = ()
    unread: Mapping[str, int] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    gone: Mapping[str, str] = field(default_factory=dict)
    written_at: datetime | None = None


def last_step(lake: Lake) -> Step:
    """The step that was recorded last; if its record is gone, the first one, which reads everything anew."""
    return record(lake, EVALUATED, Step) or Step()


def take_step(lake: Lake, step: Step) -> None:
    """Record the step, once its rows are in `ops/alerts`, where the next evaluation finds them after a kill."""
    ids = dict(step.tables)
    for name in (name for name, table in tables().items() if table.path.startswith("ops/")):
        with suppress(Exception):  # it is not there, or may not be opened
            ids[name] = lake.table_id(name)
    gone = {name: was for name, was in step.tables.items() if ids[name] != was}
    write_record(lake, EVALUATED, replace(step, tables=ids, gone={**step.gone, **gone}))


def leave_out(lake: Lake, cluster: str) -> None:
    """Take a cluster out of the last recorded step: all others go on, and bronze is read anew."""
    step = last_step(lake)
    of_others: dict[str, Any] = {
        name: [row for row in getattr(step, name) if row["cluster"] != cluster] for name in ("carried", "restarts")
    }
    of_others["clocks"] = {key: {c: at for c, at in one.items() if c != cluster} for key, one in step.clocks.items()}
    write_record(lake, EVALUATED, replace(step, **of_others, sources=Progress(), waits=()))


@dataclass(frozen=True)
class Told:
    """The times (wall clock of their writers) up to which alerts and results were printed under a name."""

    alerts: datetime = NEVER
    results: datetime = NEVER


def told(lake: Lake, name: str) -> Told:
    """The times up to which results were printed under a name; the beginning of time if they are not known."""
    return record(lake, _path(name), Told) or Told()


def set_told(lake: Lake, name: str, up_to: Told) -> None:
    """Record what was printed, after its last line."""
    write_record(lake, _path(name), up_to)


@dataclass(frozen=True)
class News:
    """New rows of `ops/alerts`: last states of alerts that fired since, of those that only ended, and old episodes."""

    fired: tuple[AlertState, ...] = ()
    ended: tuple[AlertState, ...] = ()
    history: frozenset[Episode] = frozenset()


def untold(stored: Iterable[AlertState], before: Told) -> News:
    """Return the episodes with rows that were written after `before`.

    An episode without any firing row is `history`: it was over before it was first evaluated.
    """
    last, ever, fired = dict[Episode, AlertState](), set[Episode](), set[Episode]()
    tellings = dict[Episode, Telling]()
    for state in in_order(stored):
        told_before = tellings.get(state.episode)
        tellings[state.episode] = next_telling(told_before, state)
        if before.alerts == NEVER or (state.written_at or NEVER) > before.alerts:
            last[state.episode] = state
            anew = told_before is None or tellings[state.episode].at != told_before.at
            fired |= {state.episode} if state.firing and anew else set()
        ever |= {state.episode} if state.firing else set()
    return News(
        tuple(state for key, state in last.items() if key in fired),
        tuple(state for key, state in last.items() if key in ever - fired),
        frozenset(last.keys() - ever),
    )


def _path(name: str) -> str:
    return f"_alerts/told/{path_part(name)}.json"
