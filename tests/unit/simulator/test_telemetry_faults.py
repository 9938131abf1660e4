"""Telemetry is damaged in the ways that were requested, in those only, and the record has where."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from generators.simulator.cluster.settings import MS, START, Settings
from generators.simulator.telemetry.rows import Telemetry
from pipelines.replication.events.row_rules import split
from tests.simulated import telemetry_damage as faults
from tests.simulated.broken_rows import NAMES, WRITABLE, corrupted
from tests.unit.simulator.simulation_events import event

SEED = 7
KEY = ("source_id", "source_epoch", "source_seq")


@cache
def events() -> pa.Table:
    telemetry = Telemetry(Settings())
    for k in range(400):
        telemetry.observe(event(10 * k, "append", 1 + k % 2, leader_leo=k, partition=k % 3))
    return telemetry.drain()


def keys(table: pa.Table, *columns: str) -> list[tuple]:
    return [tuple(row.values()) for row in table.select(columns or KEY).to_pylist()]


FAULTS = [faults.duplicate, faults.lose, faults.jump_clocks, faults.restart_sources, faults.corrupt]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_rate_of_zero_changes_nothing(fault) -> None:
    struck = fault(events(), 0.0, SEED)
    assert struck.events.equals(events())
    assert len(struck.done) == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_the_same_seed_does_the_same_and_another_one_something_else(fault) -> None:
    first, again, other = fault(events(), 0.1, SEED), fault(events(), 0.1, SEED), fault(events(), 0.1, SEED + 1)
    assert first.events.equals(again.events)
    assert first.done.equals(again.done)
    assert not first.done.equals(other.done)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_rate_that_is_no_share_is_refused(fault) -> None:
    with pytest.raises(ValueError, match=r"is 1\.5; it is a share of rows"):
        fault(events(), 1.5, SEED)


def test_duplicates_are_equal_rows_after_the_first() -> None:
    struck = faults.duplicate(events(), 0.1, SEED)
    assert len(struck.done) > 20
    assert len(struck.events) == len(events()) + len(struck.done)
    seen: dict[tuple, dict] = {}
    for row in struck.events.to_pylist():
        assert seen.setdefault(tuple(row[c] for c in KEY), row) == row
    assert list(seen) == keys(events())


def test_lost_rows_are_those_of_the_record() -> None:
    struck = faults.lose(events(), 0.1, SEED)
    gone = set(keys(struck.done))
    assert keys(struck.events) == [key for key in keys(events()) if key not in gone]
    assert len(gone) > 20


def test_a_clock_that_jumped_stays_off_until_it_jumps_again() -> None:
    struck = faults.jump_clocks(events(), 0.02, SEED)
    off = {key: int(detail.split()[0]) for *key, detail in keys(struck.done, *KEY, "detail") for key in [tuple(key)]}
    shown: dict[str, int] = {}
    for before, after in zip(events().to_pylist(), struck.events.to_pylist(), strict=True):
        source = before["source_id"]
        shown[source] = shown.get(source, 0) + off.get(tuple(before[c] for c in KEY), 0)
        assert (after["ts"] - before["ts"]).total_seconds() * 1000 == shown[source]
    assert len(off) > 3


def test_a_clock_may_be_off_for_one_row_only() -> None:
    struck = faults.jump_clocks(events(), 0.02, SEED, lasting=False)
    moved = pc.not_equal(struck.events["ts"], events()["ts"])
    assert keys(events().filter(moved)) == keys(struck.done)


def test_a_restarted_source_numbers_from_0_in_a_greater_epoch() -> None:
    struck = faults.restart_sources(events(), 0.02, SEED)
    rows = struck.events.to_pylist()
    for source in {r["source_id"] for r in rows}:
        mine = [r for r in rows if r["source_id"] == source]
        epochs = [r["source_epoch"] for r in mine]
        assert epochs == sorted(epochs)
        assert max(epochs) > 0
        for epoch in set(epochs):
            part = [r for r in mine if r["source_epoch"] == epoch]
            assert [r["source_seq"] for r in part] == list(range(len(part)))
            for partition in range(3):
                of = [r["seq"] for r in part if r["partition"] == partition]
                assert of == list(range(len(of)))


@pytest.mark.parametrize("rule", NAMES)
def test_every_row_rule_can_be_broken(rule) -> None:
    at = np.array([3, 50])
    _, rejected = split(corrupted(events(), at, [rule, rule]))
    assert [any(why.startswith(f"{rule}:") for why in reasons) for reasons in rejected["reasons"].to_pylist()] == [
        True
    ] * 2


def test_corrupt_rows_are_those_of_the_record_and_can_be_written() -> None:
    struck = faults.corrupt(events(), 0.1, SEED)
    good, _ = split(struck.events)
    broken = np.flatnonzero(~np.asarray(good))
    assert keys(events().take(pa.array(broken))) == keys(struck.done)
    assert set(struck.done["detail"].to_pylist()) <= set(WRITABLE)
    assert not any(struck.events[f.name].null_count for f in struck.events.schema if not f.nullable)


def test_deliveries_hold_every_row_once_in_order_of_arrival() -> None:
    arrived = faults.arrivals(events(), 0.1, SEED)
    pieces = list(faults.deliveries(events(), arrived, every_ms=500))
    assert sorted(keys(pa.concat_tables(pieces))) == sorted(keys(events()))
    when = dict(zip(keys(events()), arrived.tolist(), strict=True))
    spans = [{when[key] // (500 * MS) for key in keys(piece)} for piece in pieces]
    assert all(len(span) == 1 for span in spans)
    assert [min(span) for span in spans] == sorted(min(span) for span in spans)
    assert keys(pa.concat_tables(pieces)) != keys(events())


def test_only_the_share_asked_for_comes_late() -> None:
    waits = (
        faults.arrivals(events(), 0.1, SEED, most_ms=5_000, jitter_ms=20) - events()["ts"].cast(pa.int64()).to_numpy()
    )
    assert waits.min() >= 0
    assert 20 < (waits > 20 * MS).sum() < 60
    assert START > 0


def test_a_source_that_keeps_its_order_hands_nothing_over_before_its_turn() -> None:
    arrived = faults.by_source(events(), faults.arrivals(events(), 0.3, SEED))
    for source in ("broker-1/replication.log", "broker-2/replication.log"):
        mine = arrived[np.asarray(pc.equal(events()["source_id"], source))]
        assert (np.diff(mine) >= 0).all()


def test_all_faults_together_name_each_row_they_struck() -> None:
    rates = faults.Rates(duplicates=0.05, loss=0.05, delay=0.1, clock_jumps=0.01, restarts=0.01, corrupt=0.05)
    struck = faults.strike(events(), rates, SEED)
    counts = dict(zip(*np.unique(struck.done["fault"].to_numpy(zero_copy_only=False), return_counts=True), strict=True))
    assert set(counts) == {"duplicate", "lose", "jump_clocks", "restart_sources", "corrupt"}
    assert len(struck.events) == len(events()) - counts["lose"] + counts["duplicate"]
