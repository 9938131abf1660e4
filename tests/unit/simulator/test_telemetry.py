"""Happenings become the rows that bronze/replication_events asks for, at each level."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from generators.simulator.cluster.settings import MS, START, Settings
from generators.simulator.cluster.simulation_event import CONTROLLER, SimulationEvent
from generators.simulator.telemetry.rows import Telemetry
from pipelines.replication.events.row_rules import split
from schemas import replication_events
from tests.schema_differences import differences
from tests.unit.simulator.simulation_events import append, event, fetch, hw, leader, wide


def reported(stream: Iterable[SimulationEvent], level: int = 3, **options: Any) -> pa.Table:
    telemetry = Telemetry(Settings(), level, **options)
    for one in stream:
        telemetry.observe(one)
    return telemetry.drain()


def said(events: pa.Table, *columns: str) -> list[tuple[Any, ...]]:
    rows = events.select(["event_type", *columns]).to_pylist()
    return [tuple(row.values()) for row in rows]


ROUND = [
    leader(0),
    append(10, 5),
    fetch(20, 2, 0, 5),
    fetch(25, 3, 0, 5),
    fetch(30, 2, 5, 5),
    fetch(40, 3, 5, 5),
    hw(40, 5),
]


def test_rows_have_the_schema_of_bronze_and_break_no_row_rule() -> None:
    events = reported([*ROUND, wide(50, "broker_state", 3000, replica=2, broker_epoch=7, detail="fenced")])
    good, rejected = split(events)
    assert differences(replication_events.ARROW, events.schema) == []
    assert (good, len(rejected)) == (None, 0)


def test_every_column_has_the_value_of_the_event() -> None:
    one = leader(3, epoch=4, leo=9, hw=7, isr=(1, 3), unclean=True, lag_max_ms=500, log_start=2, broker_epoch=8)
    row = reported([one]).to_pylist()[0]
    expected = {
        "cluster": "simulated", "source_id": "broker-1/replication.log", "source_epoch": 0, "source_seq": 0, "seq": 0,
        "broker_id": 1, "event_type": "leader", "topic": "orders", "topic_id": "AAAAAAAAAAAAAAAAAAAAAA",
        "partition": 0, "leader_id": 1, "leader_epoch": 4, "partition_epoch": 4, "replica_id": None,
        "broker_epoch": 8, "leo": 9, "leader_leo": 9, "hw": 7, "log_start": 2, "isr": [1, 3], "replicas": [1, 2, 3],
        "min_isr": 1, "lag_max_ms": 500, "unclean": True, "level": 3, "detail": None,
        "repeats": None,
        "hw_before": None,
        "controller_epoch": None,
        "committed": None,
        "ts_error_ms": None,
        "closes": None,
        "covers": None,
    }  # fmt: skip
    assert {name: value for name, value in row.items() if name != "ts"} == expected
    assert row["ts"].timestamp() * 1e6 == START + 3 * MS


def test_the_controller_is_a_source_of_its_own_at_level_0() -> None:
    events = reported([leader(0), wide(1, "broker_state", 3000, replica=2, detail="fenced")])
    assert said(events, "source_id", "level", "topic") == [
        ("leader", "broker-1/replication.log", 3, "orders"),
        ("broker_state", "broker-3000/controller.log", 0, None),
    ]


def test_numbers_are_contiguous_per_source_and_per_partition_across_drains() -> None:
    telemetry = Telemetry(Settings())
    pieces = []
    for k in range(6):
        telemetry.observe(event(k, "append", leader_leo=k, partition=k % 2))
        telemetry.observe(event(k, "append", 2, leader_leo=k))
        if k % 2:
            pieces.append(telemetry.drain())
    events = pa.concat_tables(pieces)
    ones = [r for r in events.to_pylist() if r["broker_id"] == 1]
    assert [r["source_seq"] for r in ones] == [0, 1, 2, 3, 4, 5]
    assert [(r["partition"], r["seq"]) for r in ones] == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]
    assert [r["seq"] for r in events.to_pylist() if r["broker_id"] == 2] == [0, 1, 2, 3, 4, 5]
    assert len(telemetry.drain()) == 0


def test_time_is_that_of_the_brokers_clock_in_whole_milliseconds() -> None:
    events = reported([event(10.7, "append", leader_leo=1, skew=-5_000)])
    assert events["ts"].cast(pa.int64()).to_pylist() == [START - 5_000 * MS + 10 * MS]


def test_rows_of_all_sources_come_in_order_of_true_time() -> None:
    events = reported([event(k, "append", 1 + k % 3, leader_leo=k, skew=k % 3 * 1_000) for k in range(9)])
    assert events["leader_leo"].to_pylist() == list(range(9))


def test_lean_has_no_fetch_and_only_reports_where_the_hw_rose() -> None:
    assert said(reported(ROUND, level=2), "leader_leo", "replica_id", "leo", "hw") == [
        ("leader", 0, None, 0, 0),
        ("replica_leo", None, 2, -1, None),
        ("replica_leo", None, 3, -1, None),
        ("append", 5, None, None, None),
        ("replica_leo", None, 2, 0, None),
        ("replica_leo", None, 3, 0, None),
        ("replica_leo", None, 2, 5, None),
        ("hw", None, 1, None, 5),
    ]


def test_lean_has_an_append_that_moved_the_hw_by_its_report_only() -> None:
    alone = [leader(0, isr=(1,), replicas=(1,)), append(10, 5), hw(10, 5), append(20, 8), hw(20, 8)]
    assert said(reported(alone, level=2), "hw") == [("leader", 0), ("hw", 5), ("hw", 8)]


def test_lean_has_no_leo_under_min_isr() -> None:
    frozen = [leader(0, isr=(1,), min_isr=2), append(10, 5), fetch(20, 2, 0, 5), fetch(30, 2, 5, 5)]
    assert said(reported(frozen, level=2)) == [("leader",)]


def test_info_has_terms_and_what_a_shrink_prints() -> None:
    shrink = event(99, "isr_proposed", leader=1, isr=(1, 2), detail="shrink")
    events = reported([*ROUND, append(50, 7), fetch(60, 2, 7, 7), shrink], level=0)
    assert said(events, "replica_id", "leo", "leader_leo", "hw") == [
        ("leader", None, 0, 0, 0),
        ("append", None, None, 7, None),
        ("replica_leo", 3, 5, None, None),
        ("hw", 1, None, None, 5),
        ("isr_proposed", None, None, None, None),
    ]
    assert set(events["level"].to_pylist()) == {0}


def test_info_has_of_the_controllers_elections_first_and_unclean_ones_only() -> None:
    elections = [
        event(k, "election", 3000, CONTROLLER, leader=1, leader_epoch=k, partition_epoch=k, unclean=k == 2)
        for k in range(4)
    ]
    assert said(reported(elections, level=0), "leader_epoch") == [("election", 0), ("election", 2)]
    assert len(reported(elections, level=2)) == 4


def test_lean_and_info_have_a_followers_hw_only_when_it_falls() -> None:
    follower = [event(k, "hw", 2, replica=2, leader=1, hw=h) for k, h in enumerate([3, 5, 4, 6])]
    assert said(reported(follower, level=2), "hw") == said(reported(follower, level=0), "hw") == [("hw", 4)]
    assert len(reported(follower)) == 4


def test_an_unknown_level_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"telemetry level 1: choose 3 \(full\), 2 \(lean\) or 0 \(info\)"):
        Telemetry(Settings(), level=1)


def test_quiet_fetches_are_thinned_to_the_first_the_last_and_one_in_between_per_span() -> None:
    quiet = [fetch(100 * k, r, 5, 5) for k in range(10) for r in (2, 3)]
    events = reported([leader(0), append(0, 5), *quiet, append(1000, 6)], fetch_every_ms=300)
    kept = [
        (ts - START) // MS
        for ts in events.filter(pa.compute.equal(events["replica_id"], 2))["ts"].cast("int64").to_pylist()
    ]
    assert kept == [0, 300, 600, 900]


def test_a_fetch_behind_the_leader_is_never_thinned_out() -> None:
    behind = [leader(0), append(0, 9), *(fetch(10 * k, 2, 5, 9) for k in range(20))]
    assert len(reported(behind, fetch_every_ms=1000)) == len(reported(behind))


def test_without_a_simulation_the_last_row_of_a_source_is_its_progress() -> None:
    telemetry = Telemetry(Settings())
    telemetry.observe(append(7, 1))
    last = telemetry.close().to_pylist()[-1]
    assert (last["event_type"], last["partition"], last["topic"], last["source_seq"]) == ("progress", -1, None, 1)
