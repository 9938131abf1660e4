"""What brokers answer, round by round, to the rows that a watcher writes."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from generators.cluster.asking import decoded
from generators.cluster.notes import Notes
from generators.cluster.observing.observer import FIRST_ROUND, GONE
from generators.cluster.observing.rows import Source, durations
from generators.cluster.observing.settings import BrokerSettings, SettingsSeen
from generators.cluster.watcher import Watcher, WatchOptions
from pipelines.replication.events.row_rules import split
from schemas import replication_events
from schemas.event_types import holds_s
from tests.unit.cluster.clusters import ORDERS, answer, at, observer, partitions, rows

WHAT = ("event_type", "partition", "leo", "hw")


def changed(**partition_0):
    """ORDERS with other values of partition 0."""
    leader, epoch, isr, replicas = ORDERS["orders", "o1"][0]
    new = {"leader": leader, "epoch": epoch, "isr": isr, "replicas": replicas} | partition_0
    return partitions({("orders", "o1"): [tuple(new.values()), ORDERS["orders", "o1"][1]]})


def test_the_first_round_has_every_partition_and_does_not_know_since_when():
    one = observer({})
    found = one.learn(partitions(ORDERS), at(0), 1)
    assert rows(found, "event_type", "partition", "leader_id", "isr", "detail") == [
        ("isr", 0, 1, [1, 2], "metadata"),
        ("isr", 1, 2, [1, 2], "metadata"),
    ]
    answered = one.take(answer(one, 1, 1, [100, 70], hw=[90, -1], term_start=[40, -1]))
    assert rows(answered, *WHAT, "detail") == [
        ("leader", 0, 40, -1, None),
        ("sample", 0, 100, 90, "log_epoch=0"),
        ("sample", 1, 70, None, "log_epoch=0"),
        ("progress", -1, None, None, f"{FIRST_ROUND}; holds 10 s"),
    ]


def test_what_the_first_round_shows_began_nobody_knows_when():
    first = observer({})
    first._learnt_us = None
    assert rows(first.learn(partitions(ORDERS), at(0), 1), "ts_error_ms") == [(None,), (None,)]


def test_only_what_changed_has_a_row_and_progress_says_that_the_rest_was_asked():
    one = observer()
    one.take(answer(one, 1, 0, [100, 70]))
    assert rows(one.take(answer(one, 1, 5, [100, 71])), *WHAT) == [
        ("sample", 1, 71, None),
        ("progress", -1, None, None),
    ]
    assert rows(one.take(answer(one, 1, 10, [100, 71])), "event_type") == [("progress",)]


def test_the_leaders_sample_has_what_the_metadata_says_and_a_followers_has_not():
    one = observer()
    found = one.take(answer(one, 1, 0, [100, 70], hw=[90, -1]))
    samples = [
        row[1:] for row in rows(found, "event_type", "leader_epoch", "isr", "replicas", "hw") if row[0] == "sample"
    ]
    assert samples == [(0, [1, 2], [1, 2], 90), (None, None, None, None)]


def test_an_isr_change_is_a_row_and_the_leaders_sample_again():
    one = observer()
    one.take(answer(one, 1, 1, [100, 70]))
    found = one.learn(changed(isr=[1]), at(5, error_ms=3.0), 1)
    assert rows(found, "event_type", "partition", "isr", "ts_error_ms") == [("isr", 0, [1], 5003.0)]
    assert rows(one.take(answer(one, 1, 5, [100, 70])), "event_type", "partition", "isr")[0] == ("sample", 0, [1])


def test_an_isr_change_begins_no_term():
    one = observer()
    one.take(answer(one, 1, 1, [100, 70], term_start=[0, -1]))
    one.learn(changed(isr=[1]), at(5), 1)
    assert one.terms_of(1).rows.tolist() == []


def test_a_new_term_has_its_start_from_the_new_leader_and_an_unknown_hw():
    one = observer()
    for broker in (1, 2):
        one.take(answer(one, broker, 0, [100, 70], term_start=[0, 0]))
    one.learn(changed(leader=2, epoch=1, isr=[2]), at(5), 1)
    assert one.terms_of(2).rows.tolist() == [0]
    found = rows(one.take(answer(one, 2, 6, [130, 70], hw=[130, 70], term_start=[95, -1])), *WHAT, "ts_error_ms")
    assert found[0] == ("leader", 0, 95, -1, 1000 + 5001.0 + 2.0)
    assert one.terms_of(2).rows.tolist() == []


def test_a_term_waits_for_its_start_and_for_a_leader_that_says_so():
    one = observer()
    one.learn(changed(leader=2, epoch=1), at(5), 1)
    deposed = answer(one, 2, 5, [100, 70], hw=[-1, 70], hw_error=[75, 0], term_start=[95, 0])
    kinds = rows(one.take(deposed), "event_type", "partition")
    assert ("leader", 0) not in kinds
    assert ("leader", 1) in kinds
    unknown = answer(one, 2, 10, [100, 70], term_start=[-1, -1])
    assert ("leader",) not in rows(one.take(unknown), "event_type")
    assert rows(one.take(answer(one, 2, 15, [100, 70], term_start=[95, -1])), *WHAT)[0] == ("leader", 0, 95, -1)


def test_an_hw_that_is_not_available_is_unknown_and_no_failure():
    one = observer()
    found = one.take(answer(one, 1, 0, [100, 70], hw=[-1, -1], hw_error=[78, 6]))
    assert rows(found, *WHAT)[0] == ("sample", 0, 100, None)


@pytest.mark.parametrize("error", [6, 74, 75])
def test_a_leader_that_moved_between_question_and_answer_is_no_leader(error):
    one = observer()
    found = one.take(answer(one, 1, 0, [100, 70], hw=[-1, -1], hw_error=[error, 6]))
    assert rows(found, "event_type", "hw", "isr", "leader_epoch")[0] == ("sample", None, None, None)


def test_an_hw_above_the_log_end_is_of_another_moment():
    """The log was cut between the two questions: the HW is not this log's."""
    one = observer()
    found = one.take(answer(one, 1, 0, [80, 70], hw=[90, -1]))
    assert rows(found, *WHAT)[0] == ("sample", 0, 80, None)


