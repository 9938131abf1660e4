"""The alert of a watcher that sees nothing of a cluster: it blames the watcher, and no broker."""

import pytest

from pipelines.alerting.evaluate import evaluate
from pipelines.alerting.lookup import read_incidents
from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter
from pipelines.verdict import Limits, verdict
from pipelines.verdict.collect import survey
from schemas import brokers, replication_events
from schemas.brokers import CUT_OFF
from tests.unit.alerting.evidence_rows import at
from tests.unit.alerting.test_evaluate import health, no_counts, progress, put

pytestmark = pytest.mark.long


def told(lake, seconds, *rounds, cluster="c", **of_source):
    """The alerts at `seconds`, after the watcher's rounds at these times were read."""
    rows = [
        progress(ts, f"watch/w/broker-{b}", "holds 10 s", ts) | {"broker_id": b, "level": 1, "cluster": cluster}
        for ts in rounds
        for b in (1, 2)
    ]
    put(lake, replication_events, *({"topic": None, **row, **of_source} for row in rows))
    return [(s.rule, s.severity, s.firing, s.summary) for s in evaluate(lake, now=at(seconds))]


@pytest.fixture
def lake(tmp_path):
    place = str(tmp_path / "lake")
    health(place, 0)
    return place


def test_a_watcher_that_tells_nothing_is_one_alert_after_a_minute_and_ends_as_it_tells_again(lake):
    assert told(lake, 59, 0) == []
    ((rule, severity, firing, summary),) = told(lake, 60)
    assert (rule, severity, firing) == ("watcher_cut_off", "critical", True)
    assert summary.startswith(
        "c: NOT JUDGED: the watcher has told nothing since 2026-11-21 12:00:00 UTC: it is late, stopped"
    )
    assert [rule for rule, *_ in told(lake, 900)] == ["watcher_cut_off"], "its silent sources are the same thing"
    ((rule, _, firing, _),) = told(lake, 905, 904)
    assert (rule, firing) == ("watcher_cut_off", False)


def test_a_watcher_that_no_broker_answers_says_so_itself(lake):
    answers = {"state": "unknown", "since": at(0), "reason": CUT_OFF, "witness": "watcher", "ts": at(60)}
    put(lake, brokers, *(no_counts("c", broker, **answers) for broker in (1, 2)))
    ((rule, _, firing, summary),) = told(lake, 60, 0)
    assert (rule, firing) == ("watcher_cut_off", True)
    assert "no broker has answered the watcher since 2026-11-21 12:00:00 UTC" in summary
    assert "or all brokers are down" in summary


def test_a_watcher_that_no_broker_answers_is_no_alert_where_a_log_tells_of_the_cluster(lake):
    answers = {"state": "unknown", "since": at(0), "reason": CUT_OFF, "witness": "watcher", "ts": at(60)}
    put(lake, brokers, *(no_counts("c", broker, **answers) for broker in (1, 2)))
    put(lake, replication_events, *(progress(55, f"broker-{b}/x") | {"topic": None, "broker_id": b} for b in (1, 2)))
    assert told(lake, 60, 0) == []
    limits = Limits()
    (record,) = survey(Lake(lake), Filter(), limits.since, limits, at(60)).records
    assert not any("answer" in line.text for line in verdict(record, limits, at(60)).lines)


def test_where_a_log_tells_of_the_cluster_its_watcher_is_a_silent_source(lake):
    put(lake, replication_events, progress(899) | {"topic": None})
    told(lake, 10, 0)
    put(lake, replication_events, progress(899, "broker-2/server.log") | {"topic": None, "broker_id": 2})
    assert [rule for rule, *_ in told(lake, 900)] == ["stale_source"]


def test_a_watcher_that_sees_nothing_of_two_clusters_is_one_incident_of_hwmark(lake):
    told(lake, 1, 0)
    assert len(told(lake, 60, 0, cluster="d")) == 2
    (incident,) = read_incidents(Lake(lake))
    assert (incident.cluster, incident.cause, len(incident.firing)) == ("", "watcher_cut_off", 2)
    assert incident.summary.startswith("WATCHER CUT OFF hwmark: ")
    assert "c" in incident.summary.split(": ")[1]


def test_an_evaluation_reads_gold_of_brokers_once(lake, monkeypatch):
    put(lake, brokers, no_counts("c", 1, ts=at(60)))
    opened, find = [], Lake.find
    monkeypatch.setattr(Lake, "find", lambda place, table: opened.append(place.path(table)) or find(place, table))
    told(lake, 60, 0)
    assert opened.count("gold/brokers") == 1
