"""A fetch that stands for others: they are counted in the minutes, and nothing else changes by them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pipelines.replication import Reconstructor, replay
from pipelines.replication.events.packed_rows import MOST_REPEATS
from schemas import replication_events
from tests.unit.replication.bronze import Source, table


def quiet(**fetch) -> pa.Table:
    """A leader, a replica two behind that fetches, a progress row."""
    telemetry = Source().leader(0, 0, 7, 7, [1, 2, 3]).append(1, 9)
    return table(telemetry.fetch(2, 2, 7, **fetch).fetch(3, 3, 9).progress(1000))


def counted(events: pa.Table) -> tuple[int, int]:
    """(events, fetches with a known lag) of all minutes."""
    rows = replay(events).minute_stats.to_pylist()
    return sum(dict(row["counts"]).get("events", 0) for row in rows), sum(sum(row["lag"]) for row in rows)


def test_repeats_count_in_the_minutes():
    assert counted(quiet()) == (5, 2)
    assert counted(quiet(repeats=40)) == (45, 42)


def test_repeats_count_at_the_lag_of_the_row():
    (lag,) = [row["lag"] for row in replay(quiet(repeats=40)).minute_stats.to_pylist() if sum(row["lag"])]
    (once,) = [row["lag"] for row in replay(quiet()).minute_stats.to_pylist() if sum(row["lag"])]
    assert sorted(after - before for before, after in zip(once, lag, strict=True))[-2:] == [0, 40]


@pytest.mark.parametrize("name", ["partition_hw", "replica_sync", "isr_changes", "hw_regressions", "telemetry_gaps"])
def test_repeats_change_nothing_else(name):
    assert getattr(replay(quiet(repeats=40)), name) == getattr(replay(quiet()), name)


@pytest.mark.parametrize("repeats", [0, -5])
def test_no_repeats_count_for_none(repeats):
    assert counted(quiet(repeats=repeats)) == (5, 2)


def test_more_repeats_than_a_minute_holds_count_as_the_most_there_can_be():
    assert counted(quiet(repeats=2**31 - 1)) == (5 + MOST_REPEATS, 2 + MOST_REPEATS)


def test_events_of_earlier_versions_lack_the_column():
    events = quiet()
    assert replay(events.drop_columns(["repeats"])).tables() == replay(events).tables()


def test_rows_that_wait_in_a_state_of_an_earlier_version_go_on():
    """Behind a hole rows wait; the state that keeps them was written before there was the column."""
    first, hole, rest = (lambda t: (t.slice(0, 2), t.slice(2, 1), t.slice(3)))(quiet(repeats=40))
    before = Reconstructor()
    before.update(first)
    before.update(rest)
    assert before.state.waiting.num_rows == 1
    for name in ("waiting", "pending_starts"):
        setattr(before.state, name, getattr(before.state, name).drop_columns(["repeats"]))
    after = Reconstructor.restore(before.snapshot())
    assert after.state.waiting.column_names == replication_events.ARROW.names
    telemetry = after.update(hole).minute_stats.to_pylist() + after.finish().minute_stats.to_pylist()
    assert sum(dict(row["counts"]).get("events", 0) for row in telemetry) == 42
