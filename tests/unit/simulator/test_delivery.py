"""What became of what was sent."""

from __future__ import annotations

import pytest

from generators.simulator.clients.delivery import count


@pytest.mark.parametrize(
    ("there", "guarantee"),
    [
        ("abc", "exactly once"),
        ("cab", "exactly once"),
        ("ac", "at most once"),
        ("abcb", "at least once"),
        ("aab", "neither"),
    ],
)
def test_the_guarantee_is_what_lost_and_doubled_records_leave_of_it(there, guarantee):
    assert count("abc", "abc", there).guarantee == guarantee


def test_every_copy_too_many_counts():
    assert count("abc", "abc", "abbbc").duplicated == ("b", "b")


def test_a_value_sent_twice_may_be_there_twice():
    assert count("aba", "aba", "aab").guarantee == "exactly once"
    assert count("aba", "aba", "ab").lost == ("a",)


def test_a_guarantee_is_broken_only_by_losing_what_was_acknowledged():
    delivery = count("abc", "ac", "a")
    assert (delivery.lost, delivery.broken) == (("b", "c"), ("c",))


def test_a_value_that_nobody_sent_is_an_error():
    with pytest.raises(ValueError, match="'x' is there but was never sent"):
        count("abc", "", "x")
