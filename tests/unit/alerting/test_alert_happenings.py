"""Losses, disagreements, gaps and silent sources."""

import json

import pytest

from pipelines.alerting.alerts import conditions, waits
from pipelines.alerting.rules import AlertRules, parse
from tests.unit.alerting.evidence_rows import alert_states, at, evidence, states

FALL = {
    "ts": 0, "topic": "clicks", "regression_id": "r0", "class": "unclean_loss", "severity": "critical", "leader_id": 2,
    "leader_id_before": 1, "hw_before": 300, "hw_after": 120, "lost_from": 120, "lost_to": 300, "lost_records": 180,
    "proof": "proven", "revision": 1,
}  # fmt: skip


def alerts(found, rules=None, now=0):
    return alert_states(found, rules or AlertRules(), at(now))


def test_loss_is_told_at_once_with_its_range():
    (alert,) = alerts(evidence(0, regressions=[FALL]))
    assert (alert.rule, alert.severity, alert.state) == ("loss", "critical", "firing")
    assert alert.summary == (
        "c: LOST: 180 offsets in 1 partition: unclean election of broker 2 after broker 1 at 2026-11-21 12:00:00 UTC: "
        "clicks-0 offsets 120..299"
    )
    assert alert.labels["range"] == "clicks-0 [120, 300)"
    assert (alert.labels["topic"], alert.labels["partition"]) == ("clicks", "0")


def test_losses_of_one_election_are_one_alert():
    second = FALL | {"partition": 1, "regression_id": "r1", "ts": 2}
    (alert,) = alerts(evidence(5, regressions=[FALL, second]))
    assert alert.summary.startswith("c: LOST: 360 offsets in 2 partitions: unclean election of broker 2")
    assert alert.labels["ranges"] == "clicks-0 [120, 300), clicks-1 [120, 300)"


def test_a_later_loss_pages_again():
    second = FALL | {"regression_id": "r1", "ts": 600}
    found = alerts(evidence(700, regressions=[FALL, second]))
    assert len({a.alert_id for a in found if a.firing}) == 2


@pytest.mark.parametrize(
    ("told", "now", "counts"),
    [
        pytest.param([0], [-50, 0], [2], id="an earlier fall was decided later"),
        pytest.param([0, 50], [50], [1], id="the first fall is none any more"),
        pytest.param([0], [-90, 0], [1, 1], id="another incident"),
        pytest.param([0, 100], [0, 50, 100], [2, 1], id="between two that were told"),
        pytest.param([0, 100], [50, 100], [1, 1], id="between two, of which the first is no more"),
        pytest.param([0], [0, 30, 60, 90, 130], [5], id="each close to the one before"),
    ],
)
def test_an_incident_that_was_told_stays_the_alert_that_it_was(told, now, counts):
    falls = {ts: FALL | {"ts": ts, "regression_id": f"r{ts}", "partition": ts + 100} for ts in (*told, *now)}
    stored = alerts(evidence(200, regressions=[falls[ts] for ts in told]))
    found = alert_states(evidence(200, regressions=[falls[ts] for ts in now]), AlertRules(), at(0), stored)
    assert [int(a.labels["count"]) for a in found] == counts
    assert {(a.episode, a.subject) for a in stored} <= {(a.episode, a.subject) for a in found}


@pytest.mark.parametrize("other", [{"cluster": "d"}, {"severity": "warning"}], ids=["cluster", "rule"])
def test_an_incident_of_another_cluster_or_rule_is_another_alert(other):
    stored = alerts(evidence(200, regressions=[FALL]))
    found = alert_states(evidence(200, regressions=[FALL | {"ts": 5} | other]), AlertRules(), at(0), stored)
    assert stored[0].episode not in {a.episode for a in found}


POWER = FALL | {"class": "committed_loss", "leader_id": 3}


def test_one_power_failure_is_one_alert():
    """It gave three critical ones, one for each partition: 3 led before, or 1, or 2."""
    rows = [POWER | {"partition": n, "regression_id": f"r{n}", "leader_id_before": n + 1, "ts": n} for n in range(3)]
    (alert,) = alerts(evidence(5, regressions=[*rows, FALL | {"regression_id": "u", "ts": 50}]))
    assert (alert.rule, alert.subject) == ("loss", "incident at 2026-11-21T12:00:00Z")
    assert alert.summary == (
        "c: LOST: 720 offsets in 3 partitions: broker 3 began leading from a log that ends below the HW from "
        "2026-11-21 12:00:00 UTC to 2026-11-21 12:00:02 UTC: clicks-0 offsets 120..299, clicks-1 offsets 120..299, "
        "clicks-2 offsets 120..299; unclean election of broker 2 after broker 1 at 2026-11-21 12:00:50 UTC: "
        "clicks-0 offsets 120..299"
    )
    assert alert.labels["cause"] == "committed_loss, unclean_loss"
    assert alert.labels["count"] == "3"