def test_a_partition_that_is_not_answered_is_one_lost_row_until_it_is():
    one = observer()
    one.take(answer(one, 1, 0, [100, 70]))
    lost = rows(one.take(answer(one, 1, 5, [-1, 70], error=[56, 0])), "event_type", "partition", "detail")
    assert lost[0] == ("lost", 0, "not answered: KAFKA_STORAGE_ERROR")
    assert rows(one.take(answer(one, 1, 10, [-1, 70], error=[56, 0])), "event_type") == [("progress",)]
    assert rows(one.take(answer(one, 1, 15, [100, 70])), *WHAT)[0] == ("sample", 0, 100, 100)


def test_a_partition_that_the_answer_leaves_out_is_lost_too():
    one = observer()
    found = one.take(answer(one, 1, 0, [-1, 70], error=[-2, 0]))
    assert ("lost", "not answered: no offset in the answer") in rows(found, "event_type", "detail")


def test_a_round_that_broke_off_has_no_progress():
    one = observer()
    found = one.take(answer(one, 1, 0, [100, 70], complete=False))
    assert {kind for (kind,) in rows(found, "event_type")} == {"sample"}


def test_rounds_without_an_answer_are_one_lost_row_when_it_answers_again_and_everything_anew():
    one = observer()
    one.take(answer(one, 1, 0, [100, 70]))
    for second in (5, 10, 15):
        one.missed(1, at(second).ts_us, "it does not answer in time")
    found = rows(one.take(answer(one, 1, 20, [100, 70])), "event_type", "partition", "detail")
    assert [(kind, partition) for kind, partition, _ in found] == [
        ("lost", -1),
        ("sample", 0),
        ("sample", 1),
        ("progress", -1),
    ]
    assert found[0][2].startswith("from ")
    assert found[0][2].endswith(" 3 times without an answer: it does not answer in time")


def test_each_kind_of_reason_for_which_rounds_are_missing_is_told():
    """Rows that were dropped were no alert where a broker did not answer afterwards."""
    one = observer()
    one.take(answer(one, 1, 0, [100, 70]))
    one.dropped(at(5).ts_us, "no room")
    one.missed(1, at(10).ts_us, "refused")
    one.note_pause_of_all(at(15).ts_us)
    detail = rows(one.take(answer(one, 1, 60, [100, 70])), "detail")[0][0]
    said = "once dropped: no room, once without an answer: refused, once not asked: the watcher stood still"
    assert detail.endswith(said)


