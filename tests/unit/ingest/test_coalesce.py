"""Unchanged fetches become one row where no table comes out otherwise: each rule of `coalesce`, and all together."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generators.brokerlogs.tailing.coalesce import longest
from pipelines.replication import Rules, replay
from tests.unit.ingest.coalescing import coalesced, differing, plain
from tests.unit.replication.bronze import BASE_MS, Source, controller, table

pytestmark = pytest.mark.long


def leads(**more: Any) -> Source:
    """A leader of three that has all in its ISR, with ten records that all have."""
    reported = Source().leader(0, 0, 10, 10, [1, 2, 3], **more)
    return reported.fetch(1, 3, 10).fetch(2, 2, 10)


def quiet(reported: Source, *ms: float, replica: int = 2, leo: int = 10, **more: Any) -> Source:
    for one in ms:
        reported.fetch(one, replica, leo, **more)
    return reported


def stay(*sources: Source, longest_ms: int = 5_000, replica: int = 2, of: int = 1) -> list[tuple[int, int | None]]:
    """(ms, repeats) of the fetches of a replica at a broker that stay, those of `leads` left out."""
    events = plain(table(*sources))
    rows = coalesced(events, longest_ms).to_pylist()
    mine = [r for r in rows if r["event_type"] == "fetch" and (r["replica_id"], r["broker_id"]) == (replica, of)]
    reported = [(round(r["ts"].timestamp() * 1000) - BASE_MS, r["repeats"]) for r in mine]
    return [row for row in reported if row[0] > 10]


def assert_same(*sources: Source, longest_ms: int = 5_000, **rules: Any) -> int:
    """Every table is the same after it; how many rows went."""
    events = plain(table(*sources))
    few = coalesced(events, longest_ms)
    assert differing(replay(events, Rules(**rules)), replay(few, Rules(**rules))) == []
    return len(events) - len(few)


def test_of_a_run_the_first_two_and_the_last_stay():
    assert stay(quiet(leads(), 100, 200, 300, 400, 500, 600)) == [(100, None), (600, 4)]
    reported = leads().append(50, 11)
    assert stay(quiet(reported, 100, 200, 300, 400, 500, 600)) == [(100, None), (200, None), (600, 3)]


def test_no_fetch_is_lost_from_the_count():
    events = plain(table(quiet(leads(), *range(100, 9_000, 40))))
    few = coalesced(events, 5_000)
    assert len(few) < len(events) / 10
    assert len(few) + pc.sum(few["repeats"]).as_py() == len(events)


@pytest.mark.parametrize("longest_ms", [200, 1_000, 5_000])
def test_rows_that_stay_are_no_further_apart_than_the_longest_run(longest_ms):
    kept = [ms for ms, _ in stay(quiet(leads(), *range(100, 29_000, 90)), longest_ms=longest_ms)]
    gaps = [after - before for before, after in itertools.pairwise(kept)]
    assert longest_ms - 90 < max(gaps[1:]) <= longest_ms


def test_fetches_further_apart_than_the_longest_run_all_stay():
    assert stay(quiet(leads(), 400, 800, 1_200, 1_600), longest_ms=300) == [
        (400, None), (800, None), (1_200, None), (1_600, None),
    ]  # fmt: skip


def test_runs_are_no_longer_than_half_the_lag_of_a_source():
    reported = leads().config(3, lag_max_ms=1_000)
    kept = [ms for ms, _ in stay(quiet(reported, *range(100, 9_000, 90)))]
    assert max(after - before for before, after in itertools.pairwise(kept)) <= 500


def behind(*ms: float, **more: Any) -> Source:
    """A follower that fetches behind the leader's end, and never gets further."""
    return quiet(leads().append(5, 12), *ms, leo=10, **more)


def test_a_replica_that_fetches_behind_is_not_silent():
    assert assert_same(behind(*range(100, 3_000, 100)).progress(3_000), longest_ms=500, lag_max_ms=1_000) > 10


def test_a_longer_run_than_half_the_lag_would_seem_a_silence():
    """Each fetch has reached the end that it saw; the end in earlier rows is further (threads race)."""
    reported = behind(*range(100, 3_000, 100), leader_leo=10).progress(3_000)
    assert assert_same(reported, longest_ms=longest(1_000), lag_max_ms=1_000) > 10
    events, rules = plain(table(reported)), Rules(lag_max_ms=1_000)
    assert differing(replay(events, rules), replay(coalesced(events, 5_000), rules)) == ["replica_sync"]


def test_a_run_ends_with_its_minute():
    reported = quiet(leads(), 59_600, 59_700, 59_800, 59_900, 60_000, 60_100, 60_200)
    assert stay(reported) == [(59_600, None), (59_700, None), (59_900, 1), (60_200, 2)]
    assert assert_same(reported) == 3