def test_the_losses_of_two_clusters_are_two_alerts():
    rows = [FALL, FALL | {"cluster": "d", "regression_id": "d"}]
    assert {a.summary[:8] for a in alerts(evidence(5, regressions=rows))} == {"c: LOST:", "d: LOST:"}


def test_bounded_loss_says_at_least():
    (alert,) = alerts(evidence(0, regressions=[FALL | {"proof": "bounded"}]))
    assert alert.summary.startswith("c: LOST: at least 180 offsets in 1 partition: ")


def test_unproven_loss_is_a_warning():
    (alert,) = alerts(evidence(0, regressions=[FALL | {"severity": "warning", "proof": "unproven"}]))
    assert (alert.rule, alert.severity) == ("unproven_loss", "warning")
    assert alert.summary.startswith("c: LOSS NOT EXCLUDED: 180 offsets may be gone in 1 partition, unproven: ")


def test_a_loss_that_is_not_excluded_is_no_loss_and_says_what_is_missing():
    row = POWER | {
        "class": "loss_not_excluded", "severity": "info", "proof": "unproven", "lost_from": None, "lost_to": None,
        "lost_records": None, "evidence": '{"missing": ["the HW of broker 1"], "start_offset": 5}',
    }  # fmt: skip
    rows = [row | {"partition": n, "regression_id": f"r{n}"} for n in range(5)]
    (alert,) = alerts(evidence(5, regressions=rows))
    assert (alert.rule, alert.severity) == ("loss_not_excluded", "info")
    assert alert.summary == (
        "c: LOSS NOT EXCLUDED: broker 3 began leading after broker 1 at 2026-11-21 12:00:00 UTC in 5 partitions "
        "(clicks-0, clicks-1, clicks-2 and 2 more); missing: the HW of broker 1"
    )


BOUND = "an upper bound of the HW before"


@pytest.mark.parametrize(
    ("missing", "level", "clock", "told"),
    [
        pytest.param([BOUND, "an answer of broker 2 in every round before"], 1, 7, False, id="within two rounds"),
        pytest.param([BOUND, "an answer of broker 2 in every round before"], 1, 8, True, id="after two rounds"),
        pytest.param([BOUND, "whether broker 2 has started again"], 1, 1, False, id="the second before"),
        pytest.param([BOUND, "whether broker 2 has started again"], 3, 1, True, id="logs tell at once"),
        pytest.param([BOUND, "a clean election", "whether broker 2 has started again"], 1, 1, True, id="nor clean"),
    ],
)
def test_a_loss_not_excluded_that_only_awaits_a_restarts_answer_is_pending_for_two_rounds(missing, level, clock, told):
    row = FALL | {"class": "loss_not_excluded", "severity": "warning", "proof": "unproven", "level": level}
    watcher = {"source_id": "watch/main/broker-1", "broker_id": 1, "reported_to": clock, "holds_s": 10}
    seen = evidence(clock, regressions=[row | {"evidence": json.dumps({"missing": missing})}], reported=[watcher])
    assert [alert.rule for alert in alerts(seen)] == ["unproven_loss"] * told
    waiting = waits(conditions(seen, AlertRules(), at(clock)))
    assert [(one.rule, one.partitions, one.fires - one.since) for one in waiting] == [
        ("unproven_loss", 1, 7_500_000)
    ] * (not told)


def test_hw_moved_back_names_both_values():
    fall = FALL | {"class": "hw_moved_back", "lost_from": None, "lost_to": None, "lost_records": None}
    (alert,) = alerts(evidence(0, regressions=[fall]))
    assert alert.summary.endswith("HW moved back under broker 2 at 2026-11-21 12:00:00 UTC: clicks-0 HW 300 to 120")


def test_harmless_falls_are_not_told():
    assert states(evidence(0, regressions=[FALL | {"class": "stale_leader_hw", "severity": "info"}])) == []


def test_only_the_last_revision_of_a_verdict_counts():
    harmless = FALL | {"revision": 2, "severity": "info", "class": "stale_leader_hw"}
    assert states(evidence(0, regressions=[harmless, FALL])) == []


def test_disagreements_of_a_broker_are_one_alert_that_ends_an_hour_after_the_last():
    rows = [{"ts": ts, "leader_id": 1, "hw": 10, "reported_hw": 11, "partition": ts} for ts in (0, 3000)]
    assert states(evidence(6599, disagreements=rows)) == [("disagreement", "firing", "broker 1", 0, 3000)]
    assert states(evidence(6600, disagreements=rows)) == [("disagreement", "resolved", "broker 1", 0, 3000)]
    (alert,) = alerts(evidence(6599, disagreements=rows))
    assert alert.summary == (
        "c: 2 HW reports of broker 1 in 2 partitions disagree with the reconstruction, "
        "the last at orders-3000: reported 11, computed 10"
    )