@pytest.mark.parametrize(("began", "kinds"), [
    (15, ["progress"]), (16, ["lost", "sample", "sample", "progress"]),
])  # fmt: skip
def test_a_pause_of_the_watcher_between_two_rounds_is_a_hole_of_every_source(began, kinds):
    """Of 110 s with two unclean elections, in which it was stopped, "no loss is known" was said: no round had begun."""
    one = observer()
    watcher = Watcher(WatchOptions((), interval_s=5), SimpleNamespace(), one, Notes(print))
    watcher._tell_pause(at(0).ts_us)
    one.take(answer(one, 1, 0, [100, 70]))
    watcher._tell_pause(at(began).ts_us)
    found = rows(one.take(answer(one, 1, began, [100, 70])), "event_type", "detail")
    assert [kind for kind, _ in found] == kinds
    assert "lost" not in kinds or found[0][1].endswith("once not asked: the watcher stood still")
    assert found[-1][1] == ("holds 10 s" if "lost" in kinds else "holds 30 s")


def test_rows_that_could_not_be_kept_are_a_gap_of_every_source_and_everything_comes_again():
    one = observer()
    for broker in (1, 2):
        one.take(answer(one, broker, 0, [100, 70], term_start=[0, 0]))
    one.dropped(at(5).ts_us, "the lake was away")
    found = one.learn(partitions(ORDERS), at(10), 1)
    assert rows(found, "event_type") == [("lost",), ("isr",), ("isr",)]
    answered = rows(one.take(answer(one, 2, 10, [100, 70], term_start=[-1, 0])), "event_type", "partition")
    assert answered == [("lost", -1), ("leader", 1), ("sample", 0), ("sample", 1), ("progress", -1)]


def test_a_topic_that_is_deleted_is_lost_on_each_of_its_brokers():
    one = observer({**ORDERS, ("clicks", "c1"): [(1, 0, [1], [1])]})
    one.take(answer(one, 1, 0, [5, 100, 70]))
    one.take(answer(one, 2, 0, [100, 70]))
    found = one.learn(partitions(ORDERS), at(5), 2)
    assert rows(found, "event_type", "topic", "broker_id", "detail") == [("lost", "clicks", 1, GONE)]
    assert rows(one.take(answer(one, 1, 6, [100, 71])), *WHAT) == [
        ("sample", 1, 71, None),
        ("progress", -1, None, None),
    ]


def test_a_topic_that_is_recreated_begins_anew_under_its_new_id():
    one = observer()
    one.take(answer(one, 1, 0, [100, 70], term_start=[0, -1]))
    again = {("orders", "o2"): ORDERS["orders", "o1"]}
    found = one.learn(partitions(again), at(5), 1)
    assert rows(found, "event_type", "topic_id") == [("lost", "o1"), ("lost", "o1"), ("isr", "o2"), ("isr", "o2")]
    answered = rows(one.take(answer(one, 1, 6, [0, 0], term_start=[0, -1])), "event_type", "topic_id", "leo")
    assert answered[:2] == [("leader", "o2", 0), ("sample", "o2", 0)]


def test_a_new_topic_and_a_new_partition_are_rows_and_the_others_stay_as_they_were():
    one = observer()
    one.take(answer(one, 1, 0, [100, 70]))
    more = {("orders", "o1"): [*ORDERS["orders", "o1"], (1, 0, [1], [1])], ("aaa", "a1"): [(1, 0, [1], [1])]}
    found = one.learn(partitions(more), at(5), 1)
    assert rows(found, "topic", "partition") == [("aaa", 0), ("orders", 2)]
    answered = rows(one.take(answer(one, 1, 6, [7, 100, 70, 8])), "event_type", "topic", "partition")
    assert answered == [("sample", "aaa", 0), ("sample", "orders", 2), ("progress", None, -1)]


def test_a_replica_that_moves_away_is_lost_on_the_broker_it_leaves():
    one = observer()
    for broker in (1, 2):
        one.take(answer(one, broker, 0, [100, 70]))
    found = one.learn(changed(isr=[1, 3], replicas=[1, 3]), at(5), 1)
    assert rows(found, "event_type", "partition", "broker_id", "detail") == [
        ("lost", 0, 2, "no longer on broker 2"),
        ("isr", 0, 1, "metadata"),
    ]
    assert rows(one.take(answer(one, 3, 5, [0])), *WHAT)[0] == ("sample", 0, 0, None)


def test_an_answer_to_an_older_question_counts_for_what_is_still_there():
    one = observer({**ORDERS, ("clicks", "c1"): [(1, 0, [1], [1])]})
    late = answer(one, 1, 0, [5, 100, 70])
    one.learn(partitions({**ORDERS, ("a", "a1"): [(1, 0, [1], [1])]}), at(5), 1)
    assert rows(one.take(late), "topic", "partition", "leo")[:2] == [("orders", 0, 100), ("orders", 1, 70)]


def test_a_leaderless_partition_is_an_isr_row_without_a_leader():
    one = observer()
    assert rows(one.learn(changed(leader=-1, isr=[1]), at(5), 1), "leader_id", "isr") == [(-1, [1])]


