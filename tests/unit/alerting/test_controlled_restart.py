"""A recognised controlled restart wakes nobody; a crash, and a restart that does not end, do."""

import pytest

from pipelines.alerting.rules import AlertRules
from tests.unit.alerting.evidence_rows import evidence, states

GONE = [{"ts": 10, "replica_id": 3, "state": "out_of_sync", "reason": "silent"}]


def got(ts, detail, broker=3, epoch=7):
    return {"ts": ts, "replica_id": broker, "detail": detail, "broker_epoch": epoch}


SHUTDOWN = got(0, "controlled_shutdown")


@pytest.mark.parametrize(
    ("brokers", "clock", "fires"),
    [
        pytest.param([], 610, True, id="a crash"),
        pytest.param([got(0, "fenced")], 610, True, id="fenced is no controlled shutdown"),
        pytest.param([SHUTDOWN], 899, False, id="within the limit"),
        pytest.param([SHUTDOWN], 900, True, id="the limit has passed"),
        pytest.param([got(0, "controlled_shutdown", broker=2)], 610, True, id="another broker's restart"),
        pytest.param([SHUTDOWN, got(500, "unfenced", epoch=8)], 1099, False, id="back: ten minutes to catch up"),
        pytest.param([SHUTDOWN, got(500, "unfenced", epoch=8)], 1100, True, id="back, and never caught up"),
        pytest.param([SHUTDOWN, got(5, "started", epoch=8)], 610, True, id="back before it was out of sync"),
        pytest.param([SHUTDOWN, got(1000, "unfenced", epoch=8)], 900, True, id="back after the limit"),
        pytest.param([SHUTDOWN, got(890, "controlled_shutdown")], 900, True, id="an old state reported again"),
        pytest.param(
            [SHUTDOWN, got(300, "unfenced", epoch=8), got(800, "controlled_shutdown", epoch=8)], 1699, False,
            id="a second restart before it has caught up",
        ),
        pytest.param([got(650, "controlled_shutdown")], 700, True, id="a restart long after it fired"),
    ],
)  # fmt: skip
def test_quiet_during_a_controlled_restart(brokers, clock, fires):
    assert bool(states(evidence(clock, sync=GONE, broker_states=brokers))) == fires


def test_rolling_restart_of_the_whole_cluster_is_quiet():
    """What every recording ends with: all brokers stopped in order, the last of them leaving no leader."""
    stopping = [got(n * 20, "controlled_shutdown", broker, epoch=broker) for n, broker in enumerate((1, 2, 3))]
    found = evidence(
        840,
        broker_states=stopping,
        leaderships=[{"ts": 25, "leader_id": 3, "leader_epoch": 4}, {"ts": 41, "leader_id": -1, "leader_epoch": 5}],
        min_isr=[{"ts": 21, "kind": "freeze", "isr": [3], "frozen": True}],
        sync=[{"ts": 30, "replica_id": r, "state": "out_of_sync", "reason": "silent"} for r in (1, 2)],
        health=[{"ar": [1, 2, 3], "isr": [3], "offline": True, "last_event_ts": 41}],
    )
    assert states(found) == []


def test_a_crash_during_anothers_restart_is_not_quiet():
    frozen = {"ts": 21, "kind": "freeze", "isr": [1], "frozen": True}
    found = evidence(400, broker_states=[SHUTDOWN], min_isr=[frozen], health=[{"ar": [1, 2, 3]}])
    assert states(found) == [("under_min_isr", "firing", "brokers 2, 3", 21, 400)]


def test_a_loss_is_told_during_a_controlled_restart():
    lost = {"ts": 5, "regression_id": "r", "class": "committed_loss", "severity": "critical", "leader_id": 3,
            "lost_from": 1, "lost_to": 2, "lost_records": 1, "proof": "proven"}  # fmt: skip
    assert [s[0] for s in states(evidence(6, regressions=[lost], broker_states=[SHUTDOWN]))] == ["loss"]


def test_source_of_a_broker_in_controlled_restart_is_not_stale():
    source = {"source_id": "broker-3/replication.log", "broker_id": 3, "reported_to": 1}
    found = evidence(1, reported=[source], broker_states=[SHUTDOWN])
    assert states(found, now=899) == []
    assert [s[0] for s in states(found, now=900)] == ["stale_source"]
    assert AlertRules().controlled_restart.limit_s == 900
