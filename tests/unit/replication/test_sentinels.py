"""A sentinel in a column too narrow for it stands for another value: numpy 2.4 takes it silently, 2.5 raises."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.replication import Reconstructor
from pipelines.replication.events.sharding import assign
from pipelines.replication.telemetry.coverage import coverage
from tests.properties.draws import Draw
from tests.properties.facts import RULES
from tests.unit.replication.bronze import events_of

WHERE = np.where


def strict_where(condition, *choices):
    """numpy.where, which refuses a number that the column beside it has no room for."""
    columns = [np.asarray(choice) for choice in choices if not isinstance(choice, int)]
    for number in (choice for choice in choices if isinstance(choice, int)):
        for column in columns:
            if column.dtype.kind in "iu":
                limits = np.iinfo(column.dtype)
                assert limits.min <= number <= limits.max, f"{number} in a column of {column.dtype}"
    return WHERE(condition, *choices)


def test_a_sentinel_in_a_narrow_column_is_refused():
    with pytest.raises(AssertionError, match="-2147483648 in a column of uint8"):
        strict_where([True, False], np.array([1, 2], np.uint8), -(1 << 31))


@pytest.mark.parametrize("buckets", [1, 3])
def test_no_sentinel_of_facts_or_of_the_present_is_wider_than_its_column(monkeypatch, buckets):
    monkeypatch.setattr(np, "where", strict_where)
    rows = [row for seed in range(20) for batch in Draw.from_seed(seed).batches() for row in batch]
    events = events_of(rows)
    of = assign(events, buckets)
    for bucket in range(buckets):
        shard = Reconstructor(RULES, bucket, buckets)
        shard.update(events.filter((of == bucket) | (of < 0)), coverage(events))
        shard.present()
        shard.finish()
        shard.present()
        Reconstructor.restore(shard.snapshot()).health()
