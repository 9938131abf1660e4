"""The telemetry level of each row."""

import gzip

import pytest

from generators.brokerlogs.parsing.parser import SourceParser
from generators.recordings import traces
from tests.simulated import cut_traces
from tests.unit.brokerlogs.log_lines import STATE, advanced, events, leader, line, recorded, skipped


def levels(*lines, **settings):
    return [(row["event_type"], row["level"]) for row in events(*lines, **settings)]


def test_a_leader_line_has_the_level_of_the_lines_that_follow():
    assert levels(leader(), skipped({1: 1}, ms=9_000), recorded(2, 0, ms=10_000)) == [
        ("leader", 3),
        ("append", 3),
        ("fetch", 3),
    ]


def test_without_fetches_the_source_is_lean():
    assert levels(leader(), skipped({1: 1}, ms=9_000), advanced(0, 1, ms=10_001)) == [
        ("leader", 2),
        ("append", 2),
        ("hw", 2),
    ]


def test_with_neither_it_is_info():
    assert levels(leader(), leader(epoch=1, ms=20_000)) == [("leader", 0), ("leader", 0)]


def test_a_raised_level_is_seen_where_it_begins():
    assert levels(leader(), leader(epoch=1, ms=20_000), skipped({1: 1}, ms=40_000), recorded(2, 0, ms=41_000)) == [
        ("leader", 0),
        ("leader", 0),
        ("append", 3),
        ("fetch", 3),
    ]


def test_a_restart_at_a_lower_level_is_seen():
    creating = line(
        "[Broker id=1] Creating new partition orders-1 with topic id AAAAAAAAAAAAAAAAAAAAAA.", STATE, ms=20_000
    )
    late = line("[Broker id=1] Transitioning 1 partition(s) to local leaders.", STATE, ms=60_000)
    assert levels(leader(), recorded(2, 0, ms=1), creating, leader(epoch=1, ms=20_001), late)[-1] == ("leader", 0)


def test_a_leader_whose_followers_are_gone_still_has_all_rows():
    creating = line(
        "[Broker id=1] Creating new partition orders-1 with topic id AAAAAAAAAAAAAAAAAAAAAA.", STATE, ms=20_000
    )
    alone = [advanced(n, n + 1, ms=21_000 + 5000 * n) for n in range(8)]
    rows = levels(leader(), recorded(2, 0, ms=1), creating, leader(epoch=1, ms=20_001), *alone)
    assert {level for _, level in rows} == {3}


def test_fetches_that_are_denied_at_run_time_are_missed():
    moved = [skipped({2: n, 1: n}, ms=n * 1000) for n in (1, 5, 12)]
    assert levels(leader(), recorded(2, 0, ms=10), *moved)[2:] == [
        ("append", 3),
        ("replica_leo", 3),
        ("append", 3),
        ("replica_leo", 3),
        ("append", 3),
        ("replica_leo", 3),
    ]
    assert levels(leader(), recorded(2, 0, ms=10), *moved, advanced(0, 9, ms=12_001))[-1] == ("hw", 2)
    assert levels(leader(), recorded(2, 0, ms=10), *moved, recorded(2, 9, ms=12_001, thread="b"))[-1] == ("fetch", 3)


@pytest.mark.parametrize(("cut", "level"), [(None, 3), (cut_traces.lean, 2), (cut_traces.info, 0)])
def test_a_trace_cut_to_a_lower_level_has_that_level(cut, level):
    with gzip.open(traces.path("unclean_election") / "broker-3/replication.log.gz", "rt") as file:
        lines = list(file)
    parser = SourceParser("c", "s")
    rows = parser.feed("".join(lines if cut is None else cut(lines)).encode(), last=True)
    of_terms = [row for row in rows.to_pylist() if row["event_type"] == "leader"]
    assert of_terms
    assert {row["level"] for row in of_terms} == {level}
