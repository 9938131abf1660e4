"""What may not change the facts of a simulated cluster does not: cuts, repeats, order, restarts, names, shifts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipelines.replication import Facts, Reconstructor, Rules, replay
from tests.simulated.telemetry_damage import arrivals, by_source, deliveries, duplicate
from tests.streaming.shell import added_up, same_rows
from tests.unit.simulator.random_runs import again, clocks_right, run_of, seeds
from tests.unit.simulator.simulated_runs import SimulatedRun, simulated

pytestmark = pytest.mark.long

SEEDS = seeds(4)
OFFSETS = ("leo", "leader_leo", "hw", "log_start")
SHIFTED = (*OFFSETS, "reported_hw", "hw_before", "hw_after", "start_offset", "lost_from", "lost_to")


@cache
def clean(seed: int) -> tuple[SimulatedRun, Facts]:
    """A run whose clocks are right, and its facts: sources are as late as their clocks are slow, otherwise."""
    one = simulated(clocks_right(run_of(seed)))
    return one, replay(one.events, one.rules)


def in_batches(batches: Iterable[pa.Table], rules: Rules, restart: bool = False) -> Facts:
    """Facts of one update per batch; with `restart` each batch finds what a snapshot kept."""
    reconstructor, parts = Reconstructor(rules), []
    for number, batch in enumerate(batches):
        parts.append(reconstructor.update(batch, batch_id=number))
        if restart:
            reconstructor = Reconstructor.restore(reconstructor.snapshot())
    return Facts.concat([*parts, reconstructor.finish(batch_id=len(parts))])


def assert_same(facts: Facts, expected: Facts, but: tuple[str, ...] = ()) -> None:
    for name, table in expected.tables().items():
        if name == "minute_stats":
            assert added_up(facts.minute_stats) == added_up(table)
        else:
            assert same_rows(getattr(facts, name), but) == same_rows(table, but), name


@pytest.mark.parametrize("seed", SEEDS)
def test_cutting_into_batches(seed):
    one, expected = clean(seed)
    random, rows = Random(seed), len(one.events)
    cuts = [0, *sorted(random.sample(range(rows), 10)), rows]
    pieces = [one.events.slice(start, end - start) for start, end in pairwise(cuts)]
    assert_same(in_batches(pieces, one.rules), expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_cutting_into_batches_with_clocks_apart(seed):
    """By up to 8 s, within the grace; facts with clocks apart are other ones, but those whatever the cut."""
    one = simulated(again(clocks_right(run_of(seed)), clock_skew_ms=4_000))
    random, rows = Random(seed), len(one.events)
    cuts = [0, *sorted(random.sample(range(rows), 10)), rows]
    pieces = [one.events.slice(start, end - start) for start, end in pairwise(cuts)]
    assert_same(in_batches(pieces, one.rules), replay(one.events, one.rules))


@pytest.mark.parametrize("seed", SEEDS)
def test_restarting_between_any_two_batches(seed):
    one, expected = clean(seed)
    batches = deliveries(one.events, arrivals(one.events, 0.0, seed), every_ms=3_000)
    assert_same(in_batches(batches, one.rules, restart=True), expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_repeats(seed):
    one, expected = clean(seed)
    struck = duplicate(one.events, 0.1, seed)
    assert len(struck.events) > len(one.events)
    assert_same(replay(struck.events, one.rules), expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_order_between_sources_within_the_grace(seed):
    """Each source hands its rows over in order, but up to 5 s late; the grace is 10 s."""
    one, expected = clean(seed)
    late = by_source(one.events, arrivals(one.events, 0.05, seed, most_ms=5_000))
    assert_same(in_batches(deliveries(one.events, late, every_ms=700), one.rules), expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_any_order_within_one_batch(seed):
    one, expected = clean(seed)
    order = list(range(len(one.events)))
    Random(seed).shuffle(order)
    assert_same(replay(one.events.take(order), one.rules), expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_renaming_topics(seed):
    one, expected = clean(seed)
    renamed = with_column(one.events, "topic", pc.binary_join_element_wise("z", one.events["topic"], "."))
    facts = replay(renamed, one.rules)
    back = {
        name: with_column(table, "topic", pc.utf8_slice_codeunits(table["topic"], 2)) if "topic" in table.schema.names
        else table
        for name, table in facts.tables().items()
    }  # fmt: skip
    assert_same(Facts(**back), expected, but=("regression_id",))


@pytest.mark.parametrize("seed", SEEDS)
def test_shifting_offsets(seed):
    one, expected = clean(seed)
    shifted = replay(moved(one.events, 1 << 33, OFFSETS), one.rules)
    for name in ("partition_hw", "replica_sync", "hw_regressions", "isr_changes"):
        found, true = getattr(shifted, name), getattr(expected, name)
        if name == "hw_regressions":  # a log that begins at 0 is that of a new partition: earlier lives do not matter
            found, true = (t.filter(pc.not_equal(t["class"], "loss_not_excluded")) for t in (found, true))
        named = ("evidence", "regression_id")  # both say offsets in words
        assert same_rows(found, named) == same_rows(moved(true, 1 << 33, SHIFTED), named), name


@pytest.mark.parametrize("seed", SEEDS)
def test_shifting_all_clocks(seed):
    one, expected = clean(seed)
    by = timedelta(days=100, minutes=7)
    shifted = later(replay(later(one.events, by), one.rules), -by)
    assert_same(shifted, expected, but=("evidence", "regression_id"))


def with_column(table: pa.Table, name: str, values: Any) -> pa.Table:
    field = table.schema.field(name)
    return table.set_column(table.schema.get_field_index(name), field, values.cast(field.type))


def moved(table: pa.Table, by: int, columns: tuple[str, ...]) -> pa.Table:
    """Every known offset greater by so much; -1 stays what it is, no offset."""
    for name in [name for name in columns if name in table.schema.names]:
        known = pc.fill_null(pc.greater_equal(table[name], 0), False)
        table = with_column(table, name, pc.if_else(known, pc.add(table[name], by), table[name]))
    return table


def later(one: Any, by: timedelta) -> Any:
    """Every time in a table, or in every table of Facts, later by so much."""
    if isinstance(one, Facts):
        return Facts(**{name: later(table, by) for name, table in one.tables().items()})
    for field in [field for field in one.schema if pa.types.is_timestamp(field.type)]:
        one = with_column(one, field.name, pc.add(one[field.name], pa.scalar(by, pa.duration("us"))))
    return one
