"""Stretches of silver/coverage: when each source could have shown which kinds of evidence.

A `progress` row says which kinds its source would have told since the `progress` before. Rows are read in the order of
their numbers, so that what is found does not depend on how they come.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from pipelines.replication.compiled.types import I64
from pipelines.replication.events.columns import int32_column, int64_column
from pipelines.replication.telemetry.coverage import CLOCK_JUMP_US, SourcedRows
from schemas.coverage import by_level
from schemas.telemetry_gaps import NOT_UNDERSTOOD

if TYPE_CHECKING:
    from pipelines.replication.telemetry.source import Source
    from pipelines.replication.telemetry.sources import Sources

MINUTE_US = 60_000_000
_READ = pa.array(["progress", "lost", "unread"])
_HOLE = "-"
"""Stands for the kinds of a row that says that rows are missing."""


class Told(Struct, array_like=True):
    """`progress` rows of one source that follow each other, with the same kinds; or one row of a hole."""

    seq_from: int
    since: int
    seq_to: int
    until: int
    kinds: str
    """Separated by commas; _HOLE of a hole."""
    broker: int
    level: int


class Evidence(Struct):
    """The stretches of one source that go on."""

    seq: int = -1
    """The last number read."""
    until: int = -1
    """The time of the last row read."""
    begun: dict[str, int] = field(default_factory=dict)
    """By kind when its stretch began."""
    broker: int = -1
    level: int = 0
    written: int = -1
    """Up to when the stretches are written."""
    pending: list[Told] = field(default_factory=list)
    """Rows behind a hole that may still be filled, and those not read yet."""

    def read(self, source: Source) -> Iterator[dict[str, Any]]:
        """Read the rows before the first hole; the rows of silver/coverage of stretches that have ended."""
        self.pending.sort(key=lambda told: told.seq_from)
        while self.pending and self.pending[0].seq_to < source.next_seq:
            told = self.pending.pop(0)
            if told.seq_to <= self.seq:
                continue
            if told.kinds == _HOLE or self._lacks(source, told.seq_from):
                yield from self.rows(source)
                self.begun = {}
            self.seq, self.broker, self.level = told.seq_to, told.broker, told.level
            if told.kinds != _HOLE and told.until <= source.latest:
                yield from self._go_on([kind for kind in told.kinds.split(",") if kind], told.since, source)
                self.until = max(self.until, told.until)

    def _lacks(self, source: Source, seq: int) -> bool:
        """Whether numbers between the last one read and `seq` are lost."""
        for first, last in reversed(source.lost):
            if last <= self.seq:
                break
            if first > self.seq and last < seq:
                return True
        return False

    def _go_on(self, kinds: list[str], since: int, source: Source) -> Iterator[dict[str, Any]]:
        """End the stretches of other kinds, and begin those of new ones."""
        for kind in [kind for kind in self.begun if kind not in kinds]:
            yield self._row(source, kind)
            del self.begun[kind]
        for kind in kinds:
            if kind not in self.begun:
                self.begun[kind], self.written = since, min(self.written, since - 1)

    def rows(self, source: Source) -> Iterator[dict[str, Any]]:
        """A row for each stretch that goes on, as far as it has come."""
        self.written = self.until
        for kind in self.begun:
            yield self._row(source, kind)

    def _row(self, source: Source, kind: str) -> dict[str, Any]:
        return {
            "cluster": source.cluster, "broker_id": self.broker, "kind": kind, "from_ts": self.begun[kind],
            "to_ts": self.until, "source_id": source.source_id, "source_epoch": source.source_epoch,
            "level": self.level,
        }  # fmt: skip

    @property
    def is_due(self) -> bool:
        """Whether a minute has ended since its stretches were written."""
        return bool(self.begun) and self.until // MINUTE_US > self.written // MINUTE_US


def find_evidence(sources: Sources, rows: pa.Table, closed: Set[str]) -> list[dict[str, Any]]:
    """Rows of silver/coverage out of these rows, without repeats, of sources that this bucket owns.

    `sources` have advanced over them. Stretches that go on are written each minute, and as their cluster is `closed`.
    """
    if rows.num_rows:
        read = pc.is_in(rows["event_type"].cast(pa.string()), value_set=_READ)
        odd = pc.starts_with(pc.fill_null(rows["detail"].cast(pa.string()), ""), NOT_UNDERSTOOD)
        rows = rows.filter(pc.and_(read, pc.invert(odd)))  # a line that is not understood is there
    if rows.num_rows:
        _add(sources, rows)
    found: list[dict[str, Any]] = []
    for key, source in sorted(sources.known.items()):
        evidence, is_closed = source.evidence, key[0] in closed
        if evidence is None or not (evidence.pending or is_closed):
            continue
        found += evidence.read(source)
        if evidence.is_due or (is_closed and evidence.written < evidence.until):
            found += evidence.rows(source)
    return found


def _add(sources: Sources, rows: pa.Table) -> None:
    """Add what the rows say to the evidence of their sources."""
    sourced = SourcedRows(rows)
    source, seq, ts = np.concatenate(sourced.source_of), int64_column(rows["source_seq"]), int64_column(rows["ts"])
    kinds = _kinds(rows).combine_chunks().dictionary_encode()
    code, names = kinds.indices.to_numpy(), kinds.dictionary.to_pylist()
    broker, level = int32_column(rows["broker_id"]), int32_column(rows["level"])
    segment = np.zeros(len(seq), dtype=np.int64)
    known = [sources.known.get(name) for name in sourced.names]
    for number, one in enumerate(known):
        if one is not None:
            mine = source == number
            begins = [one.next_seq, *(run[0] for run in one.pending_runs), *(last + 1 for _, last in one.lost)]
            begins += [told.seq_from for told in one.evidence.pending] if one.evidence else []
            segment[mine] = np.searchsorted(np.sort(begins), seq[mine], side="right")
    order = np.lexsort((seq, source))
    jumps = np.cumsum(np.abs(np.diff(ts[order], prepend=ts[order[:1]])) > CLOCK_JUMP_US)  # a wrong clock's rows begin
    runs = np.split(order, _changes(source[order], segment[order], code[order], broker[order], level[order], jumps))
    for run in runs:
        first = run[0]
        if (one := known[source[first]]) is not None:
            evidence = one.evidence = one.evidence or Evidence()
            for part in (run,) if names[code[first]] != _HOLE else np.split(run, len(run)):
                a, b, until = part[0], part[-1], ts[part].max()  # a source's clock may go back
                told = int(seq[a]), int(ts[a]), int(seq[b]), int(until), names[code[a]], int(broker[b]), int(level[b])
                evidence.pending.append(Told(*told))


def _changes(*columns: Any) -> I64:
    """Return the places of rows that differ from the one before."""
    differs = np.logical_or.reduce([np.diff(column) != 0 for column in columns])
    return np.flatnonzero(differs) + 1


def _kinds(rows: pa.Table) -> pa.ChunkedArray:
    """Return the kinds that each row says, separated by commas; _HOLE if it says that rows are missing."""
    said = pc.binary_join(rows["covers"].cast(pa.list_(pa.string())), ",")
    levels = [",".join(by_level(level)) for level in range(4)]
    by_default = pa.array(levels).take(pc.max_element_wise(pc.min_element_wise(rows["level"], 3), 0))
    of_progress = pc.equal(rows["event_type"].cast(pa.string()), "progress")
    return pc.if_else(of_progress, pc.coalesce(said, by_default), _HOLE)
