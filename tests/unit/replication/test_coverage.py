"""What portions of the rows cover is put together to what all of them cover."""

from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.replication.telemetry.coverage import CLOCK_JUMP_US, COVERAGE, KEY_COLUMNS, NO_TIME, coverage, joined
from pipelines.replication.telemetry.source import Source
from pipelines.replication.telemetry.sources import Sources
from schemas import replication_events
from tests.unit.replication.bronze import BASE_MS

SCHEMA = pa.schema([replication_events.ARROW.field(name) for name in KEY_COLUMNS])
ORDER = [(name, "ascending") for name in ("cluster", "source_id", "source_epoch", "seq_from")]
STEPS = st.lists(st.sampled_from([0, 1, 1000, CLOCK_JUMP_US, CLOCK_JUMP_US + 1]), min_size=1, max_size=30)


def rows(source, steps, lacking=()):
    """A source whose clock moves by these steps from row to row; numbers that are lacking were lost."""
    ts = [BASE_MS * 1000 + sum(steps[: n + 1]) for n in range(len(steps))]
    return [("c", source, 0, n, ts[n]) for n in range(len(steps)) if n not in lacking]


def table(found):
    return pa.table(
        [pa.array(column, f.type) for column, f in zip(zip(*found, strict=True), SCHEMA, strict=True)], SCHEMA
    )


def of_portions(found, sizes):
    parts, start = [], 0
    for size in [*sizes, len(found)]:
        parts += [coverage(table(found[start : start + size]))] if found[start : start + size] else []
        start += size
    return pa.concat_tables(parts)


@given(st.lists(STEPS, min_size=1, max_size=3), st.sets(st.integers(0, 29)), st.lists(st.integers(1, 9)), st.integers())
def test_the_coverage_of_portions_in_any_order_is_that_of_all_rows(clocks, lacking, sizes, seed):
    found = [row for n, steps in enumerate(clocks) for row in rows(f"s{n}", steps, lacking)] or rows("s", [0])
    whole = coverage(table(found))
    Random(seed).shuffle(found)
    together = joined(of_portions(found, sizes))
    assert together.schema == COVERAGE
    assert together.sort_by(ORDER).equals(whole.sort_by(ORDER).combine_chunks())


def test_numbers_that_come_again_in_another_portion_advance_a_source_as_they_did():
    found = rows("s", [1000] * 9)
    covered = pa.concat_tables([of_portions(found, [4]), coverage(table(found[2:7]))])
    low_watermarks = []
    for runs in (covered, joined(covered)):
        sources = Sources(10_000_000)
        assert sources.advance(runs) == []
        (source,) = sources.known.values()
        low_watermarks.append((source.next_seq, source.low_watermark, source.pending_runs))
    assert low_watermarks == [(9, BASE_MS * 1000 + 9000, [])] * 2


@pytest.mark.parametrize("portion", [1, 7])
def test_rows_sorted_by_partition_cover_what_their_source_reported(portion):
    """As `hwmark maintain` leaves them: the numbers of one source are spread over all portions."""
    found = sorted(rows("s", [1000] * 40), key=lambda row: (row[3] % 8, row[3]))
    (run,) = joined(of_portions(found, [portion] * 40)).to_pylist()
    assert (run["seq_from"], run["seq_to"], run["latest"]) == (0, 39, BASE_MS * 1000 + 40_000)


@pytest.mark.parametrize("refused", [0, 10_413_792_000_000_000])
@pytest.mark.parametrize("sizes", [[], [1, 1, 1, 1], [2, 1, 2]])
def test_a_refused_time_is_the_time_of_no_run(refused, sizes):
    """Its row takes up its number and moves no clock, whatever portion it is in."""
    found = rows("s", [1000] * 5)
    found[2] = (*found[2][:4], refused)
    runs = [list(run.values())[3:] for run in joined(of_portions(found, sizes)).sort_by(ORDER).to_pylist()]
    at = BASE_MS * 1000
    assert runs == [[at + 1000, at + 2000, 0, 1], [NO_TIME, NO_TIME, 2, 2], [at + 4000, at + 5000, 3, 4]]


def test_numbers_below_0_are_no_part_of_a_run():
    found = [("c", "s", epoch, n, BASE_MS * 1000) for epoch in (-1, 0) for n in (-1, 0, 1)]
    assert [list(run.values())[2:] for run in coverage(table(found)).to_pylist()] == [[0, *[BASE_MS * 1000] * 2, 0, 1]]


def test_an_incarnation_in_a_state_of_before_is_waited_for_until_it_has_ended_and_its_end_is_not_told_again():
    """Such a state has no last numbers of stretches: whether the end was told is not known."""
    source = Source("c", "log", 0, told=[(0, 10, True)])
    assert (list(source.resets(20, 9 + CLOCK_JUMP_US)), source.superseded) == ([], False)
    assert (list(source.resets(20, 10 + CLOCK_JUMP_US)), source.superseded) == ([], True)
