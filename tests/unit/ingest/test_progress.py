"""Progress rows: one a second at least, never ahead of what is still to come."""

import numpy as np
import pyarrow as pa
import pytest

from generators.brokerlogs.events.event_rows import EVENTS
from generators.brokerlogs.tailing.progress import interleave, times

LIKE = {"cluster": "c", "source_id": "s", "broker_id": 1, "level": 3}


def _rows(*ms: int) -> pa.Table:
    fixed = {**LIKE, "event_type": "append", "topic": "t", "partition": 0}
    return pa.Table.from_pylist([{**fixed, "ts": m * 1000} for m in ms], schema=EVENTS)


DAY = 86_400_000
CASES = [
    ("one at the end of each second", 0, [10_100, 10_900, 11_200], "10100 10900 p10900 11200"),
    ("none within a second", 10_050_000, [10_100, 10_900], "10100 10900"),
    ("goes on from the time reported before", 9_990_000, [10_100], "p9990 10100"),
    ("for quiet seconds too", 0, [10_100, 13_500], "10100 p10100 p11000 p12000 13500"),
    (
        "lines that threads displaced hold nothing up",
        0,
        [10_990, 11_005, 10_995, 12_001],
        "10990 p10990 11005 10995 p11005 12001",
    ),
    ("not ahead of a row to come", 0, [10_100, 14_000, 11_900], "10100 p10100 14000 11900"),
    ("a lone row far ahead counts for nothing", 0, [10_100, DAY, 10_300, 11_100], f"10100 {DAY} 10300 p10300 11100"),
    ("a lone row far behind counts for nothing", 0, [DAY, 5, DAY + 1500], f"{DAY} 5 p{DAY} {DAY + 1500}"),
]


@pytest.mark.parametrize(("high", "ms", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_progress_rows(high: int, ms: list[int], expected: str) -> None:
    reported = interleave(_rows(*ms), high, LIKE)
    kinds = reported["event_type"].to_pylist()
    words = [f"{'p' * (kind == 'progress')}{us // 1000}" for kind, us in zip(kinds, times(reported), strict=True)]
    assert " ".join(words) == expected


def test_a_progress_row_is_about_the_whole_source() -> None:
    reported = interleave(_rows(10_100, 11_100), 0, LIKE).slice(1, 1).to_pylist()[0]
    assert {name: value for name, value in reported.items() if value is not None and name != "ts"} == {
        **LIKE,
        "event_type": "progress",
        "partition": -1,
    }


def test_no_progress_row_in_any_order_is_past_the_rows_before_it() -> None:
    shuffled = np.random.default_rng(7).permutation(np.arange(100_000, 130_000, 7)).tolist()
    reported = interleave(_rows(*shuffled), 0, LIKE)
    stamps, is_progress = times(reported), np.array(reported["event_type"].to_pylist()) == "progress"
    before = np.maximum.accumulate(np.where(is_progress, 0, stamps))
    assert is_progress.any()
    assert (stamps[is_progress] <= before[is_progress] + 1_000_000).all()