def test_gaps_by_source_and_only_of_the_kinds_asked_for():
    gap = {"ts": 0, "source_id": "broker-1/replication.log", "series": "source", "seq_from": 5, "seq_to": 9}
    rows = [gap | {"kind": kind} for kind in ("gap", "late", "reset")]
    found = evidence(0, gaps=rows)
    assert states(found) == [("gap", "firing", "broker-1/replication.log", 0, 0)]
    late_too = parse({"gap": {"kinds": ["gap", "late"]}})
    assert sorted(a.labels["cause"] for a in alerts(found, late_too)) == ["gap", "late"]


def test_rounds_that_a_broker_did_not_answer_a_watcher_are_no_gap_to_tell():
    gap = {"ts": 0, "source_id": "watch/main/broker-2", "series": "source", "seq_from": 5, "seq_to": 5, "kind": "gap"}
    told = [("gap", "firing", "watch/main/broker-2", 0, 0)]
    refused, dropped, still = "3 times without an answer: refused", "once dropped: no room", "once not asked: it stood"
    for reasons, expected in (
        ([refused], []), ([dropped], told), ([still], told), ([refused, still], told), ([dropped, refused], told)
    ):  # fmt: skip
        detail = f"from a to b {', '.join(reasons)}"
        assert states(evidence(0, gaps=[gap | {"detail": detail}])) == expected, reasons


def test_what_was_offered_and_not_understood_is_critical_and_no_gap_beside():
    """Its first line stays out of messages to channels."""
    gap = {"ts": 0, "series": "source", "seq_from": 5, "seq_to": 5, "kind": "gap"}
    detail = "unread: nothing of it was understood, its first line is 'x'"
    (alert,) = alerts(evidence(0, gaps=[gap | {"source_id": "h/app.log", "detail": detail}]))
    assert (alert.rule, alert.severity, alert.labels["cause"]) == ("broker_unread", "critical", "unread")
    assert alert.summary == "c: 1 source offered and not understood: h/app.log; `hwmark show verdict` says why"


def test_gaps_of_one_incident_are_one_alert():
    gap = {"series": "source", "seq_from": 5, "seq_to": 9, "kind": "gap"}
    rows = [gap | {"ts": n, "source_id": f"broker-{n}/server.log"} for n in (1, 2, 3)]
    (alert,) = alerts(evidence(9, gaps=[*rows]))
    assert alert.summary == (
        "c: telemetry of broker-1/server.log, broker-2/server.log, broker-3/server.log: 3 rows of kind gap"
    )
    later = gap | {"ts": 900, "source_id": "broker-9/server.log"}
    assert len(alerts(evidence(901, gaps=[*rows, later]))) == 2


def test_stale_source_by_the_wall_clock():
    got = [
        {"source_id": f"broker-1/{log}.log", "broker_id": 1, "reported_to": 0} for log in ("controller", "replication")
    ]
    found = evidence(0, reported=got)
    assert states(found, now=300) == []
    (alert,) = alerts(found, now=301)
    subject = "broker-1/controller.log, broker-1/replication.log"
    assert (alert.rule, alert.subject, alert.first_ts) == ("stale_source", subject, at(0))
    assert alert.summary == (
        "c: 2 sources of broker 1 silent since 2026-11-21 12:00:00 UTC: broker-1/controller.log, "
        "broker-1/replication.log"
    )
    assert alert.labels["sources"] == "broker-1/controller.log, broker-1/replication.log"


def test_the_silent_sources_of_a_cluster_are_one_alert():
    """13 sources of a cluster that nobody drained gave 13 warnings."""
    sources = [{"source_id": f"broker-{n}/server.log", "broker_id": n, "reported_to": n} for n in range(1, 14)]
    found = evidence(
        0, reported=[*sources, {"cluster": "d", "source_id": "broker-1/server.log", "broker_id": 1, "reported_to": 0}]
    )
    got = {alert.labels["cluster"]: alert for alert in alerts(found, now=900)}
    assert len(alerts(found, now=900)) == len(got) == 2
    assert len(got["c"].labels["sources"].split(", ")) == 13


def test_a_closed_cluster_has_no_stale_source_until_it_tells_again():
    got = {"source_id": "broker-1/replication.log", "broker_id": 1}
    assert states(evidence(0, reported=[got | {"reported_to": 0}], closed=[{}]), now=900) == []
    assert len(states(evidence(0, reported=[got | {"reported_to": 0}]), now=900)) == 1


def test_a_disabled_rule_is_silent():
    assert states(evidence(0, regressions=[FALL]), parse({"loss": {"enabled": False}})) == []


def test_no_evidence_no_alerts():
    assert states(evidence()) == []
