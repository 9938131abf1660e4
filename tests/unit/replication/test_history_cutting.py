"""The rows of a history are a function of its events in order: not of cuts, snapshots or settle points."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pipelines.replication.partition.events import PartitionEvent, TermSummary
from pipelines.replication.partition.history import PartitionHistory
from tests.unit.replication.history_cases import (
    T2,
    FakeLookup,
    election,
    follower,
    isr,
    leader,
    proposed,
    summary,
    truncate,
)

pytestmark = pytest.mark.long

AROUND = FakeLookup({}, {b: [(1500, "fenced", 1), (3000, "unfenced", 2)] for b in (1, 2, 3)})


class Known(FakeLookup):
    """Every term's HW rises with its age, so that what is known depends on `as_of`."""

    def term(self, broker_id: int, start_ts: int, as_of: int) -> TermSummary:
        age = max(0, as_of - start_ts) // 50_000
        return summary(age, fetchers=frozenset({1, 2, 3}) - {broker_id}, leader_leo=age + 5, level=2)


brokers, epochs, offsets = st.integers(1, 3), st.integers(0, 5), st.integers(0, 60)
members = st.sets(brokers, min_size=1).map(lambda s: tuple(sorted(s)))


@st.composite
def event(draw: st.DrawFn) -> PartitionEvent:
    broker, epoch, leo = draw(brokers), draw(epochs), draw(offsets)
    hw, isr_, known = draw(st.integers(0, leo)), draw(members), draw(st.sampled_from([None, epoch]))
    return draw(
        st.sampled_from(
            [
                leader(0, broker, epoch, leo, hw, isr_, unclean=draw(st.sampled_from([None, False, True]))),
                leader(0, broker, epoch, leo, hw, isr_, topic_id=draw(st.sampled_from([None, T2]))),
                follower(0, broker, epoch, leo, hw, draw(brokers)),
                election(0, draw(st.integers(-1, 3)), epoch, isr=isr_, partition_epoch=known, unclean=True),
                isr(0, broker, isr_, known, draw(st.sampled_from(["metadata", "controller", "alter_partition"]))),
                proposed(0, broker, isr_),
                truncate(0, broker, hw, before=leo),
                PartitionEvent(0, "hw", broker, hw=hw, replica_id=broker),
                PartitionEvent(0, "isr_rejected", broker),
                PartitionEvent(0, "gap", broker),
            ]
        )
    )


@st.composite
def story(draw: st.DrawFn) -> list[PartitionEvent]:
    now, events = 0, []
    for drawn in draw(st.lists(event(), min_size=1, max_size=20)):
        now += draw(st.sampled_from([0, 1_000, 100_000, 150_000, 2_000_000, 11_000_000]))
        events.append(replace(drawn, ts=now))
    return events


def rows(history: PartitionHistory) -> list[list[dict[str, object]]]:
    return [history.take_isr_changes(), history.take_regressions()]


def whole(events: list[PartitionEvent], lookup: FakeLookup) -> list[list[dict[str, object]]]:
    history = PartitionHistory("c", "clicks", 0)
    for event in events:
        history.settle(event.ts, lookup)
        history.apply(event, lookup)
    history.settle(1 << 61, lookup)
    return rows(history)


@settings(max_examples=100, deadline=None)
@given(story(), st.data())
def test_any_cut_into_settle_points_and_snapshots_gives_the_same_rows(
    events: list[PartitionEvent], data: st.DataObject
):
    lookup = Known(states=AROUND.states)
    history, parts = PartitionHistory("c", "clicks", 0), [[], []]
    for place, event in enumerate(events):
        history.settle(event.ts, lookup)
        history.apply(event, lookup)
        if data.draw(st.booleans()):
            later = events[place + 1].ts if place + 1 < len(events) else event.ts + 20_000_000
            history.settle(data.draw(st.integers(event.ts, later)), lookup)
        if data.draw(st.booleans()):
            parts = [a + b for a, b in zip(parts, rows(history), strict=True)]
            history = PartitionHistory.from_bytes(history.to_bytes())
    history.settle(1 << 61, lookup)
    assert [a + b for a, b in zip(parts, rows(history), strict=True)] == whole(events, lookup)


@settings(max_examples=80, deadline=None)
@given(story())
def test_revisions_of_a_terms_verdict_rise_by_one_and_each_shows_something_else(events: list[PartitionEvent]):
    _, regressed = whole(events, Known())
    last: dict[object, dict[str, object]] = {}
    for row in [r for r in regressed if "/term-" in str(r["regression_id"])]:
        before = last.get(row["regression_id"])
        assert row["revision"] == (before["revision"] if before else 0) + 1  # type: ignore[operator]
        assert before is None or {**before, "revision": 0} != {**row, "revision": 0}
        last[row["regression_id"]] = row


@settings(max_examples=80, deadline=None)
@given(story())
def test_a_critical_finding_is_never_unproven_and_names_a_range_below_the_hw(events: list[PartitionEvent]):
    for row in whole(events, Known())[1]:
        assert (row["severity"] == "critical") <= (row["proof"] in ("proven", "bounded"))
        if row["lost_to"] is not None:
            assert row["lost_from"] < row["lost_to"] == row["hw_before"]
            assert row["lost_records"] == row["lost_to"] - row["lost_from"]


@given(story())
@settings(max_examples=100, deadline=None)
def test_a_snapshot_is_the_same_history(events: list[PartitionEvent]):
    lookup = Known()
    history = PartitionHistory("c", "clicks", 0)
    for event in events:
        history.settle(event.ts, lookup)
        history.apply(event, lookup)
    again = PartitionHistory.from_bytes(history.to_bytes())
    assert again == history
    assert again.to_bytes() == history.to_bytes()


def test_a_snapshot_of_another_version_is_refused_by_name():
    with pytest.raises(ValueError, match="PartitionHistory has version 99"):
        PartitionHistory.from_bytes(b"[99,[]]")
