"""No loss is known only of the stretch in which starts of terms on every broker with replicas could be seen."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from pipelines.verdict import verdict, words
from pipelines.verdict.coverage import join, terms_seen
from pipelines.verdict.records import ClusterRecord, Condition, Limits, PartitionGroup, Source

NOON = datetime(2026, 9, 1, 12, tzinfo=UTC)


def at(minutes):
    return NOON + timedelta(minutes=minutes)


WHOLE = ((at(-120), at(0)),)
RECORD = ClusterRecord(
    "prod",
    judged_from=at(-120),
    judged_to=at(0),
    sources=tuple(Source(f"broker-{broker}/server.log", broker, at(0)) for broker in (1, 2, 3)),
    levels={0: 4},
    groups=(PartitionGroup(Condition.IN_SYNC, (), 4),),
    replicas=frozenset({1, 2, 3}),
    terms=dict.fromkeys((1, 2, 3), WHOLE),
)


def told(of_broker_2, **more):
    record = replace(RECORD, **{"terms": {**RECORD.terms, 2: tuple(of_broker_2)}, **more})
    found = [line.text for line in verdict(record, Limits(), at(0)).lines if line.part == "history"]
    assert [text for text in found if len(text) > words.SENTENCE] == []
    return "; ".join(found)


def test_the_stretch_is_that_in_which_all_could_be_seen():
    assert (
        told(WHOLE)
        == "no loss is known from 2026-09-01 10:00:00 UTC to 2026-09-01 12:00:00 UTC, at level 0 (stock INFO)"
    )
    assert told([(at(-115), at(-4))]).startswith(
        "no loss is known from 2026-09-01 10:05:00 UTC to 2026-09-01 11:56:00 UTC"
    )


def test_a_leader_whose_hw_a_watcher_has_not_asked_for_yet_sends_nobody_to_logs():
    """An election was followed for ten seconds by the advice to look into state-change.log, which nobody read."""
    assert told(WHOLE, unstarted=1, levels={1: 4}).endswith(
        "no HW of 1 partition (of 4) is known since its leader changed: the watcher's next rounds tell it"
    )


def test_where_the_table_of_coverage_is_gone_nobody_is_to_lay_logs_beside():
    (words,) = [
        hole for hole in told([], uncovered="silver/coverage is missing: restore it").split("; ") if "2" in hole
    ]
    assert words.endswith("starts of terms on broker 2 could not be seen: silver/coverage is missing: restore it")


@pytest.mark.parametrize(
    ("of_broker_2", "words"),
    [
        ([], "starts of terms on broker 2 could not be seen: lay state-change.log beside"),
        ([(at(-60), at(0))], "starts of terms on broker 2 could not be seen before 2026-09-01 11:00:00 UTC"),
        ([(at(-120), at(-30))], "nothing of broker 2 was read after 2026-09-01 11:30:00 UTC"),
        (
            [(at(-120), at(-90)), (at(-80), at(0))],
            "starts of terms on broker 2 could not be seen from 2026-09-01 10:30:00 UTC to 2026-09-01 10:40:00 UTC",
        ),
    ],
)
def test_what_could_not_be_seen_leaves_a_loss_not_excluded(of_broker_2, words):
    text = told(of_broker_2)
    assert text.startswith("a loss is not excluded from 2026-09-01 10:00:00 UTC to 2026-09-01 12:00:00 UTC")
    assert words in text


def test_rows_of_an_earlier_hwmark_are_not_calm_until_they_are_judged_anew():
    text = told(WHOLE, older=at(-30))
    assert text.startswith("a loss is not excluded")
    assert "judged by an earlier hwmark until 2026-09-01 11:30:00 UTC: `hwmark run --rebuild` judges it anew" in text
    assert told(WHOLE, older=at(-200)).startswith("no loss is known")


def test_a_broker_that_is_known_to_be_down_starts_nothing():
    assert told([(at(-120), at(-30))], down={2: at(-30)}).startswith("no loss is known")
    assert told([(at(-120), at(-30))], down={2: at(-50)}).startswith("a loss is not excluded")  # it was back since
    assert told([(at(-120), at(-30))], down={2: at(-5)}).startswith("a loss is not excluded")  # what it did meanwhile


def test_a_hole_before_what_is_asked_for_does_not_matter():
    assert told([(at(-300), at(-200)), (at(-121), at(0))]).startswith("no loss is known")


def test_where_nothing_could_be_seen_nothing_is_judged():
    assert told([], terms={}).startswith("whether anything was lost is not known")
    assert told([], terms={}, groups=(), scope="/gone", replicas=frozenset()).startswith(
        "no loss is known"
    )  # of a topic without partitions


def test_a_stretch_goes_on_as_far_as_its_own_source_reports():
    sources = [Source("b/state-change.log", 1, at(0)), Source("b/server.log", 1, at(5)), Source("watch/b", 1, at(9))]
    row = {"broker_id": 1, "source_id": "b/state-change.log", "from_ts": at(-120)}
    assert terms_seen(sources, [row | {"to_ts": at(-1)}]) == {1: ((at(-120), at(0)),)}
    assert terms_seen(sources, [row | {"to_ts": at(-10)}]) == {1: ((at(-120), at(-10)),)}  # it names them no more


def test_a_broker_that_was_in_an_isr_counts_though_it_has_no_replicas_now():
    assert told(WHOLE, former=frozenset({1, 2})).startswith("no loss is known")
    assert "on broker 5 could not be seen" in told(WHOLE, former=frozenset({2, 5}))


def test_where_the_assignment_is_not_known_a_loss_is_not_excluded():
    text = told(WHOLE, unassigned=2)
    assert text.startswith("a loss is not excluded")
    assert "lay controller.log beside" in text


def test_stretches_a_minute_apart_are_one():
    assert join([(at(5), at(9)), (at(0), at(4)), (at(11), at(12))]) == ((at(0), at(9)), (at(11), at(12)))


def test_where_retention_may_have_taken_all_that_told_it_is_said():
    unless = ": lay state-change.log beside, unless retention took what told of them"
    assert unless in told([], terms={})
    assert unless not in told([])
