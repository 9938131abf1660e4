"""Facts are a function of the set of events: not of cuts, of the order of arrival, of restarts or of buckets.

Every run reads the same few hundred lakes; `make test-properties` as many as LAKES says, from SEED on.
"""

from __future__ import annotations

import os

import pytest

from pipelines.replication.events.row_rules import split
from tests.properties.draws import TOGETHER, Draw, findings
from tests.properties.facts import differences, reconstruct
from tests.unit.replication.bronze import events_of

LAKES, SEED = int(os.environ.get("LAKES", "150")), int(os.environ.get("SEED", "0"))


@pytest.mark.parametrize("first", range(SEED, SEED + LAKES, TOGETHER))
@pytest.mark.sampled(2)
def test_facts_are_those_of_one_batch(first):
    assert findings(range(first, min(first + TOGETHER, SEED + LAKES))) == []


PLACE = ("cluster", "source_id", "source_epoch", "source_seq", "seq", "ts", "broker_id", "topic", "partition", "level")


@pytest.mark.parametrize("first", range(SEED, SEED + LAKES, 2 * TOGETHER))
@pytest.mark.sampled(2)
def test_a_row_in_quarantine_says_nothing_but_that_it_is_there(first):
    """What it holds beside its place among the others, nobody has read: such rows without it give the same facts."""
    draws = (Draw.from_seed(seed) for seed in range(first, min(first + 2 * TOGETHER, SEED + LAKES)))
    rows = [row for draw in draws for batch in draw.batches() for row in batch]
    good, _ = split(events_of(rows))
    bare = [
        row if is_good else {name: value if name in PLACE else None for name, value in row.items()}
        for row, is_good in zip(rows, good.to_pylist(), strict=True)
    ]
    told, untold = reconstruct([rows]), reconstruct([bare])
    del told["quarantine"], untold["quarantine"]
    assert differences(told, untold) == {}
