"""Logs of a broker that are written, rotated, copied, cut and read in any order: each HW is told once."""

import pytest

from tests.unit.ingest.plays import play, steps_of


@pytest.mark.long
@pytest.mark.sampled(50)
@pytest.mark.parametrize("seed", range(500))
def test_each_hw_of_two_logs_of_a_broker_is_told_once(seed):
    assert play(steps_of(seed), seed) is None
