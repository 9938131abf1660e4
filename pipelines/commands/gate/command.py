"""`hwmark gate`: may these brokers be stopped now?"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipelines.commands import clock, exits, jobs
from pipelines.commands.progress import echo, progress
from pipelines.commands.show import tables
from pipelines.gate import gold, words
from pipelines.gate.facts import Facts
from pipelines.gate.gold import Asked
from pipelines.gate.judgement import Answer, Judgement, judge

if TYPE_CHECKING:
    from pipelines.settings import Settings

_log = logging.getLogger("hwmark.gate")
STATUS = {Answer.YES: exits.DONE, Answer.NO: exits.GATE_NO, Answer.NOT_KNOWN: exits.GATE_NOT_KNOWN}
EVERY_S = 2.0
"""How often a gate that waits looks again."""
SAID_EVERY_S = 10.0

__all__ = ["Asked", "Printing", "gate", "of_cluster", "of_lake"]


@dataclass(frozen=True)
class Printing:
    """The printing of an answer, and whether partitions that stop in any case are accepted."""

    format: str = "table"
    limit: int = 30
    accepted: bool = False


def of_lake(settings: Settings, asked: Asked) -> Callable[[], Facts]:
    """A function that reads the facts of a lake."""
    lake = settings.tables
    return lambda: gold.read(lake, asked, jobs.limits(settings), clock.now())


def of_cluster(settings: Settings, asked: Asked, *, waits: bool, debug: bool) -> Callable[[], Facts]:
    """A function that asks the cluster for its facts.

    If it `waits`, it also waits for a broker to answer: the one that is asked may be the one that restarts.
    """
    from generators.cluster.asking.problems import NotAnswering
    from pipelines.commands.gate.asked import read
    from pipelines.commands.watch.command import watch_options

    options = watch_options(settings.watch, debug=debug)

    def look() -> Facts:
        try:
            return read(options, asked, clock.now)
        except NotAnswering as error:
            if not waits:
                raise
            return Facts("the cluster", frozenset(asked.brokers), (), None, "nobody", stale=str(error))

    return look


def gate(
    source: Callable[[], Facts],
    printing: Printing,
    wait_s: float,
    *,
    opens: Callable[[Facts], str] = lambda facts: "",
    records: Callable[[Judgement], None] = lambda judged: None,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> int:
    """Print the answer, waiting at most so long (seconds) for a yes; its exit status. Raises UsageError.

    What a yes `opens` is said below it; `records` is given the answer.
    """
    judged = judge(source(), accepted=printing.accepted)
    if wait_s and judged.answer is not Answer.YES:
        judged = _waited(judged, source, printing, monotonic() + wait_s, sleep, monotonic)
    status = STATUS[judged.answer]
    records(judged)
    opened = opens(judged.facts) if judged.answer is Answer.YES else ""
    echo(json.dumps(words.data(judged, status)) if printing.format == "json" else _text(judged, printing.limit))
    if opened and printing.format != "json":
        echo(opened)
    return status


def record(settings: Settings, judged: Judgement) -> None:
    """Write the answer into `ops/notes`, if the lake can be written to: an answer holds without it."""
    import pyarrow as pa

    from pipelines.commands.note import author
    from schemas import notes

    said = words.headline(judged, clock.now()).removeprefix(f"{judged.facts.cluster}: ")
    row = {
        "cluster": judged.facts.cluster, "incident_id": None, "handled": False, "text": notes.GATE + said,
        "author": author(), "written_at": clock.now(),
    }  # fmt: skip
    try:
        place = settings.tables
        place.append(notes.TABLE, pa.Table.from_pylist([row], schema=notes.ARROW))
    except Exception as error:
        _log.warning("the answer is not in ops/notes, which cannot be written: %s", error)


def open_downtime(settings: Settings, facts: Facts, lasts_s: float) -> str:
    """Open a planned downtime of the brokers that may be stopped; what it says. 0 seconds: none."""
    from pipelines.commands.downtime import line_of, open_window

    if not lasts_s:
        return ""
    place = settings.tables
    return line_of(open_window(place, facts.cluster, sorted(facts.stopped), None, lasts_s, "hwmark gate"))


def _waited(
    judged: Judgement,
    source: Callable[[], Facts],
    printing: Printing,
    until: float,
    sleep: Callable[[float], None],
    monotonic: Callable[[], float],
) -> Judgement:
    """The first yes, or the answer at `until`; at once where no waiting helps."""
    with progress("gate") as say:
        said = -SAID_EVERY_S + monotonic()
        while judged.answer is not Answer.YES and not judged.must_be_accepted:
            if monotonic() - said >= SAID_EVERY_S:
                said = monotonic()
                say(words.headline(judged, clock.now()))
            if (left := until - monotonic()) <= 0:
                break
            sleep(min(EVERY_S, left))
            judged = judge(source(), accepted=printing.accepted)
    return judged


def _text(judged: Judgement, limit: int) -> str:
    rows = [] if judged.facts.stale else words.rows(judged)
    lines = [words.headline(judged, clock.now())]
    if rows:
        lines.append(tables.as_table(rows[:limit], words.COLUMNS))
    if len(rows) > limit:
        lines.append(f"({len(rows) - limit} more; --limit {len(rows)} shows all)")
    return "\n".join([*lines, *words.remarks(judged)])
