"""The estimate of when a lagging replica will have caught up: the slope of the last minute, and its spread."""

from datetime import UTC, datetime, timedelta

import pytest

from pipelines.verdict.catch_up import Course, catch_up

NOON = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)


def points(*lags, every=10):
    return [(NOON + timedelta(seconds=every * k), lag) for k, lag in enumerate(lags)]


def test_a_straight_line_says_when():
    found = catch_up(points(600, 500, 400, 300), 3)
    assert (found.course, found.slope, found.spread) == (Course.CATCHING_UP, -10.0, 0.0)
    assert (found.seconds, found.least, found.most) == (30.0, 30.0, 30.0)
    assert str(found) == "in about 30 s (30 s to 30 s)"


def test_the_spread_is_the_95_percent_interval_of_the_slope():
    """Through 0, 10 and 20 s at 300, 190, 100: slope -10, residue 66.7, one degree of freedom."""
    found = catch_up(points(300, 190, 100), 1)
    assert found.slope == pytest.approx(-10)
    assert found.spread == pytest.approx(12.71 * (66.6667 / 200) ** 0.5, rel=1e-4)
    assert found.seconds == pytest.approx(10)
    assert found.least == pytest.approx(100 / (10 + found.spread))
    assert found.most == pytest.approx(100 / (10 - found.spread))


def test_a_slope_that_may_be_none_has_no_upper_bound():
    found = catch_up(points(300, 100, 290), 3)
    assert (found.course, found.most) == (Course.CATCHING_UP, None)
    assert str(found).endswith("to no bound)")


@pytest.mark.parametrize("lags", [(100, 200, 300), (100, 100, 100), (1, 0, 5)])
def test_a_lag_that_does_not_fall_is_not_catching_up(lags):
    assert str(catch_up(points(*lags), 3)) == "not catching up"


@pytest.mark.parametrize("level", [0, 2, None])
def test_at_levels_that_do_not_report_every_leo_it_is_not_known(level):
    assert str(catch_up(points(300, 200, 100), level)) == "not known"


def test_fewer_than_three_moments_say_nothing():
    assert catch_up(points(300, 200), 3).course is Course.NOT_KNOWN
    assert catch_up([], 3).course is Course.NOT_KNOWN
    assert catch_up([*points(300, 200), *points(300, 200)], 3).course is Course.NOT_KNOWN


def test_only_the_last_minute_counts():
    assert catch_up(points(1000, 900, 100, 200, 300, every=30), 3).course is Course.NOT_CATCHING_UP
    assert catch_up(points(900, 600, 300, every=50), 3).course is Course.NOT_KNOWN


def test_a_lag_of_none_is_caught_up():
    assert str(catch_up(points(20, 10, 0), 3)) == "caught up"