BETWEEN: dict[str, Callable[[Source], Source]] = {
    "append": lambda reported: reported.append(350, 11),
    "hw": lambda reported: reported.hw(350, 10),
    "isr": lambda reported: reported.isr(350, [1, 2], 1),
    "leader": lambda reported: reported.leader(350, 1, 10, 10, [1, 2, 3]),
    "another replica's LEO": lambda reported: reported.fetch(350, 3, 11),
    "the replica's LEO reported by the leader": lambda reported: reported.replica_leo(350, 2, 10),
}


@pytest.mark.parametrize("what", BETWEEN)
def test_any_other_row_of_the_partition_ends_the_runs(what):
    reported = quiet(BETWEEN[what](quiet(leads(), 100, 200, 300)), 400, 500, 600, 700)
    assert stay(reported) == [(100, None), (300, 1), (400, None), (500, None), (700, 1)]
    assert assert_same(reported, replica_hw=True) == 2


def test_unchanged_fetches_of_another_replica_end_no_run():
    reported = leads()
    for ms in range(100, 700, 100):
        reported.fetch(ms, 2, 10).fetch(ms + 50, 3, 10)
    assert stay(reported) == [(100, None), (600, 4)]


@pytest.mark.parametrize(
    "other", [{"leo": 11}, {"leader_leo": 12}, {"broker_epoch": 7}, {"leader_epoch": 1}, {"log_start": 3}]
)
def test_a_fetch_with_other_values_is_not_the_same(other):
    reported = quiet(leads(), 100, 200, 300, 400)
    reported.event(450, "fetch", replica_id=2, leader_id=1, **{"leo": 10} | other)
    kept = stay(quiet(reported, 500, 600, 700))
    assert kept == [(100, None), (400, 2), (450, None), (500, None), (600, None), (700, None)]


@pytest.mark.parametrize("told_too", [{"isr": [1, 2, 3]}, {"hw": 10}, {"detail": "more"}, {"unclean": False}])
def test_a_fetch_with_more_columns_stays(told_too):
    events = table(quiet(leads(), *range(100, 900, 100), **told_too))
    assert len(coalesced(events, 5_000)) == len(events)


def test_where_fetches_have_no_rows_all_stay():
    reported = quiet(leads().at_level(2), *range(100, 900, 100))
    assert len(stay(reported)) == 8


def test_a_row_that_comes_with_an_earlier_time_ends_the_run():
    reported = quiet(leads(), 100, 200, 300, 250, 400, 500)
    assert stay(reported) == [(100, None), (300, 1), (250, None), (400, None), (500, None)]
    assert assert_same(reported) == 1


def test_where_a_clock_jumps_all_stay():
    reported = quiet(leads(), 100, 200, 300)
    reported.on(partition=1).append(100_000, 3).on(partition=0)
    quiet(reported, 400, 500, 600, 700)
    assert [ms for ms, _ in stay(reported)] == [100, 300, 400, 500, 600, 700]
    assert_same(reported)


def test_the_second_fetch_shows_that_the_replica_has_learned_the_hw():
    """The first takes the answer with the new HW, the second shows that it was taken: silver/replica_hw."""
    reported = leads().append(50, 12)
    reported.fetch(60, 2, 12).fetch(70, 3, 12)
    for ms in range(100, 700, 100):
        reported.fetch(ms, 2, 12).fetch(ms + 50, 3, 12)
    assert assert_same(reported, replica_hw=True) > 5


def test_the_first_fetch_at_or_after_a_broker_wide_event_stays():
    """Min ISR rises above an ISR that is not complete: frozen from the next row on."""
    reported = Source().leader(0, 0, 10, 10, [1, 2])
    frozen = quiet(reported, *range(100, 12_000, 100))
    assert assert_same(frozen, controller().config(6_040, topic="clicks", min_isr=3)) > 10
    assert (6_100, None) in stay(frozen, controller().config(6_040, topic="clicks", min_isr=3))


def test_rows_of_another_source_of_the_broker_are_kept_apart():
    """Kafka's stock configuration has leaders in state-change.log and fetches in server.log."""
    states = Source("broker-1/state-change.log").leader(0, 0, 10, 10, [1, 2, 3])
    fetches = quiet(Source("broker-1/server.log"), *range(1, 20_000, 100)).append(11_000, 11)
    states.leader(10_050, 1, 10, 10, [1, 2, 3])
    kept = [ms for ms, _ in stay(fetches, states)]
    assert set(range(8_101, 12_000, 100)) <= set(kept)
    assert assert_same(fetches, states, replica_hw=True) > 50


def test_a_run_is_of_one_source():
    one = quiet(leads(), *range(100, 1_100, 100))
    other = quiet(Source("broker-1/server.log"), *range(4_000, 5_000, 100))
    assert stay(one, other) == [(100, None), (1_000, 8), (4_000, None), (4_100, None), (4_900, 7)]
    assert assert_same(one, other) == 15


