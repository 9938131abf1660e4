"""Samples cut from a simulated cluster at random instants: every fact that is made of them is true.

A HW that is claimed was reached, a replica that is called out of sync was, an ISR was committed, what is called lost is
lost; and where something was lost that samples could show, no term is called safe.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from generators.simulator.truth.tables import Truth
from pipelines.commands.simulate.plan import plan
from pipelines.replication import Facts, replay
from pipelines.settings import Simulate
from tests.simulated.truth_differences import rules_of
from tests.unit.replication.bronze import last_rows
from tests.unit.simulator.clusters import SCRIPTS, SETTINGS, play
from tests.unit.simulator.random_runs import KINDS, RECENT, again, begin, clocks_right, command, run_of, seeds
from tests.unit.simulator.simulated_watcher import SimulatedWatcher

pytestmark = pytest.mark.long

Row = dict[str, Any]
_LOSING = ("kill", "power-off", "unclean-election", "freeze", "cut")
LOSSES = ("unclean_loss", "committed_loss")
_UNSEEN = ("recreate-topic", "delete-records", "rolling-upgrade")
"""Faults that are not compared here: a topic's end, the log's start, and rules that change."""


def any_run(seed: int) -> Simulate:
    return clocks_right(run_of(seed, [kind for kind in KINDS if kind not in _UNSEEN], RECENT))


def losing_run(seed: int) -> Simulate:
    """Brokers that are killed and come back without what was not flushed, and elections outside the ISR."""
    run = run_of(seed, _LOSING, RECENT)
    topics = ",".join(topic if "unclean" in topic else f"{topic}:unclean" for topic in run.topics.split(","))
    return clocks_right(again(run, topics=topics, session_timeout_ms=5_000, flush_ms=60_000, lag_max_ms=2_000))


def sampled(run: Simulate) -> tuple[Facts, dict[str, pa.Table], pa.Table, str]:
    """Facts from samples of a run, its truth, the samples, and how to have that run again."""
    planned, seed = plan(run), run.seed
    truth, watcher = Truth(planned.settings), SimulatedWatcher(planned.settings.cluster, seed)
    begin(planned, [truth, watcher]).run(planned.seconds)
    events = watcher.events()
    return replay(events, rules_of(planned.settings)), truth.close(), events, command(run)


def us(row: Row, name: str = "ts") -> int:
    return round(row[name].timestamp() * 1_000_000)


def term_of(row: Row) -> tuple[Any, ...]:
    return row["topic"], row["partition"], row["leader_id"], row["leader_epoch"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", seeds(10))
@pytest.mark.parametrize("drawn", [any_run, losing_run])
def test_what_samples_show_is_true(drawn, seed):
    facts, truth, events, how = sampled(drawn(seed))
    assert wrong_hws(facts, truth, events) == [], how
    assert wrong_stretches(facts, truth) == [], how
    assert wrong_isrs(facts, truth) == [], how
    assert wrong_losses(facts, truth) == [], how
    assert losses_called_safe(facts, truth) == [], how


@pytest.mark.sampled(9)
@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("name", ["elect_outside", "lose_power", "kill_and_return", "roll"])
def test_so_it_is_where_a_leader_is_elected_that_lacks_records(name, seed):
    settings = replace(SETTINGS, seed=seed)
    truth, watcher = Truth(settings), SimulatedWatcher(settings.cluster, seed, holes=0.02)
    play(SCRIPTS[name], [truth, watcher], settings)
    facts, tables = replay(watcher.events(), rules_of(settings)), truth.close()
    assert wrong_hws(facts, tables, watcher.events()) == []
    assert wrong_losses(facts, tables) == []
    assert losses_called_safe(facts, tables) == []
    if name == "elect_outside" and _true_losses(tables):
        assert {row["class"] for row in _falls(facts)} & {"unclean_loss", "loss_not_excluded"}


def wrong_hws(facts: Facts, truth: dict[str, pa.Table], events: pa.Table) -> list[str]:
    """HWs that their leader had not reached at the end of the sample, or had passed at its beginning."""
    true: dict[tuple[Any, ...], list[tuple[int, int]]] = defaultdict(list)
    for row in truth["truth_hw"].to_pylist():
        true[term_of(row)].append((us(row), row["hw"]))
    errors = {
        (row["topic"], row["partition"], row["broker_id"], us(row)): row["ts_error_ms"] * 1000
        for row in events.to_pylist()
        if row["event_type"] == "sample"
    }
    found = []
    for row in facts.partition_hw.to_pylist():
        if row["kind"] != "advance":
            continue
        error = errors[row["topic"], row["partition"], row["leader_id"], us(row)]
        steps = true[term_of(row)]
        until = bisect_right(steps, (us(row) + error, 1 << 62))
        reached = max((hw for _, hw in steps[:until]), default=-1)
        before = [hw for ts, hw in steps if ts < us(row) - error]
        if not (before[-1] if before else -1) <= row["hw"] <= reached:
            found.append(f"{term_of(row)}: HW {row['hw']} at {row['ts']}, true is {before[-1:]} to {reached}")
    return found


def wrong_stretches(facts: Facts, truth: dict[str, pa.Table]) -> list[str]:
    """Replicas called out of sync that their leader had caught up."""
    true: dict[tuple[Any, ...], list[tuple[int, int]]] = defaultdict(list)
    for row in truth["truth_out_of_sync"].to_pylist():
        until = 1 << 62 if row["to_ts"] is None else us(row, "to_ts")
        true[*term_of(row), row["replica_id"]].append((us(row, "from_ts"), until))
    return [
        f"{term_of(row)}: replica {row['replica_id']} out of sync at {row['ts']}"
        for row in facts.replica_sync.to_pylist()
        if row["state"] == "out_of_sync"
        and not any(since <= us(row) < until for since, until in true[*term_of(row), row["replica_id"]])
    ]


def wrong_isrs(facts: Facts, truth: dict[str, pa.Table]) -> list[str]:
    """ISRs that were not committed in their leader epoch."""
    true = defaultdict(list)
    for row in truth["truth_isr"].to_pylist():
        true[row["topic"], row["partition"]].append((row["leader_epoch"], sorted(row["isr_after"])))
    return [
        f"{row['topic']}-{row['partition']}: ISR {row['isr_after']} at {row['ts']}"
        for row in facts.isr_changes.to_pylist()
        if (row["leader_epoch"], sorted(row["isr_after"])) not in true[row["topic"], row["partition"]]
    ]


def _falls(facts: Facts) -> list[Row]:
    return last_rows(facts.hw_regressions, "regression_id")


def _true_losses(truth: dict[str, pa.Table]) -> dict[tuple[Any, ...], list[Row]]:
    found = defaultdict(list)
    for row in truth["truth_regressions"].to_pylist():
        if row["class"] in LOSSES:
            found[row["topic"], row["partition"]].append(row)
    return found


def wrong_losses(facts: Facts, truth: dict[str, pa.Table]) -> list[str]:
    """Ranges that are called lost, and are not."""
    true = _true_losses(truth)
    return [
        f"{term_of(row)}: {row['class']} [{row['lost_from']}, {row['lost_to']}) {row['proof']} {row['evidence']}"
        for row in _falls(facts)
        if row["severity"] == "critical"
        and _lost(row) - {offset for loss in true[row["topic"], row["partition"]] for offset in _lost(loss)}
    ]


def _lost(row: Row) -> set[int]:
    return set(range(row["lost_from"], row["lost_to"]))


def losses_called_safe(facts: Facts, truth: dict[str, pa.Table]) -> list[str]:
    """Terms that began with a loss, were seen, were not the first that was, and have no row.

    A leader that loses records inside its epoch is the one thing that no round shows.
    """
    doubted = {term_of(row) for row in _falls(facts)}
    seen = defaultdict(set)
    for row in facts.partition_hw.to_pylist():
        seen[row["topic"], row["partition"]].add(row["leader_epoch"])
    resumed = {
        term_of(row)
        for row in truth["truth_hw"].to_pylist()
        if row["kind"] == "term_start"
        and sum(term_of(row) == term_of(o) and o["kind"] == "term_start" for o in truth["truth_hw"].to_pylist()) > 1
    }
    return [
        f"{term_of(row)}: {row['class']} [{row['lost_from']}, {row['lost_to']}) has no row"
        for place, rows in _true_losses(truth).items()
        for row in rows
        if term_of(row) not in doubted
        and term_of(row) not in resumed
        and row["leader_epoch"] in seen[place]
        and row["leader_epoch"] > min(seen[place])
    ]
