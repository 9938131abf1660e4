"""What is one failure away, in one sentence; what is not known is said."""

import pytest

from pipelines.verdict.one_away import one_failure_away


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"none": 7}, "none from loss, offline or under min ISR"),
        ({"loss": 1, "none": 7}, "1 partition from loss"),
        ({"loss": 3, "under_min_isr": 1200}, "3 partitions from loss, 1,200 from under min ISR"),
        (
            {"offline": 2, "not known": 1},
            "2 partitions from offline (no other replica is assigned); 1 partition not known",
        ),
        ({"not known": 4, "none": 2}, "none of those known; 4 partitions not known"),
    ],
)
def test_one_failure_away(counts, words):
    assert one_failure_away(counts) == f"one failure away: {words}"