def test_metadata_behind_what_is_known_is_recognised():
    known = changed(leader=2, epoch=3)
    assert partitions(ORDERS).older_than(known)
    assert not known.older_than(partitions(ORDERS))
    assert not partitions({("orders", "o2"): ORDERS["orders", "o1"]}).older_than(known)


def test_every_row_keeps_the_contract_of_bronze():
    from generators.brokerlogs.tailing.sequence_numbers import Numbering

    one = observer()
    tables = one.learn(changed(leader=-1, isr=[]), at(5), 1)[1]
    tables += one.take(answer(one, 1, 6, [100, -1], hw=[120, -1], error=[0, 3], term_start=[3, -1]))
    one.missed(1, at(7).ts_us, "gone")
    one.learn(changed(leader=1, epoch=2, isr=[1]), at(8), 1)
    tables += one.take(answer(one, 1, 9, [100, 70], hw=[100, -1], term_start=[3, -1]))
    numbered = Numbering(0).number(pa.concat_tables(tables, promote_options="default"))
    assert set(numbered["event_type"].to_pylist()) == {"isr", "sample", "lost", "leader", "progress"}
    assert numbered.schema.equals(replication_events.ARROW)
    mask, rejected = split(numbered)
    assert rejected.to_pylist() == []
    assert mask is None


def test_a_clock_set_back_makes_an_error_that_is_not_known():
    assert durations(np.array([1.5, np.nan, -3_600_000.0])).to_pylist() == [1.5, None, None]


@pytest.mark.parametrize("lag", [(1 << 31) - 1, 1 << 31, (1 << 63) - 1])
def test_a_lag_that_is_a_long_of_kafka_s_is_the_longest(lag):
    """It ended watch."""
    said = SimpleNamespace(name="replica.lag.time.max.ms", value=str(lag))
    result = SimpleNamespace(error_code=0, resource_name="1", configs=[said])
    values, _ = decoded.settings(SimpleNamespace(results=[result]))
    settings = BrokerSettings(values["1"]["replica.lag.time.max.ms"])
    (row,) = SettingsSeen().broker(Source("c", "main", 1), settings, 1)
    assert row["lag_max_ms"].to_pylist() == [(1 << 31) - 1]


def test_what_a_broker_says_no_more_is_no_row():
    seen, source = SettingsSeen(), Source("c", "main", 1)
    assert len(seen.broker(source, BrokerSettings(30_000, 2), 1)) == 1
    assert seen.broker(source, BrokerSettings(), 2) == []  # DESCRIBE_CONFIGS was withdrawn
    (changed,) = seen.broker(source, BrokerSettings(min_isr=1), 3)
    assert changed.select(["lag_max_ms", "min_isr"]).to_pylist() == [{"lag_max_ms": 30_000, "min_isr": 1}]


@pytest.mark.parametrize(("interval_s", "ends", "holds"), [
    (5, [1], 10), (5, [1, 6, 11], 10), (5, [1, 6, 14.5], 17), (5, [1, 13, 18], 24), (5, [1, 13, 18, 23], 10),
    (5, [1, 46], 60), (0.5, [1, 1.5], 10), (30, [1, 31], 60), (40, [1, 41], 80), (40, [1, 141], 80),
])  # fmt: skip
def test_a_round_holds_for_two_rounds_as_they_took_and_for_a_minute_at_most(interval_s, ends, holds):
    one = observer()
    one.interval_s = interval_s
    details = [rows(one.take(answer(one, 1, end, [100, 70])), "detail")[-1][0] for end in ends]
    assert holds_s(details[-1]) == holds


def test_a_missed_round_is_none_of_those_that_a_round_holds_for():
    one = observer()
    one.take(answer(one, 1, 1, [100, 70]))
    one.missed(1, 6_000_000, "it does not answer in time")
    assert holds_s(rows(one.take(answer(one, 1, 31, [100, 70])), "detail")[-1][0]) == 10


def test_which_brokers_reach_no_controller_is_no_change_while_none_does():
    """They are asked in turn: the sentence of an alert, and since when, changed with each round."""
    one = observer()
    answers = ("none is reached by brokers 1, 2", "none is reached by brokers 1, 3", "3 voters", "none is reached by 3")
    told = [one.quorum(1, f"quorum: {answer}", at(second)) for second, answer in enumerate(answers)]
    said = [detail.removeprefix("quorum: ") for table in told for (detail,) in rows(table, "detail")]
    assert said == [answers[0], answers[0], *answers[2:]]
