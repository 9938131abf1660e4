"""Logs and samples of one cluster: the finer source wins, and contradictions are rows."""

import pytest

from pipelines.replication import Facts, Reconstructor, replay
from tests.unit.replication.bronze import BASE_MS, Source, events_of, last_rows, values_of
from tests.unit.replication.watching import Watched, cluster, in_time, rounds

HWS = ("ms", "kind", "hw", "agreement", "level")


def log(level: int = 3) -> Source:
    """Broker 1 leads; its log shows HWs 100 and 200, and the ISR without broker 3 from 5 s on."""
    source = Source(level=level).leader(0, 0, 0, 0, [1, 2, 3])
    for ms, leo in ((1000, 100), (3000, 200)):
        source.append(ms, leo).fetch(ms + 10, 2, leo, leo).fetch(ms + 20, 3, leo, leo).hw(ms + 20, leo)
    source.proposed(4990, [1, 2], "shrink").isr(5000, [1, 2], 1)
    for ms in range(6000, 60_000, 1000):
        source.fetch(ms, 2, 200, 200).progress(ms + 1)
    return source


def watched(hw: int = 200, behind_ms: int = 0) -> list[Watched]:
    """The same as a watcher sees it, whose clock is `behind_ms` behind the broker's."""
    one, two, three = cluster()
    at = [ms - behind_ms for ms in (500, 600, 1500, 3500, 5500)]
    two.seen(at[0], 1, 0).seen(at[4], 1, 0, isr=[1, 2])
    one.began(at[1], 0, 0).leads(at[2], 0, 100, 100).leads(at[3], 0, max(200, hw), hw).leads(
        at[4], 0, max(200, hw), hw, [1, 2]
    )
    two.follows(at[2], 100).follows(at[3], 200)
    three.follows(at[2], 100).follows(at[3], 200)
    rounds(60_000, one, two, three, since=6000)
    return [one, two, three]


def facts_of(*sources: Source) -> Facts:
    return replay(events_of(in_time(*sources)))


def test_hws_are_those_of_the_log_alone():
    both, alone = facts_of(log(), *watched()), facts_of(log())
    assert values_of(both.partition_hw, *HWS) == values_of(alone.partition_hw, *HWS)


def test_a_sampled_hw_that_the_log_never_reached_disagrees():
    rows = values_of(facts_of(log(), *watched(hw=900)).partition_hw, "ms", "kind", "hw", "reported_hw", level=1)
    assert rows == [(3500, "report", 200, 900)]


def test_where_the_log_shows_no_hw_samples_do():
    source = Source(level=0).leader(0, 0, 0, 0, [1, 2, 3]).progress(60_000)
    rows = values_of(facts_of(source, *watched()).partition_hw, "hw", "level", kind="advance")
    assert rows == [(100, 1), (200, 1)]


def ends_at(ms: int) -> Source:
    """The log, of which nothing is read from then on."""
    source = log()
    source.rows = [row for row in source.rows if row["ts"] < (BASE_MS + ms) * 1000]
    return source


