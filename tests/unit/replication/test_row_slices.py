"""The same events give the same facts in any chunks, slices and encodings."""

import numpy as np
import pyarrow as pa
import pytest

from pipelines.replication import Rules, replay
from pipelines.replication.events.row_rules import FIRST_US, split
from pipelines.replication.events.row_slices import SMALL, row_slices, valid
from pipelines.replication.facts.columns import LONG_RUN, SHARED_ROWS, word_column
from pipelines.replication.telemetry.coverage import CLOCK_JUMP_US, coverage
from tests.unit.replication.bronze import events_of
from tests.unit.replication.random_cluster import Cluster

NAMES = ("cluster", "source_id", "event_type", "topic")
START = FIRST_US + 10**15
"""A time that no row rule refuses."""


def coded(events, names=NAMES):
    """The events with these columns dictionary-encoded, each chunk with dictionaries of its own."""
    batches = [pa.Table.from_batches([batch]) for batch in events.to_batches()]
    for name in names:
        at = events.column_names.index(name)
        batches = [b.set_column(at, name, b[name].combine_chunks().dictionary_encode()) for b in batches]
    return pa.concat_tables(batches)


def chunked(events, sizes):
    starts = np.cumsum([0, *sizes])
    return pa.concat_tables([events.slice(a, b - a) for a, b in zip(starts, [*starts[1:], len(events)], strict=False)])


@pytest.mark.parametrize("offset", range(10))
def test_validity_of_a_slice_anywhere(offset):
    values = pa.array([None if k % 3 == 0 else k for k in range(40)]).slice(offset)
    found = np.unpackbits(valid(values), bitorder="little")[: len(values)]
    assert found.tolist() == [value is not None for value in values.to_pylist()]


def test_slices_are_all_rows_in_order():
    events = events_of(Cluster(3, 60).rows)
    for table in (events, chunked(events, [1, 7, 0, 30]), coded(chunked(events, [5, 50])), events.slice(11)):
        slices = row_slices(table)
        assert np.concatenate([p.int64("seq") for p in slices]).tolist() == table["seq"].to_pylist()
        dictionaries = [rows.codes("source_id") for rows in slices]
        sources = [names.take(pa.array(codes)).to_pylist() for codes, names in dictionaries]
        assert [name for names in sources for name in names] == table["source_id"].to_pylist()
        assert [p.first for p in slices] == np.cumsum([0, *map(len, slices)])[:-1].tolist()


def test_many_small_chunks_are_put_together():
    events = coded(chunked(pa.concat_tables([events_of(Cluster(3, 60).rows)] * 3), [3] * 40))
    assert len(events) < SMALL
    assert len(events.to_batches()) > 40
    assert len(row_slices(events)) == 1


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.sampled(2)
def test_encodings_chunks_and_slices_do_not_matter(seed):
    events = events_of(Cluster(seed, 80, losses=True).rows)
    expected = replay(events, Rules(replica_hw=True)).tables()
    padded = pa.concat_tables([events.slice(0, 3), events, events.slice(0, 3)]).combine_chunks().slice(3, len(events))
    for other in (
        coded(events),
        chunked(events, [1, 9, 0, 40]),
        coded(chunked(events, [20, 33])),
        padded,
        coded(padded),
    ):
        assert {n: t.to_pylist() for n, t in replay(other, Rules(replica_hw=True)).tables().items()} == {
            n: t.to_pylist() for n, t in expected.items()
        }


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.sampled(3)
def test_numbers_that_fall_repeat_or_are_missing_give_the_facts_of_ordered_ones(seed):
    rows = Cluster(seed, 80).rows
    random = np.random.default_rng(seed)
    place = random.integers(0, len(rows), 2)
    for arrived in (rows, rows + [rows[k] for k in place], rows[: place[0]] + rows[place[0] + 1 :] + [rows[place[1]]]):
        by_two_writers = arrived[::2] + arrived[1::2]
        facts, expected = (
            {n: sorted(map(repr, t.to_pylist())) for n, t in replay(events_of(r)).tables().items()}
            for r in (by_two_writers, arrived)
        )
        assert facts == expected


