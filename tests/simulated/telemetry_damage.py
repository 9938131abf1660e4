"""Damage to telemetry on its way: duplicates, losses, delays, wrong clocks, restarted writers, broken rows.

Pure functions of a table of events (bronze schema), a rate and a seed; each returns the damaged events, and what it did
to which row in the schema DONE.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from generators.simulator.cluster.settings import MS
from tests.simulated.broken_rows import DRAWN, corrupted

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_WHO = ("cluster", "source_id", "source_epoch", "source_seq")
DONE = pa.schema(
    [
        ("fault", pa.string()),
        ("cluster", pa.string()),
        ("source_id", pa.string()),
        ("source_epoch", pa.int32()),
        ("source_seq", pa.int64()),
        ("detail", pa.string()),
    ]
)
"""One damaged row, by its number before; `detail` says what was done."""


class Struck(NamedTuple):
    """Events after a fault, and what it did."""

    events: pa.Table
    done: pa.Table


def duplicate(events: pa.Table, rate: float, seed: int) -> Struck:
    """Duplicate this share of rows, later in the table."""
    random = _random("duplicate", rate, seed)
    hit = np.flatnonzero(random.random(len(events)) < rate)
    again = random.integers(hit + 1, len(events) + 1) if len(hit) else hit
    order = np.argsort(np.concatenate([np.arange(len(events)), again - 0.5]), kind="stable")
    both = pa.concat_tables([events, events.take(pa.array(hit))])
    return Struck(both.take(pa.array(order)), _done("duplicate", events, hit, [f"row {k}" for k in again.tolist()]))


def lose(events: pa.Table, rate: float, seed: int) -> Struck:
    """Drop this share of rows: their numbers are missing."""
    gone = _random("lose", rate, seed).random(len(events)) < rate
    return Struck(events.filter(pa.array(~gone)), _done("lose", events, np.flatnonzero(gone)))


def jump_clocks(events: pa.Table, rate: float, seed: int, most_ms: int = 3_600_000, lasting: bool = True) -> Struck:
    """Set a source's clock to another time, up to `most_ms` off either way, at this share of its rows.

    `lasting`: from that row on, else for that row only.
    """
    random = _random("jump_clocks", rate, seed)
    hit = np.flatnonzero(random.random(len(events)) < rate)
    by = random.integers(-most_ms, most_ms + 1, len(hit)) * MS
    shift = np.zeros(len(events), np.int64)
    shift[hit] = by
    if lasting:
        for rows in _sources(events):
            shift[rows] = np.cumsum(shift[rows])
    ts = pc.add(events["ts"].cast(pa.int64()), pa.array(shift)).cast(events.schema.field("ts").type)
    moved = events.set_column(events.schema.get_field_index("ts"), events.schema.field("ts"), ts)
    return Struck(moved, _done("jump_clocks", events, hit, [f"{b // MS} ms" for b in by.tolist()]))


def restart_sources(events: pa.Table, rate: float, seed: int) -> Struck:
    """At this share of rows let a writer restart without its position: a greater source_epoch, numbers from 0."""
    random = _random("restart_sources", rate, seed)
    hit = random.random(len(events)) < rate
    source_epoch, source_seq, seq = (
        events[n].to_numpy().astype(np.int64) for n in ("source_epoch", "source_seq", "seq")
    )
    series = _codes(events, "topic", "partition")
    for rows in _sources(events):
        times = np.cumsum(hit[rows])
        source_epoch[rows] += times
        for part in (rows[times == n] for n in range(1, int(times.max(initial=0)) + 1)):
            source_seq[part] -= source_seq[part].min()
            seq[part] -= _least_of(series[part], seq[part])
    struck = np.flatnonzero(hit)
    details = [f"source_epoch {e}" for e in source_epoch[struck].tolist()]
    numbers = {"source_epoch": source_epoch, "source_seq": source_seq, "seq": seq}
    return Struck(_with(events, numbers), _done("restart_sources", events, struck, details))


def corrupt(events: pa.Table, rate: float, seed: int, rules: tuple[str, ...] = DRAWN) -> Struck:
    """Break this share of rows by rules of `pipelines.replication.events.row_rules`, drawn from `rules`."""
    random = _random("corrupt", rate, seed)
    hit = np.flatnonzero(random.random(len(events)) < rate)
    broken = [rules[k] for k in random.integers(0, len(rules), len(hit)).tolist()]
    return Struck(corrupted(events, hit, broken), _done("corrupt", events, hit, broken))


def arrivals(events: pa.Table, rate: float, seed: int, most_ms: int = 5_000, jitter_ms: int = 20) -> I64:
    """Arrival of each row (us): up to `jitter_ms` after its own time, this share of rows up to `most_ms` late.

    Rows of one source overtake each other then; see `by_source` for those that may not.
    """
    random = _random("arrivals", rate, seed)
    late = random.random(len(events)) < rate
    waits = np.where(
        late, random.integers(0, most_ms * MS + 1, len(events)), random.integers(0, jitter_ms * MS + 1, len(events))
    )
    arrived: I64 = events["ts"].cast(pa.int64()).to_numpy() + waits
    return arrived


def by_source(events: pa.Table, arrived: I64) -> I64:
    """The same where a source delivers its rows in order: none before the one ahead of it."""
    in_order = arrived.copy()
    for rows in _sources(events):
        in_order[rows] = np.maximum.accumulate(arrived[rows])
    return in_order


def deliveries(events: pa.Table, arrived: I64, every_ms: int = 1_000) -> Iterator[pa.Table]:
    """The events in order of arrival, one table per `every_ms` of it: what one commit would have."""
    order = np.argsort(arrived, kind="stable")
    commits = arrived[order] // (every_ms * MS)
    cuts = np.flatnonzero(np.diff(commits)) + 1
    for part in np.split(order, cuts):
        if len(part):
            yield events.take(pa.array(part))


@dataclass(frozen=True)
class Rates:
    """Rate of each fault, as a share of rows; `delay` is the share that arrives late."""

    duplicates: float = 0.0
    loss: float = 0.0
    delay: float = 0.0
    clock_jumps: float = 0.0
    restarts: float = 0.0
    corrupt: float = 0.0


def strike(events: pa.Table, rates: Rates, seed: int) -> Struck:
    """Apply all faults to one table: writers fail first, then rows are broken, lost and duplicated on their way.

    The events are returned in order of arrival.
    """
    faults = (
        (restart_sources, rates.restarts), (jump_clocks, rates.clock_jumps), (corrupt, rates.corrupt),
        (lose, rates.loss), (duplicate, rates.duplicates),
    )  # fmt: skip
    done = [DONE.empty_table()]
    for fault, rate in faults:
        if rate:
            events, record = fault(events, rate, seed)
            done.append(record)
    if rates.delay:
        events = events.take(pa.array(np.argsort(arrivals(events, rates.delay, seed), kind="stable")))
    return Struck(events, pa.concat_tables(done))


def _random(fault: str, rate: float, seed: int) -> np.random.Generator:
    """A random sequence of its own for each fault, so that turning one on does not change the others."""
    if not 0 <= rate <= 1:
        raise ValueError(f"rate of {fault} is {rate}; it is a share of rows, from 0 to 1")
    return np.random.default_rng([seed, *fault.encode()])


def _done(fault: str, events: pa.Table, hit: I64, details: list[str] | None = None) -> pa.Table:
    rows = events.select(_WHO).take(pa.array(hit, pa.int64()))
    detail = pa.array(details if details is not None else [None] * len(hit), pa.string())
    named = pa.repeat(pa.scalar(fault), len(hit))
    return pa.table([named, *(rows[name] for name in _WHO), detail], schema=DONE)


def _codes(events: pa.Table, *columns: str) -> I64:
    """The same number for rows that agree in these columns."""
    codes = np.zeros(len(events), np.int64)
    for column in columns:
        distinct = pc.dictionary_encode(events[column].combine_chunks(), null_encoding="encode")
        codes = codes * (len(distinct.dictionary) + 1) + distinct.indices.to_numpy()
    return codes


def _sources(events: pa.Table) -> Iterator[I64]:
    """The rows of each source, in the order of its numbers."""
    codes, epochs = _codes(events, "cluster", "source_id"), events["source_epoch"].to_numpy()
    order = np.lexsort((events["source_seq"].to_numpy(), epochs, codes))
    yield from np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def _least_of(groups: I64, values: I64) -> I64:
    """For each value the least of its group."""
    _, which = np.unique(groups, return_inverse=True)
    least = np.full(int(which.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, which, values)
    chosen: I64 = least[which]
    return chosen


def _with(events: pa.Table, columns: dict[str, I64]) -> pa.Table:
    for name, values in columns.items():
        field = events.schema.field(name)
        events = events.set_column(events.schema.get_field_index(name), field, pa.array(values).cast(field.type))
    return events
