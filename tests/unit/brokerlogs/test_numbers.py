"""Numbered lines (%sn): a hole is lost telemetry; displaced lines and restarts are none."""

import random

import pytest

from generators.brokerlogs.parsing.parser import SourceParser
from tests.unit.brokerlogs.log_lines import events, leader, plain, recorded


def numbered(numbers, step=1, start=0):
    return [recorded(2, 1, sn=sn, ms=start + k * step) for k, sn in enumerate(numbers)]


def lost(lines):
    return [(row["ts"], row["detail"].split()[0]) for row in events(*lines) if row["event_type"] == "lost"]


def test_a_hole_is_reported_before_the_line_that_shows_it():
    rows = events(*numbered([5, 6, 9, *range(10, 20)]))
    assert [row["event_type"] for row in rows[:4]] == ["fetch", "fetch", "lost", "fetch"]
    assert rows[2] == {
        "event_type": "lost",
        "ts": 2,
        "broker_id": 1,
        "partition": -1,
        "level": 3,
        "detail": "2 lines: numbers (%sn) that never came",
    }


def test_a_log_that_begins_late_has_lost_nothing():
    assert lost(numbered(range(70_000, 70_050))) == []


def test_displaced_lines_are_not_lost():
    numbers = list(range(1, 4000))
    shuffler = random.Random(7)
    for at in range(0, 3500, 100):
        window = numbers[at : at + 90]
        shuffler.shuffle(window)
        numbers[at : at + 90] = window
    numbers.insert(900, numbers.pop(200))
    assert lost(numbered(numbers)) == []


@pytest.mark.parametrize(("late_by", "found"), [(998, []), (1002, [(100, "1")])])
def test_a_line_displaced_by_more_than_a_thousand_is_lost(late_by, found):
    numbers = [n for n in range(1, 3000) if n != 101]
    numbers.insert(100 + late_by, 101)
    assert lost(numbered(numbers)) == found


@pytest.mark.parametrize(("wait", "found"), [(5000, []), (5002, [(1, "1")])])
def test_a_hole_stays_open_for_five_seconds(wait, found):
    assert lost([*numbered([1, 3]), recorded(2, 1, sn=4, ms=wait - 1), *numbered([2], start=wait)]) == found


def test_a_restart_numbers_from_one():
    assert lost([*numbered(range(500, 600)), *numbered(range(1, 50), start=3000)]) == []
    assert lost([*numbered(range(5000, 6000)), *numbered(range(1, 50), start=2000)]) == []


def test_first_lines_lost_at_a_restart():
    assert lost([*numbered(range(500, 600)), *numbered(range(4, 50), start=3000)]) == [(3000, "3")]


def test_after_the_gap_leos_are_repeated():
    rows = events(leader(sn=1), *numbered([2, 3, 7], start=1))
    assert [row["event_type"] for row in rows] == ["leader", "fetch", "fetch", "lost", "fetch"]


def test_without_numbers_a_loss_cannot_be_seen():
    parser = SourceParser("c", "s")
    parser.feed(b"".join(line.encode() for line in [leader(), recorded(2, 1)]), last=True)
    assert not parser.report.has_sn
    parser.feed(recorded(2, 1, sn=3).encode(), last=True)
    assert parser.report.has_sn


def test_a_live_log_that_stands_still_decides_its_hole_when_flushed():
    parser = SourceParser("c", "s")
    assert parser.feed("".join(numbered([1, 2, 9])).encode()).num_rows == 2
    assert [row["event_type"] for row in plain(parser.flush())] == ["lost", "fetch"]


def test_numbers_that_begin_again_after_a_restart_are_no_hole_though_the_clock_was_set_back():
    before = numbered(range(1, 195), start=600_000)
    assert lost([*before, *numbered(range(1, 23), start=58_000), *numbered(range(23, 71), start=61_000)]) == []
