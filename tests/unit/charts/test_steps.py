"""Counts over minutes as steps."""

from pipelines.charts.steps import step_path


def test_a_minute_is_an_interval_and_what_is_not_known_is_a_gap():
    assert step_path([0, 2, None, 1], top=2) == "M0 27.0H1V1.0H2M3 14.0H4"


def test_counts_of_nothing_stand_at_the_bottom():
    assert step_path([0, 0], top=0) == "M0 27.0H1V27.0H2"
