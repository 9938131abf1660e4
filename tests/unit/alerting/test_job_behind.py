"""A cluster that the job does not judge is a firing alert, by the wall clock."""

import pytest

from pipelines.alerting.behind import JobBehindSettings
from pipelines.alerting.rules import AlertRules, parse
from tests.unit.alerting.evidence_rows import alert_states, at, evidence


def behind(now, judged_once=True, limit_s=300.0, **more):
    row = {"oldest": 0, "judged_once": judged_once, "limit_s": limit_s, **more}
    return alert_states(evidence(backlog=[row]), AlertRules(), at(now))


@pytest.mark.parametrize(
    ("now", "judged_once", "limit_s", "fires"),
    [
        pytest.param(300, True, 300, False, id="five minutes"),
        pytest.param(301, True, 300, True, id="longer"),
        pytest.param(301, True, 1800, False, id="less than three intervals"),
        pytest.param(1801, True, 1800, True, id="more than three intervals"),
        pytest.param(60, False, 300, False, id="never read: not while Spark starts"),
        pytest.param(301, False, 300, True, id="never read: longer"),
    ],
)
def test_a_job_is_behind(now, judged_once, limit_s, fires):
    assert [a.rule for a in behind(now, judged_once, limit_s)] == ["job_behind"] * fires


def test_it_names_the_cluster_and_since_when():
    (alert,) = behind(900)
    assert (alert.severity, alert.subject, alert.first_ts, alert.labels) == (
        "critical", "c", at(0), {"cluster": "c", "cause": "behind"},
    )  # fmt: skip
    assert alert.summary == ("c: NOT JUDGED: `hwmark run` has not read what bronze got since 2026-11-21 12:00:00 UTC")
    assert "nothing of it is reconstructed" in behind(900, judged_once=False)[0].summary


def test_nothing_but_time_changes_in_it():
    assert behind(900)[0].says_the_same(behind(9000)[0])


@pytest.mark.parametrize(("interval_s", "limit_s"), [(0, 300), (10, 300), (100, 300), (600, 1800)])
def test_the_limit_is_five_minutes_or_three_intervals(interval_s, limit_s):
    assert JobBehindSettings().limit_s(interval_s) == limit_s


def test_it_can_be_switched_off():
    row = {"oldest": 0, "judged_once": False, "limit_s": 300.0}
    assert alert_states(evidence(backlog=[row]), parse({"job_behind": {"enabled": False}}), at(900)) == []
