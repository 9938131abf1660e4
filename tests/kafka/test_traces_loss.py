"""Verdicts on the recorded traces: what the unclean election lost, and that nothing else was lost."""

import pytest

from generators.recordings import traces
from pipelines.replication import Facts
from tests.kafka.conftest import millis

LOST = (120, 300)
"""Where the stale follower of `clicks` ended when it was elected, and where its leader had ended."""


def verdicts(facts: Facts):
    """The latest revision of every verdict."""
    rows = sorted(facts.hw_regressions.to_pylist(), key=lambda row: row["revision"])
    return list({row["regression_id"]: row for row in rows}.values())


def worse_than_info(facts):
    return [row for row in verdicts(facts) if row["severity"] != "info"]


def test_the_unclean_election_lost_the_acknowledged_records_that_are_missing(facts_of, actions_of):
    lost = worse_than_info(facts_of("unclean_election"))
    assert sorted((row["topic"], row["partition"], row["class"], row["severity"], row["proof"]) for row in lost) == [
        ("clicks", partition, "unclean_loss", "critical", "bounded") for partition in (0, 1)
    ]  # broker 1 died ten seconds before the controller fenced it, and power failures cut log files, too
    (summary,) = [a for a in actions_of("unclean_election") if a.get("topic") == "clicks"]
    for row in lost:
        assert (row["lost_from"], row["lost_to"]) == LOST
        acknowledged, max_offset = summary["acked_count_and_max_offset"][str(row["partition"])]
        assert row["lost_records"] == acknowledged - (max_offset + 1) == 180


def test_a_loss_is_reported_where_and_when_it_happened(facts_of, actions_of):
    """The new leader's first moment, after the old leader was killed and the stale follower started."""
    started = max(a["ts_ms"] for a in actions_of("unclean_election") if a["action"] == "start" and a["broker"] == 2)
    for row in worse_than_info(facts_of("unclean_election")):
        assert started < millis(row["ts"]) < started + 10_000
        assert (row["leader_id_before"], row["leader_epoch_before"]) == (1, 0)
        assert (row["leader_id"], row["leader_epoch"]) == (2, 1)
        assert (row["hw_before"], row["start_offset"]) == (300, 120)


@pytest.mark.parametrize("scenario", ["leader_crash", "slow_follower"])
def test_nothing_was_lost_elsewhere(facts_of, scenario):
    assert worse_than_info(facts_of(scenario)) == []


def test_a_leader_killed_that_comes_back_is_no_loss(facts_of, actions_of):
    """Broker 1 led orders-1, stored a HW below one it had reported, and comes back: the records are there."""
    facts = facts_of("leader_crash")
    killed, *_ = (a["ts_ms"] for a in actions_of("leader_crash") if a["action"] == "SIGKILL")
    back = [row for row in verdicts(facts) if (row["topic"], row["partition"]) == ("orders", 1)]
    assert {row["class"]: row["severity"] for row in back} == {
        "stale_leader_hw": "info",
        "follower_hw_lowered": "info",
    }
    assert all(millis(row["ts"]) > killed and row["lost_records"] is None for row in back)
    (lowered,) = [row for row in back if row["class"] == "follower_hw_lowered"]
    assert (lowered["replica_id"], lowered["hw_before"]) == (1, 159)
    assert lowered["hw_after"] < 159


@pytest.mark.parametrize("scenario", traces.scenarios())
def test_the_whole_cluster_shutting_down_is_quiet(facts_of, actions_of, scenario):
    """The end of each recording: elections down to nobody, and no fact that is worth waking somebody."""
    facts, end = facts_of(scenario), actions_of(scenario)[-1]["ts_ms"]

    def after_the_end(table):
        return [row for row in table.to_pylist() if millis(row["ts"]) >= end]

    assert after_the_end(facts.hw_regressions) == []
    assert {row["cause"] for row in after_the_end(facts.isr_changes)} == {"controlled_shutdown"}
    assert {row["agreement"] for row in after_the_end(facts.partition_hw)} <= {"exact", "race", "unreported"}
    assert {row["reason"] for row in after_the_end(facts.replica_sync)} <= {"no_state"}


@pytest.mark.parametrize("scenario", traces.scenarios())
def test_no_telemetry_is_missing_and_no_row_breaks_the_contract(facts_of, scenario):
    assert facts_of(scenario).telemetry_gaps.num_rows == 0
    assert facts_of(scenario).quarantine.num_rows == 0
