"""ISR changes and causes of the recorded traces, from broker logs alone, against the metadata log and what was done."""

from collections import Counter

import pytest

from generators.recordings import traces
from tests.kafka.conftest import IsrChange, millis

# What the deed brought about: {(deed, broker it was done to, cause of the ISR changes about that broker): how many}.
# A deed that is not here changed no ISR. The end stops every broker cleanly.
BROUGHT_ABOUT = {
    "slow_follower": {
        # Frozen for 14 s with a lag of 6 s and a session of 30 s: four leaders throw it out. (Of the two partitions
        # that it leads itself nobody can.) Frozen for 4 s (broker 2): nothing.
        ("SIGSTOP", 3, "lag"): 4,
        ("SIGCONT", 3, "caught_up"): 4,
        ("end", 1, "controlled_shutdown"): 6,
        ("end", 2, "controlled_shutdown"): 6,
        ("end", 3, "controlled_shutdown"): 6,
    },
    "leader_crash": {
        # Killed, with a session of 6 s and a lag of 8 s: the controller is first, on all six partitions.
        ("SIGKILL", 1, "controller_fenced"): 6,
        ("start", 1, "caught_up"): 6,
        ("SIGTERM", 2, "controlled_shutdown"): 6,
        ("start", 2, "caught_up"): 6,
        ("end", 1, "controlled_shutdown"): 6,
        ("end", 2, "controlled_shutdown"): 6,
        ("end", 3, "controlled_shutdown"): 6,
    },
    "unclean_election": {
        ("SIGKILL", 2, "controller_fenced"): 4,
        ("start", 2, "caught_up"): 2,
        # Broker 1 dies: orders-1, whose lag of 4 s is over before its session of 5 s, orders-0, and clicks, whose
        # stale follower replaces it.
        ("SIGKILL", 1, "lag"): 1,
        ("SIGKILL", 1, "controller_fenced"): 1,
        ("SIGKILL", 1, "election"): 2,
        ("start", 1, "caught_up"): 4,
        # Broker 1 is the last to go: without eligible leader replicas it stays in the ISR.
        ("end", 2, "controlled_shutdown"): 4,
        ("end", 3, "controlled_shutdown"): 2,
    },
}

CHANGE = {(True, False): "shrink", (False, True): "expand", (True, True): "replace"}
"""By whether somebody left and whether somebody joined."""


def changes(facts):
    """The latest revision of every ISR change."""
    rows = sorted(facts.isr_changes.to_pylist(), key=lambda row: row["revision"])
    return list({(row["topic"], row["partition"], row["partition_epoch"]): row for row in rows}.values())


def last_deed(actions, broker, ts_ms):
    """The last thing done to a broker before that time."""
    return [a["action"] for a in actions if a["ts_ms"] <= ts_ms and a.get("broker", broker) == broker][-1]


@pytest.mark.parametrize("scenario", traces.scenarios())
def test_broker_logs_alone_give_every_isr_change_of_the_metadata_log(facts_of_brokers, metadata_isr_changes, scenario):
    expected = metadata_isr_changes(scenario)
    assert len(expected) == len(set(expected)) >= 20
    found = changes(facts_of_brokers(scenario))
    computed = [
        IsrChange(row["topic"], row["partition"], row["partition_epoch"], tuple(sorted(row["isr_after"])))
        for row in found
    ]
    assert sorted(computed) == sorted(expected)


@pytest.mark.parametrize("scenario", traces.scenarios())
def test_isr_changes_hang_together(facts_of_brokers, scenario):
    """Each change starts from what the one before left, and names who left and who joined."""
    latest = {}
    for row in sorted(changes(facts_of_brokers(scenario)), key=lambda row: row["partition_epoch"]):
        before, after = set(row["isr_before"]), set(row["isr_after"])
        assert before == latest.get((row["topic"], row["partition"]), {1, 2} if row["topic"] == "clicks" else {1, 2, 3})
        assert (set(row["removed"]), set(row["added"])) == (before - after, after - before)
        assert row["change"] == CHANGE[bool(row["removed"]), bool(row["added"])]
        latest[row["topic"], row["partition"]] = after


@pytest.mark.parametrize("scenario", traces.scenarios())
def test_causes_fit_what_was_done_to_the_cluster(facts_of_brokers, actions_of, scenario):
    found = Counter()
    for row in changes(facts_of_brokers(scenario)):
        (broker,) = row["removed"] or row["added"]
        found[last_deed(actions_of(scenario), broker, millis(row["ts"])), broker, row["cause"]] += 1
    assert found == BROUGHT_ABOUT[scenario]


@pytest.mark.parametrize("scenario", traces.scenarios())
def test_what_the_lag_rule_removed_was_predicted(facts_of_brokers, scenario):
    for row in changes(facts_of_brokers(scenario)):
        if row["cause"] == "lag":
            assert row["predicted"] is True
            assert row["proposed_ts"] <= row["ts"]
            assert row["commit_ms"] >= 0
