"""Brokers that do not answer a watcher, as a lake has them: what they lead is unknown, what they follow at risk."""

from datetime import timedelta

import pytest

from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter, microseconds
from pipelines.verdict import Limits, sources, verdict
from pipelines.verdict.collect import survey
from pipelines.verdict.heard import quorum_now
from pipelines.verdict.judged import answers_age
from pipelines.verdict.records import ClusterRecord, Source
from schemas import brokers, partition_health, replication_events
from schemas.event_types import NOT_LOOKED_AT
from tests.unit.alerting.evidence_rows import at
from tests.unit.alerting.test_evaluate import PLACE, no_counts, progress, put

PLACED = {"ar": [1, 2, 3], "isr": [1, 2, 3], "osr": [], "out_of_sync": [], "offline": False, "under_replicated": False}
SOUND = PLACE | PLACED | {"under_min_isr": False, "stalled_ms": 0, "level": 1, "last_event_ts": at(100)}


def said(tmp_path, states, now=110, places=None, reason=None, **told):
    sources._seen.clear()
    lake = str(tmp_path / "lake")
    for broker in (1, 2, 3):
        row = progress(100 if states.get(broker) else 105, f"watch/main/broker-{broker}") | {"level": 1, "topic": None}
        put(lake, replication_events, row | {"broker_id": broker})
        state = {
            "state": states.get(broker, "answers"),
            "witness": "watcher",
            "since": at(101),
            "reason": reason or (brokers.CUT_OFF if len(states) == 3 else "refused"),
        }
        put(lake, brokers, no_counts("c", broker, ts=at(105), **state, **told))
    several = [{"partition": number, "leader_id": leader} for number, leader in enumerate((1, 3))]
    several.append({"partition": 2, "leader_id": 3, "ar": [3], "isr": [3]})
    put(lake, partition_health, *(SOUND | one for one in places or several))
    limits = Limits(since=timedelta(days=1))
    (record,) = survey(Lake(lake), Filter(), limits.since, limits, at(now)).records
    return [line.text for line in verdict(record, limits, at(now)).lines if line.part != "history"]


def test_all_brokers_answer(tmp_path):
    sound = said(tmp_path, {})[1]
    assert sound.startswith("OK: 3 partitions, every replica in the ISR")
    assert sound.endswith("; no redundancy: 1 partition")


@pytest.mark.parametrize(("state", "words"), [("no_answer", "does not answer"), ("down", "is down")])
def test_one_does_not(tmp_path, state, words):
    unknown, risk, *_ = said(tmp_path, {3: state})
    assert unknown.startswith(f"UNKNOWN: broker 3 {words} since 2026-11-21 12:01:41 UTC: how 2 of 3 partitions stand")
    assert risk == (
        f"AT RISK: broker 3 {words} since 2026-11-21 12:01:41 UTC: 1 of 3 partitions has a replica less to count on, "
        "as of 5 s ago at most"
    )


@pytest.mark.parametrize(
    ("quorum", "words"), [(NOT_LOOKED_AT, " (or being added)"), ("quorum: 3 voters, 3 caught up", "")]
)
def test_where_reassignments_cannot_be_asked_for_a_replica_may_be_being_added(tmp_path, quorum, words):
    place = SOUND | {"isr": [1, 2], "osr": [3], "under_replicated": True, "leader_id": 1}
    risk, *_ = said(tmp_path, {}, places=[place], quorum=quorum, quorum_since=at(90))
    assert risk.startswith(f"AT RISK: broker 3 out of the ISR{words}: 1 partition")


def test_none_does_and_the_watcher_is_blamed(tmp_path):
    first, *_ = said(tmp_path, dict.fromkeys((1, 2, 3), "unknown"))
    assert first.startswith("NOT JUDGED: no broker has answered the watcher since 2026-11-21 12:01:41 UTC")


def test_a_watcher_that_tells_of_missed_answers_is_not_said_to_tell_nothing(tmp_path):
    """One round without an answer of anybody: for 43 s it passed for a watcher that was stopped or paused."""
    missed = dict.fromkeys((1, 2, 3), "unknown")
    first, *_ = said(tmp_path, missed, now=161, reason="one round without an answer: timed out")
    assert first.startswith("NOT JUDGED: no broker has answered the watcher since 2026-11-21 12:01:41 UTC: its host")


