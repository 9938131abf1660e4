"""When a replica was last caught up, and that it is out of sync: what the leader printed, computed from its fetches."""

from collections import Counter

import pytest

from generators.recordings import traces
from tests.kafka.conftest import millis

SHRINKS = {"slow_follower": 4, "leader_crash": 0, "unclean_election": 1}
LAG_MAX_MS = {"slow_follower": 6000, "leader_crash": 8000, "unclean_election": 4000}


def out_of_sync(facts):
    return [row for row in facts.replica_sync.to_pylist() if row["state"] == "out_of_sync"]


def row_of(facts, witness):
    """The row with the state of the replica of a printed shrink at that moment."""
    place = [witness[name] for name in ("topic", "partition", "replica_id")]
    rows = [r for r in facts.replica_sync.to_pylist() if [r["topic"], r["partition"], r["replica_id"]] == place]
    return [row for row in sorted(rows, key=lambda row: row["ts"]) if row["ts"] <= witness["ts"]][-1]


@pytest.mark.parametrize("scenario", traces.scenarios())
def test_last_caught_up_is_what_the_leader_printed(facts_of, printed_shrinks, scenario):
    """Within the 10 ms by which a log line follows the clock reading."""
    assert len(printed_shrinks(scenario)) == SHRINKS[scenario]
    for witness in printed_shrinks(scenario):
        row = row_of(facts_of(scenario), witness)
        assert row["state"] == "out_of_sync"
        assert abs(millis(row["last_caught_up_ts"]) - millis(witness["last_caught_up_ts"])) <= 10
        assert row["leader_id"] == witness["broker_id"]
        assert (row["leo"], row["in_isr"]) == (witness["leo"], True)


@pytest.mark.parametrize("scenario", traces.scenarios())
def test_out_of_sync_is_strictly_more_than_the_lag_of_server_properties(facts_of, scenario):
    rows = [row for row in out_of_sync(facts_of(scenario)) if row["last_caught_up_ts"] is not None]
    assert rows
    for row in rows:
        since = millis(row["ts"]) - millis(row["last_caught_up_ts"])
        assert row["lag_ms"] == since > LAG_MAX_MS[scenario]
        assert row["leo"] < row["leader_leo"]
        assert row["lag_records"] == row["leader_leo"] - row["leo"]


@pytest.mark.parametrize("scenario", traces.scenarios())
def test_a_replica_has_one_state_at_a_time(facts_of, scenario):
    rows = facts_of(scenario).replica_sync.to_pylist()
    moments = Counter((row["topic"], row["partition"], row["replica_id"], row["ts"]) for row in rows)
    assert max(moments.values()) == 1


def test_a_freeze_shorter_than_the_lag_leaves_everybody_in_sync(facts_of, actions_of):
    """Broker 2, 4 s of 6 s."""
    stop, resume = [a["ts_ms"] for a in actions_of("slow_follower") if a.get("broker") == 2 and "SIG" in a["action"]]
    assert [r for r in out_of_sync(facts_of("slow_follower")) if stop <= millis(r["ts"]) <= resume + 6000] == []
    lagging = [r for r in facts_of("slow_follower").replica_sync.to_pylist() if stop <= millis(r["ts"]) <= resume]
    assert {(row["replica_id"], row["state"]) for row in lagging} >= {(2, "lagging")}


def test_a_replica_that_returns_is_in_sync_before_it_joins_the_isr(facts_of):
    facts = facts_of("slow_follower")
    joins = [row for row in facts.isr_changes.to_pylist() if row["cause"] == "caught_up"]
    assert len(joins) == 4
    for join in joins:
        row = row_of(facts, {**join, "replica_id": join["added"][0]})
        assert (row["state"], row["reason"], row["previous_state"]) == ("in_sync", "recovered", "out_of_sync")
