"""Facts are a function of the set of events: not of cuts, of the order of arrival, of restarts or of buckets.

Every run reads the same few hundred lakes; `make test-properties` as many as LAKES says, from SEED on.
"""

from __future__ import annotations

import os

import pytest

from tests.properties.draws import TOGETHER, findings

LAKES, SEED = int(os.environ.get("LAKES", "150")), int(os.environ.get("SEED", "0"))


@pytest.mark.parametrize("first", range(SEED, SEED + LAKES, TOGETHER))
@pytest.mark.sampled(2)
def test_facts_are_those_of_one_batch(first):
    assert findings(range(first, min(first + TOGETHER, SEED + LAKES))) == []