def test_a_watcher_that_has_ended_claims_nothing_for_longer_than_a_minute(tmp_path):
    assert said(tmp_path, {}, now=165)[1].startswith("OK: ")
    not_judged, what_to_do, present, *_ = said(tmp_path / "later", {}, now=166)
    assert not_judged.startswith(
        "NOT JUDGED: the watcher has told nothing since 2026-11-21 12:01:45 UTC: it is late, stopped"
    )
    assert what_to_do.startswith(
        "NOT JUDGED: look at its host and start `hwmark watch` again, or `hwmark run --once --drain`"
    )
    assert present == "when last judged, 3 partitions were in sync"


@pytest.mark.parametrize(
    ("silent", "words"),
    [
        ({2: "down", 3: "down"}, "OFFLINE: brokers 2, 3 gone: 1 partition offline, as of 5 s ago at most"),
        ({}, "OFFLINE: 1 partition offline; which brokers must come back is not known, as of 5 s ago at most"),
    ],
)
def test_who_is_gone_of_an_offline_partition_without_an_isr_are_its_replicas_that_do_not_answer(
    tmp_path, silent, words
):
    """With eligible leader replicas (Kafka 4.1) the last one in sync leaves the ISR, too."""
    place = {"leader_id": -1, "offline": True, "isr": [], "ar": [2, 3], "under_replicated": True}
    assert words in said(tmp_path, silent, places=[place])


GONE = "quorum: none is reached by brokers 1, 2"
SINCE = "2026-11-21 12:01:30 UTC"


def test_no_controller_is_at_risk_whatever_else_is_sound(tmp_path):
    words = f"AT RISK: no controller since {SINCE} (told by brokers 1, 2): no ISR or leader can change; "
    told = said(tmp_path, {}, quorum=GONE, quorum_since=at(90))
    assert f"{words}metadata is of then" in told
    assert not any(line.startswith("OK: ") for line in told)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("quorum: 3 voters, 1 caught up, without 2 3, none to spare", "the controllers have no majority since"),
        (
            "quorum: 3 voters, 2 caught up, none to spare",
            f"the controllers have none to spare since {SINCE}: 3 voters, 2 caught up",
        ),
        ("quorum: not looked at: no right (DESCRIBE on the cluster)", "; quorum not looked at: no right"),
        ("quorum: 3 voters, 3 caught up", "as last answered, 5 s ago at most"),
    ],
)
def test_what_else_is_told_of_the_controllers_stands_beside(tmp_path, told, words):
    sound, *beside = said(tmp_path, {}, quorum=told, quorum_since=at(90))[1:]
    assert sound.startswith("OK: ")
    assert words in "; ".join([sound, *beside])


def test_a_watcher_that_has_ended_tells_nothing_of_the_controllers(tmp_path):
    assert not any("controller" in line for line in said(tmp_path, {}, now=166, quorum=GONE, quorum_since=at(90)))


@pytest.mark.parametrize(
    ("min_isr", "isr", "words"),
    [
        (1, [1, 2, 3], ""),
        (None, [1, 2, 3], ""),
        (2, [1, 2, 3], " (one more failure: 1 stops acks=all)"),
        (2, [1, 3], " (one more failure: 1 goes offline)"),
    ],
)
def test_how_far_one_more_failure_goes_counts_who_answers(tmp_path, min_isr, isr, words):
    """Broker 3 is gone, and still in the ISR."""
    place = {"partition": 7, "leader_id": 1, "min_isr": min_isr, "isr": isr}
    told = said(tmp_path, {3: "down"}, places=[place])
    (risk,) = (line for line in told if line.startswith("AT RISK"))
    assert risk.endswith(f"1 partition has a replica less to count on{words}, as of 5 s ago at most")


def reported(seconds, broker, detail, kind="broker_state", number=0):
    row = progress(seconds, f"watch/main/broker-{broker}", detail, number)
    return row | {"level": 1, "topic": None, "broker_id": broker, "event_type": kind, "replica_id": broker}


def said_beside(tmp_path, *rows, now=110, anew=False):
    """What is said where bronze has rows that `run` has not read yet; all brokers answered until 105."""
    said(tmp_path, {})
    lake = Lake(str(tmp_path / "lake"))
    put(lake.root, replication_events, *rows)
    if anew:
        sources._seen.clear()
    limits = Limits(since=timedelta(days=1))
    (record,) = survey(lake, Filter(), limits.since, limits, at(now)).records
    return [line.text for line in verdict(record, limits, at(now)).lines if line.part == "present"]


REFUSED, LATE = "no_answer: refused", "no_answer: timed out"
SINCE_106 = "2026-11-21 12:01:46 UTC"