@pytest.mark.parametrize("parts", [1, 5])
def test_what_is_sampled_after_the_log_ends_is_not_lost(parts):
    """Within the minute after the last row, too, in which the log may be silent only."""
    (one, *others), source = watched(), ends_at(8000)
    rounds(200_000, one.leads(30_000, 0, 700, 700, [1, 2]), *others, since=61_000)
    rows = sorted(in_time(source, one, *others), key=lambda row: row["ts"])
    machine, found = Reconstructor(), []
    for k in range(parts):
        found.append(machine.update(events_of(rows[len(rows) * k // parts : len(rows) * (k + 1) // parts])))
        machine = Reconstructor.restore(machine.snapshot())
    assert machine.state.held_hws.count == machine.state.held_changes.count == 0
    hws = values_of(Facts.concat(found).partition_hw, "ms", "kind", "hw", level=1)
    assert hws == [(30_000, "advance", 700)]


def test_a_loss_of_what_was_sampled_after_the_log_ended_is_found():
    """The log of level 3 lacked nothing up to there, and its own HW alone counted."""
    leading, other = Source(), Source("broker-2/replication.log")
    leading.leader(0, 0, 0, 0, [1, 2]).append(1000, 100).fetch(1010, 2, 100, 100).hw(1010, 100).progress(2000)
    other.progress(2000).leader(9000, 1, 140, 140, [2]).progress(60_000)
    one = Watched(1).seen(500, 1, 0, isr=[1, 2]).began(600, 0, 0).leads(4000, 0, 160, 150, isr=[1, 2])
    rounds(60_000, one, since=5000)
    (row,) = last_rows(facts_of(leading, other, one).hw_regressions, "regression_id")
    assert (row["class"], row["proof"], row["lost_from"], row["lost_to"]) == ("committed_loss", "bounded", 140, 150)


def test_a_log_that_ends_before_it_must_have_reached_a_sampled_hw_does_not_disagree():
    (one, *others), source = watched(), ends_at(30_000)
    rows = values_of(facts_of(source, one.leads(29_000, 0, 700, 700, [1, 2]), *others).partition_hw, *HWS, level=1)
    assert rows == [(29_000, "advance", 700, "only_witness", 1)]


def test_a_sample_whose_time_nobody_knows_to_the_minute_contradicts_no_log():
    (one, *others), source = watched(), log()
    one.leads(20_000, 0, 700, 700, [1, 2], error=1e9)
    assert values_of(facts_of(source, one, *others).partition_hw, *HWS, level=1) == []


@pytest.mark.parametrize("behind_ms", [0, 300, 3000, -3000])
def test_an_isr_change_is_one_row_and_the_logs_wins(behind_ms):
    both = facts_of(log(), *watched(behind_ms=behind_ms))
    rows = {
        (row["partition_epoch"], tuple(row["isr_after"]), row["cause"], row["witness"])
        for row in last_rows(both.isr_changes, "partition_epoch")
    }
    assert rows == {(1, (1, 2), "lag", "leader")}


@pytest.mark.parametrize("behind_ms", [0, 300, 3000, -3000])
def test_a_term_that_both_report_is_one(behind_ms):
    """The watcher comes later, or by a clock that is behind earlier: no loss, and no second start of the term."""
    both = facts_of(log(), *watched(behind_ms=behind_ms))
    assert both.hw_regressions.to_pylist() == []


def test_a_start_that_the_log_reports_too_is_judged_by_the_log():
    leading, other = Source(), Source("broker-2/replication.log")
    leading.leader(0, 0, 0, 0, [1, 2]).append(1000, 100).fetch(1010, 2, 100, 100).hw(1010, 100).progress(60_000)
    other.leader(5000, 1, 60, 60, [2]).progress(60_000)
    one, two = Watched(1), Watched(2)
    one.seen(500, 1, 0, isr=[1, 2]).began(600, 0, 0).leads(1500, 0, 100, 100).seen(5500, 2, 1, isr=[2])
    two.began(5600, 1, 60, isr=[2]).leads(5600, 1, 60, 60, isr=[2])
    rounds(60_000, one, two, since=6000)
    (row,) = last_rows(facts_of(leading, other, one, two).hw_regressions, "regression_id")
    assert (row["class"], row["lost_from"], row["lost_to"], row["level"]) == ("committed_loss", 60, 100, 3)


def test_a_loss_that_the_log_of_level_0_cannot_show_is_bounded_by_samples():
    leading, other = Source(level=0), Source("broker-2/server.log", level=0)
    leading.leader(0, 0, 0, 0, [1, 2]).progress(60_000)
    other.leader(5000, 1, 60, 60, [2]).progress(60_000)
    one = Watched(1).seen(500, 1, 0, isr=[1, 2]).began(600, 0, 0).leads(1500, 0, 100, 100)
    rounds(60_000, one, since=2000)
    (row,) = last_rows(facts_of(leading, other, one).hw_regressions, "regression_id")
    assert (row["class"], row["proof"], row["lost_from"], row["lost_to"]) == ("committed_loss", "bounded", 60, 100)


def test_what_a_watcher_misses_is_not_missing_in_the_log():
    one, two, three = watched()
    one.hung(2000)
    both, alone = facts_of(log(), one, two, three), facts_of(log())
    assert values_of(both.partition_hw, *HWS) == values_of(alone.partition_hw, *HWS)


def test_the_present_is_that_of_the_finer_source_until_it_falls_silent():
    machine = Reconstructor()
    machine.update(events_of(in_time(log(), *watched())))
    (row,) = machine.health().to_pylist()
    assert row["level"] == 3
    later = watched()
    rounds(120_000, *later, since=61_000)
    again = Reconstructor()
    again.update(events_of(in_time(log(), *later)))
    (row,) = again.health().to_pylist()
    assert (row["level"], row["hw"], row["isr"]) == (1, 200, [1, 2])
