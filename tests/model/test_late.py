"""The rules about a loss where the log of one broker comes once all others are far past it."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from random import Random
from typing import Any

import pytest

from pipelines.replication import Facts, Reconstructor
from tests.model.campaign import DRAWN
from tests.model.compare import CRITICAL, Case, View, case, wrong
from tests.model.histories import Path, Scope, drawn, every, play
from tests.unit.replication.bronze import events_of

Rows = list[dict[str, Any]]
CLOCK = "a right clock of broker"
PAST_MS = (20_000, 40_000, 55_000)
"""By how much the others go on before the rest of a log comes: less than a jump of a clock each time."""


def late_logs(one: Case) -> Iterator[tuple[Case, Rows, Rows]]:
    """(the case under a name of its own, the rows that come first, the rest of one broker's log)."""
    for source in sorted({row["source_id"] for row in one.rows} - {"controller-9/controller.log"}):
        log = [row for row in one.rows if row["source_id"] == source]
        for known in (0, len(log) // 3, 2 * len(log) // 3):
            name = f"{one.name}-{source}-{known}"
            others = [row for row in one.rows if row["source_id"] != source]
            first, rest = [*others, *_going_on(others), *log[:known]], log[known:]
            yield replace(one, name=name), *([row | {"cluster": name} for row in rows] for rows in (first, rest))


def _going_on(rows: Rows) -> Iterator[dict[str, Any]]:
    """`progress` of each source of these after its last."""
    last_ts = max(row["ts"] for row in rows)
    for source in sorted({row["source_id"] for row in rows}):
        progress = [row for row in rows if row["source_id"] == source and row["event_type"] == "progress"][-1]
        number = max(row["source_seq"] for row in rows if row["source_id"] == source)
        wide = max(row["seq"] for row in rows if row["source_id"] == source and row["partition"] == -1)
        for k, ms in enumerate(PAST_MS, 1):
            yield progress | {"ts": last_ts + ms * 1000, "source_seq": number + k, "seq": wide + k}


def said(*batches: Rows) -> dict[str, list[dict[str, Any]]]:
    """The last revision of each finding by cluster."""
    one, last = Reconstructor(), dict[tuple[str, str], dict[str, Any]]()
    for row in Facts.concat(
        [*(one.update(events_of(rows)) for rows in batches), one.finish()]
    ).hw_regressions.to_pylist():
        last[row["cluster"], row["regression_id"]] = row
    found = dict[str, list[dict[str, Any]]]()
    for (cluster, _), row in last.items():
        found.setdefault(cluster, []).append(row)
    return found


def critical(rows: dict[str, list[dict[str, Any]]]) -> set[tuple[str, int]]:
    """(cluster, leader epoch) of the critical losses."""
    return {
        (cluster, row["leader_epoch"])
        for cluster, found in rows.items()
        for row in found
        if row["class"] in CRITICAL and row["severity"] == "critical"
    }


def played_late(scope: Scope, view: View, numbers: range) -> list[tuple[Case, Rows, Rows]]:
    """Of the histories of these numbers those with a loss, each log of each late in turn."""
    paths = every(scope) if scope.terms == 2 else drawn(scope, Random(5))
    paths = islice(paths, numbers.start, numbers.stop, numbers.step)
    played = (case(f"h{k}", play(Path(path), scope), view) for k, path in zip(numbers, paths, strict=False))
    return [variant for one in played if one.played.losses for variant in late_logs(one)]


def weaker(late: list[tuple[Case, Rows, Rows]]) -> set[tuple[str, int]]:
    """(cluster, leader epoch) of the losses that are critical only where no log is late.

    Clocks are compared by partition epochs, which begin again with a restored snapshot: here within minutes, so that an
    epoch of before may be taken for one of after by a clock that is wrong.
    """
    first, rest = ([row for one in late for row in one[part]] for part in (1, 2))
    told = said(first, rest)
    clocks = {
        (cluster, row["leader_epoch"]) for cluster, found in told.items() for row in found if CLOCK in row["evidence"]
    }
    return critical(said([*first, *rest])) - critical(told) - clocks


def false(late: list[tuple[Case, Rows, Rows]]) -> list[tuple[str, str]]:
    """What is called lost and is not, where a log is late."""
    found = said(*([row for one in late for row in one[part]] for part in (1, 2)))
    return [(one.name, text) for one, *_ in late for text in wrong(one, found.get(one.name, [])) if "false" in text]


FOUND = [
    pytest.param(DRAWN[0], View(3), 1980, id="a HW stored before a resumption of its epoch was told"),
    pytest.param(DRAWN[0], View(0), 1980, id="a HW that may be of another term beside a smaller one that counts"),
    pytest.param(DRAWN[0], View(0), 1048, id="a HW stored by two brokers, one of which proves its term"),
    pytest.param(DRAWN[0], View(3), 432, id="a HW stored before a resumption that was told earlier"),
    pytest.param(DRAWN[2], View(3), 1648, id="a HW stored in an epoch that was announced only"),
    pytest.param(DRAWN[3], View(3), 1024, id="a log of before a snapshot was restored"),
    pytest.param(DRAWN[3], View(3), 1856, id="a log that alone shows that a snapshot was restored"),
    pytest.param(DRAWN[3], View(0), 0, id="a HW stored after a restoration that is told later"),
    pytest.param(DRAWN[3], View(0), 1280, id="a HW of before a restoration whose epoch was told later"),
    pytest.param(DRAWN[3], View(0), 1728, id="a HW of before a restoration that an epoch of after comes up to"),
    pytest.param(DRAWN[2], View(2), 1584, id="a replica of which the leader knows no LEO has not fetched"),
]


@pytest.mark.parametrize(("scope", "view", "number"), FOUND)
def test_late_logs_that_once_made_a_loss_weaker_or_false(scope: Scope, view: View, number: int):
    late = played_late(scope, view, range(number, number + 1))
    assert late
    assert (weaker(late), false(late)) == (set(), [])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("view", [View(3), View(0)], ids=str)
@pytest.mark.parametrize("scope", [Scope(2, 2), DRAWN[0], DRAWN[2], DRAWN[3]], ids=["2-2", "2-4", "3-4", "restored"])
def test_a_loss_is_critical_and_true_though_the_log_that_shows_it_comes_late(scope: Scope, view: View):
    late = played_late(scope, view, range(0, 2400, 60))
    assert (weaker(late), false(late)) == (set(), [])