@pytest.mark.parametrize("anew", [True, False])
def test_what_brokers_answered_after_run_wrote_last_counts(tmp_path, anew):
    """Whether the process has read bronze before, or reads all of it."""
    unknown, risk = said_beside(tmp_path, reported(106, 3, REFUSED), anew=anew)
    assert unknown.startswith(f"UNKNOWN: broker 3 does not answer since {SINCE_106}: how 2 of 3 partitions stand")
    assert risk.startswith(f"AT RISK: broker 3 does not answer since {SINCE_106}: 1 of 3 partitions")


@pytest.mark.parametrize("anew", [True, False])
def test_a_state_without_a_word_is_quarantine_and_no_answer(tmp_path, anew):
    assert said_beside(tmp_path, reported(106, 3, None), anew=anew)[0].startswith("OK: 3 partitions")


def test_one_missed_answer_changes_nothing_and_the_second_counts(tmp_path):
    assert said_beside(tmp_path, reported(106, 3, LATE))[0].startswith("OK: 3 partitions")
    rows = [reported(106, 3, LATE), reported(109, 3, LATE, number=1)]
    assert said_beside(tmp_path / "two", *rows)[0].startswith(f"UNKNOWN: broker 3 does not answer since {SINCE_106}")


def test_a_broker_that_answers_again_is_believed_before_run_has_read_it(tmp_path):
    rows = [reported(106, 3, REFUSED), reported(108, 3, "answers", number=1)]
    assert said_beside(tmp_path, *rows)[0].startswith("OK: 3 partitions")


def test_whom_the_others_list_no_more_is_down_at_once(tmp_path):
    unknown, _ = said_beside(tmp_path, reported(106, 3, f"{REFUSED}, not listed"))
    assert unknown.startswith(f"UNKNOWN: broker 3 is down since {SINCE_106}")


def test_where_no_broker_answers_any_more_the_watcher_is_blamed_before_run_has_read_it(tmp_path):
    rows = [reported(106 + broker, broker, REFUSED) for broker in (1, 2, 3)]
    assert said_beside(tmp_path, *rows)[0].startswith("when last judged, ")


def test_what_run_has_not_read_makes_what_is_said_of_partitions_no_newer(tmp_path):
    """Brokers answered 2 s ago, and `run` has come to 105."""
    rounds = [reported(108, broker, "holds 10 s", "progress") for broker in (1, 2, 3)]
    assert "as last answered, 5 s ago at most; " in said_beside(tmp_path, *rounds)[0]


def test_a_leader_whose_last_round_holds_no_longer_is_unknown(tmp_path):
    rounds = [reported(106, broker, "holds 10 s", "progress") for broker in (1, 2, 3)]
    assert said_beside(tmp_path, *rounds, now=116)[0].startswith("OK: 3 partitions")
    later = [reported(112, broker, "holds 10 s", "progress", number=1) for broker in (1, 2)]
    unknown, risk = said_beside(tmp_path / "later", *rounds, *later, now=117)
    assert unknown.endswith("is not known; before, 2 partitions were in sync")
    assert risk.startswith(
        f"AT RISK: broker 3 has not answered since {SINCE_106}: 1 of 3 partitions has a replica less"
    )
    assert unknown.startswith(f"UNKNOWN: broker 3 has not answered since {SINCE_106}: how 2 of 3 partitions stand")


def test_the_newest_word_on_the_controllers_counts_with_its_own_time(tmp_path):
    told = said_beside(tmp_path, reported(107, 1, GONE), reported(109, 2, GONE))
    assert any(line.startswith("AT RISK: no controller since 2026-11-21 12:01:47 UTC") for line in told)


def test_of_two_watchers_words_on_the_controllers_one_counts_with_its_own_time():
    """The greatest words and the greatest time came from different rows."""
    rows = [{"quorum": GONE, "quorum_since": at(90)}, {"quorum": "quorum: 3 voters", "quorum_since": at(80)}]
    assert quorum_now(rows) == (GONE, microseconds(at(90)))
    rows[1]["quorum_since"] = at(95)
    assert quorum_now(rows) == ("quorum: 3 voters", microseconds(at(95)))


def test_a_second_watcher_that_ended_makes_no_answer_older():
    """The cluster was UNKNOWN for ever, though the first watcher had an answer of every broker."""
    first = [Source(f"watch/main/broker-{broker}", broker, at(100 + broker)) for broker in (1, 2)]
    second = [Source(f"watch/laptop/broker-{broker}", broker, at(7)) for broker in (1, 2)]
    record = ClusterRecord("c", judged_to=at(102), sources=(*first, *second))
    assert answers_age(record, at(110)) == timedelta(seconds=9)