def runs_of(rows):
    """Coverage of (source, seq, ts) rows, one by one."""
    runs = []
    for source, seq, ts in sorted(rows, key=lambda row: row[:2]):
        last = runs[-1] if runs else None
        if last and last[0] == source and seq - last[4] <= 1 and abs(ts - last[5]) <= CLOCK_JUMP_US:
            last[2], last[4], last[5] = max(last[2], ts), seq, ts
        else:
            runs.append([source, ts, ts, seq, seq, ts])
    return [tuple(run[:5]) for run in runs]


@pytest.mark.parametrize("seed", range(12))
def test_coverage_is_the_runs_of_each_source(seed):
    random = np.random.default_rng(seed)
    rows = [(f"broker-{s}/a.log", n, START + n * 1000) for s in range(3) for n in range(60) if random.random() < 0.9]
    rows = [(s, n, t + (2 * CLOCK_JUMP_US if random.random() < 0.03 else 0)) for s, n, t in rows]
    if seed % 2:
        rows += [rows[k] for k in random.integers(0, len(rows), 5)]
    if seed % 3 == 0:
        rows.sort(key=lambda row: row[1])
    if seed % 3 == 1:
        rows = [rows[k] for k in random.permutation(len(rows))]
    columns = [list(c) for c in zip(*rows, strict=True)]
    events = events_of([{"source_id": "broker-1/a.log"} | row for row in Cluster(1, 20).rows])
    events = pa.concat_tables([events] * (len(rows) // len(events) + 1)).slice(0, len(rows))
    for name, values in zip(("source_id", "source_seq", "ts"), columns, strict=True):
        at = events.column_names.index(name)
        kind = events.schema.field(name).type
        events = events.set_column(
            at, events.schema.field(name), pa.array(values, pa.int64() if name == "ts" else kind).cast(kind)
        )
    for encoded in (events, coded(chunked(events, [40, 3]))):
        covered = coverage(encoded).sort_by([("source_id", "ascending"), ("seq_from", "ascending")])
        names = ("source_id", "since", "latest", "seq_from", "seq_to")
        assert list(zip(*(covered[n].to_pylist() for n in names), strict=True)) == runs_of(rows)


@pytest.mark.parametrize(
    "codes", [[], [0], [-1, 0, -1], [0] * 3000 + [2] * 2000, [1, 0, 2] * 50, [0] * (2 * SHARED_ROWS + 5)]
)
def test_words_are_those_of_their_codes(codes):
    vocabulary = ("advance", "", "größer")
    values = word_column(np.array(codes, dtype=np.int8), vocabulary)
    values.validate(full=True)
    assert values.to_pylist() == [None if code < 0 else vocabulary[code] for code in codes]
    assert LONG_RUN < 2000


def test_rules_on_whole_columns_reject_what_rules_on_single_rows_reject():
    from tests.unit.replication.test_row_rules import BROKEN, GOOD, event, table

    random = np.random.default_rng(1)
    rows = [event(kind, **changes) for kind, changes, _ in BROKEN] + [event(kind) for kind in GOOD for _ in range(9)]
    rows = [rows[k] for k in random.permutation(len(rows))]
    alone = [split(table(row)) for row in rows]
    expected = [mask is None for mask, _ in alone]
    reasons = [rejected["reasons"].to_pylist()[0] for mask, rejected in alone if mask is not None]
    whole = table(*rows)
    for events in (whole, chunked(whole, [1, 2, 30]), coded(whole), whole.slice(0, 3), whole.slice(5)):
        good, rejected = split(events)
        first = 5 if len(events) == len(rows) - 5 else 0
        mine = expected[first : first + len(events)]
        assert ([True] * len(mine) if good is None else good.to_pylist()) == mine
        before = expected[:first].count(False)
        assert rejected["reasons"].to_pylist() == reasons[before : before + mine.count(False)]
