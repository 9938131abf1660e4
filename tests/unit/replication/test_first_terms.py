"""Starts kept as columns come to what histories would have: in the facts, through restarts, and when they are asked."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from pipelines.replication import Reconstructor
from pipelines.replication.batch import rare_events
from pipelines.replication.facts.tables import Facts
from pipelines.replication.metadata.assignments import Assignments
from tests.unit.replication.bronze import events_of
from tests.unit.replication.random_cluster import Cluster
from tests.unit.replication.test_rules_set_of_events import RULES, comparable, differences

pytestmark = pytest.mark.long


def run(rows, cuts, restart):
    """(facts, health after each batch, how many starts were columns after the first batch)."""
    reconstructor, parts, health, columns = Reconstructor(RULES), [], [], []
    for number, (begin, end) in enumerate(zip([0, *cuts], [*cuts, len(rows)], strict=True)):
        if restart:
            reconstructor = Reconstructor.restore(reconstructor.snapshot())
        parts.append(reconstructor.update(events_of(rows[begin:end]), batch_id=number))
        health.append(reconstructor.health().to_pylist())
        state = reconstructor.state
        columns.append(state.first_terms.table().num_rows + state.pending_starts.num_rows)
    parts.append(reconstructor.finish(len(cuts) + 1))
    return comparable(Facts.concat(parts)), health, columns


@pytest.mark.sampled(4)
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_facts_and_health_are_those_of_histories(seed, restart, monkeypatch):
    rows = Cluster(seed, steps=60).rows
    cuts = [6, *sorted(np.random.default_rng(seed).integers(7, len(rows), 3).tolist())]
    facts, health, columns = run(rows, cuts, restart)
    nothing = lambda state, batch, rare, found: np.zeros(len(rare), dtype=np.bool_)  # noqa: E731
    monkeypatch.setattr(rare_events, "_only_events", nothing)
    expected, health_then, no_columns = run(rows, cuts, restart)
    assert differences(facts, expected) == {}
    assert health == health_then
    assert columns[0] > 0
    assert not any(no_columns)


def test_quiet_partitions_are_columns():
    rows = Cluster(1, steps=0).rows
    reconstructor = Reconstructor(RULES)
    reconstructor.update(events_of(rows))
    reconstructor.finish()
    assert reconstructor.state.first_terms.table().num_rows == 2
    assert not reconstructor.state.histories


def test_assignments_as_of_a_time():
    def record(known, partition, ts, replicas):
        flat, size = np.concatenate(replicas).astype(np.int32), np.array([len(r) for r in replicas])
        known.record(np.array(partition), np.array(ts), np.cumsum(size) - size, size, flat)

    def asked(known, *queries):
        bounds, ids = known.as_of(*(np.array(q, dtype=np.int64) for q in zip(*queries, strict=True)))
        return [ids[a:b].tolist() for a, b in pairwise(bounds)]

    known = Assignments()
    record(known, [4, 2], [10, 10], [[1, 2, 3], [2, 3]])
    assert asked(known, (2, 10), (4, 9), (4, 11), (3, 99)) == [[2, 3], [], [1, 2, 3], []]
    record(known, [4], [5], [[1, 2, 3]])  # the same one, from an earlier time on
    record(known, [2], [20], [[5]])
    assert list(known.changed) == [2]
    for kept in (known, Assignments(known.table(), known.changed)):
        queries = [(2, 19), (4, 5), (2, 20), (2, 9), (4, 4), (2, 30)]
        assert asked(kept, *queries) == [[2, 3], [1, 2, 3], [5], [], [], [5]]