def test_the_first_fetch_of_a_term_is_no_unchanged_one():
    """It has a LEO that is no longer known, and may move the HW that the others learn by their next two."""
    reported = quiet(leads(), 100, 200).leader(350, 1, 10, 8, [1, 2, 3])
    reported.fetch(400, 2, 10).fetch(450, 3, 10)
    assert stay(quiet(reported, 500, 600, 700, 800))[2:] == [(400, None), (500, None), (600, None), (800, 1)]
    assert assert_same(reported, replica_hw=True) == 1


def test_two_brokers_that_lead_in_turn_do_not_mix():
    one = quiet(leads(), *range(100, 3_000, 100)).follower(3_000, 1, 10, 10, of=2)
    two = Source("broker-2/replication.log").leader(3_001, 1, 10, 10, [1, 2, 3])
    assert assert_same(one, quiet(two, *range(3_100, 6_000, 100), replica=3)) > 40


@pytest.mark.parametrize("cut", range(1, 60, 3))
def test_the_end_of_a_round_ends_no_fact(cut):
    reported = behind(*range(100, 2_000, 100))
    quiet(reported.fetch(2_010, 2, 12), *range(2_100, 3_500, 100), leo=12)
    events = plain(table(reported.progress(4_000)))
    few = coalesced(events, 500, [cut] if cut < len(events) else [])
    assert differing(replay(events, Rules(lag_max_ms=1_000)), replay(few, Rules(lag_max_ms=1_000))) == []


def test_a_run_goes_on_in_the_next_round():
    events = plain(table(quiet(leads(), *range(100, 1_300, 100))))
    kept = [r["ts"] for r in coalesced(events, 5_000, [8, 11]).to_pylist()[3:]]
    assert [round(ts.timestamp() * 1000) - BASE_MS for ts in kept] == [100, 500, 800, 1_200]


STEP = st.one_of(
    st.tuples(st.just("quiet"), st.integers(1, 12), st.sampled_from([1, 30, 200, 700])),
    st.tuples(st.sampled_from(["append", "fetch", "hw", "shrink", "expand", "leader", "config", "lost", "wait"]),
              st.integers(0, 3), st.sampled_from([0, 1, 40, 300, 900])),
)  # fmt: skip


def course(steps: list[tuple[str, int, int]], leo_told: bool) -> list[Source]:
    """A leader and its followers 2 and 3, step by step; its controller beside it."""
    reported, other, ms, end, leos, isr, epoch = leads(), controller(), 10.0, 10, {2: 10, 3: 10}, [1, 2, 3], 0
    for what, n, pause in steps:
        ms += pause
        replica, leader_leo = 2 + n % 2, end if leo_told else None
        if what == "quiet":
            for _ in range(n):
                ms += pause
                for one in leos:
                    reported.fetch(ms, one, leos[one], leader_leo)
        elif what == "append":
            end += n
            reported.append(ms, end)
        elif what == "fetch":
            leos[replica] = min(end, leos[replica] + n)
            reported.fetch(ms, replica, leos[replica], leader_leo)
        elif what == "hw":
            reported.hw(ms, min(end, *(leos[one] for one in isr if one != 1)) if len(isr) > 1 else end)
        elif what in ("shrink", "expand"):
            isr = [b for b in isr if b != replica] if what == "shrink" else sorted({*isr, replica})
            epoch += 1
            reported.isr(ms, isr, epoch)
        elif what == "leader":
            epoch += 1
            reported.leader(ms, epoch, end, min(leos.values()), isr)
        elif what == "config":
            other.config(ms + 0.5, topic="clicks", min_isr=1 + n)
        elif what == "lost":
            reported.lost(ms)
    return [reported.progress(ms + 1), other.progress(ms + 1)]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(STEP, min_size=3, max_size=30), st.booleans(), st.sampled_from([400, 2_000, 30_000]), st.booleans(),
    st.sampled_from([None, 3]), st.lists(st.integers(1, 100), max_size=3), st.booleans(),
)  # fmt: skip
def test_every_table_is_the_same(steps, leo_told, lag_max_ms, strict, messages, cuts, replica_hw):
    events = plain(table(*course(steps, leo_told)))
    rules = Rules(lag_max_ms=lag_max_ms, strict_min_isr=strict, lag_max_messages=messages, replica_hw=replica_hw)
    few = coalesced(events, longest(lag_max_ms), sorted({cut for cut in cuts if cut < len(events)}))
    assert differing(replay(events, rules), replay(few, rules)) == []
    assert len(few) + (pc.sum(few["repeats"]).as_py() or 0) == len(events)


def test_every_table_is_the_same_over_many_rounds_of_one_event():
    events: pa.Table = plain(table(quiet(behind(*range(100, 900, 100)), *range(900, 2_000, 50), leo=10)))
    few = coalesced(events, 500, range(1, len(events)))
    assert len(few) == len(events), "a row of a round of its own is its last"
    assert differing(replay(events), replay(few)) == []
