"""Rules that change in the middle: what no event has set goes by the new ones from there on."""

import numpy as np
import pytest

from pipelines.replication import Reconstructor, Rules
from tests.streaming.events import history, numbered, on

EVENTS = history(partitions=2, rounds=8)
HALF = len(EVENTS) // 2


def halves(old, new, events=EVENTS):
    """The facts of the second half, and the Reconstructor behind them."""
    first = Reconstructor(old)
    first.update(events.slice(0, HALF))
    second = Reconstructor.restore(first.snapshot(), new)
    return second.update(events.slice(HALF)), second


def configured(lag_max_ms):
    """The same with the topic's own settings reported first."""
    telemetry = on(-1, "config", 0, lag_max_ms=lag_max_ms, leader_id=None, leader_epoch=None, topic_id=None)
    rows = [{k: v for k, v in row.items() if k not in ("seq", "source_seq")} for row in EVENTS.to_pylist()]
    return numbered([telemetry, *rows])


def test_replicas_are_judged_by_the_new_limit_from_then_on():
    facts, second = halves(Rules(reorder_grace_ms=0), Rules(reorder_grace_ms=0, lag_max_ms=5))
    assert "out_of_sync" in facts.replica_sync["state"].to_pylist()
    assert set(second.state.lanes["lag_max"].tolist()) == {5000}
    facts, second = halves(Rules(reorder_grace_ms=0, lag_max_ms=5), Rules(reorder_grace_ms=0))
    assert set(second.state.lanes["lag_max"].tolist()) == {30_000_000}


def test_what_was_reported_of_a_topic_stays():
    _, second = halves(Rules(reorder_grace_ms=0), Rules(reorder_grace_ms=0, lag_max_ms=5), configured(30_000))
    assert set(second.state.lanes["lag_max"].tolist()) == {30_000_000}


def test_the_rules_of_other_clusters_change_nothing():
    other = Rules(reorder_grace_ms=0, clusters={"elsewhere*": {"lag_max_ms": 5, "min_isr": 2}})
    _, second = halves(Rules(reorder_grace_ms=0), other)
    assert set(second.state.lanes["lag_max"].tolist()) == {30_000_000}
    _, second = halves(Rules(reorder_grace_ms=0), Rules(reorder_grace_ms=0, clusters={"main": {"min_isr": 2}}))
    assert set(second.state.lanes["min_isr"].tolist()) == {2}


CHANGES = {
    "hw_resolution_ms": 1000, "replica_hw": True, "race_window_ms": 0, "strict_min_isr": False,
    "strict_eligibility": False, "hw_waits_for_joiners": False, "lag_max_messages": 10, "min_isr": 2,
    "reorder_grace_ms": 100,
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_any_rule_may_change(name):
    new = Rules(**{name: CHANGES[name]})
    facts, second = halves(Rules(), new)
    assert second.rules == new
    closing = second.finish()
    hws = np.concatenate([np.asarray(f.partition_hw["hw"].drop_null()) for f in (facts, closing)])
    assert hws.max() == 8
