"""Brokers that do not answer a watcher, as a lake has them: what they lead is unknown, what they follow at risk."""

from datetime import timedelta

import pytest

from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter
from pipelines.verdict import Limits, sources, verdict
from pipelines.verdict.collect import survey
from schemas import brokers, partition_health, replication_events
from tests.unit.alerting.evidence_rows import at
from tests.unit.alerting.test_evaluate import PLACE, no_counts, progress, put

PLACED = {"ar": [1, 2, 3], "isr": [1, 2, 3], "osr": [], "out_of_sync": [], "offline": False, "under_replicated": False}
SOUND = PLACE | PLACED | {"under_min_isr": False, "stalled_ms": 0, "level": 1, "last_event_ts": at(100)}


def said(tmp_path, states, now=110, places=None, **told):
    sources._seen.clear()
    lake = str(tmp_path / "lake")
    for broker in (1, 2, 3):
        row = progress(100 if states.get(broker) else 105, f"watch/main/broker-{broker}") | {"level": 1, "topic": None}
        put(lake, replication_events, row | {"broker_id": broker})
        reason = {
            "state": states.get(broker, "answers"),
            "witness": "watcher",
            "since": at(101),
            "reason": brokers.CUT_OFF if len(states) == 3 else "refused",
        }
        put(lake, brokers, no_counts("c", broker, ts=at(105), **reason, **told))
    several = [{"partition": number, "leader_id": leader} for number, leader in enumerate((1, 3))]
    several.append({"partition": 2, "leader_id": 3, "ar": [3], "isr": [3]})
    put(lake, partition_health, *(SOUND | one for one in places or several))
    limits = Limits(since=timedelta(days=1))
    (record,) = survey(Lake(lake), Filter(), limits.since, limits, at(now)).records
    return [line.text for line in verdict(record, limits, at(now)).lines if line.part != "history"]


def test_all_brokers_answer(tmp_path):
    assert said(tmp_path, {})[1].startswith("OK: 3 partitions, every replica in the ISR")


@pytest.mark.parametrize(("state", "words"), [("no_answer", "does not answer"), ("down", "is down")])
def test_one_does_not(tmp_path, state, words):
    unknown, risk, *_ = said(tmp_path, {3: state})
    assert unknown.startswith(f"UNKNOWN: broker 3 {words} since 2026-11-21 12:01:41 UTC: how 2 of 3 partitions stand")
    assert (
        risk
        == f"AT RISK: broker 3 {words} since 2026-11-21 12:01:41 UTC: 1 of 3 partitions has a replica less to count on"
    )


def test_none_does_and_the_watcher_is_blamed(tmp_path):
    first, *_ = said(tmp_path, dict.fromkeys((1, 2, 3), "unknown"))
    assert first.startswith("NOT JUDGED: no broker has answered the watcher since 2026-11-21 12:01:41 UTC")


def test_a_watcher_that_has_ended_claims_nothing_for_longer_than_a_minute(tmp_path):
    assert said(tmp_path, {}, now=165)[1].startswith("OK: ")
    unknown, *_ = said(tmp_path / "later", {}, now=166)
    assert unknown.startswith("UNKNOWN: brokers 1, 3 stopped reporting: how 3 of 3 partitions stand is not known")


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
        (
            "quorum: 3 voters, 2 caught up, none to spare",
            f"; the controllers have none to spare since {SINCE}: 3 voters, 2 caught up",
        ),
        ("quorum: not looked at: no right (DESCRIBE on the cluster)", "; quorum not looked at: no right"),
        ("quorum: 3 voters, 3 caught up", "as last answered, 5 s ago at most"),
    ],
)
def test_what_else_is_told_of_the_controllers_stands_beside(tmp_path, told, words):
    sound = said(tmp_path, {}, quorum=told, quorum_since=at(90))[1]
    assert sound.startswith("OK: ")
    assert words in sound


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
    assert risk.endswith(f"1 partition has a replica less to count on{words}")
