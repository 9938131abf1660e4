"""Facts are a function of the set of events: not of cuts, of the order of arrival, of restarts or of buckets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.facts import differences, reconstruct
from tests.properties.lakes import ARRIVALS, lakes
from tests.properties.sizes import LAKES, PARTS, fixed, sampled

BUCKETS = st.sampled_from((1, 1, 3, 8))


@fixed
@given(lakes(), ARRIVALS, BUCKETS, st.booleans())
def test_facts_are_those_of_one_batch(lake, arrival, buckets, restart):
    assert differences(reconstruct([lake.rows]), reconstruct(arrival.batches_of(lake), buckets, restart)) == {}


@pytest.mark.skipif(not LAKES, reason="lakes that are drawn anew: make test-properties")
@pytest.mark.parametrize("part", range(PARTS))
@sampled
@given(lakes(), ARRIVALS, BUCKETS, st.booleans())
def test_facts_of_lakes_drawn_anew_are_those_of_one_batch(part, lake, arrival, buckets, restart):
    assert differences(reconstruct([lake.rows]), reconstruct(arrival.batches_of(lake), buckets, restart)) == {}
