"""The telemetry that a simulated cluster gives: happenings as rows of bronze/replication_events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from generators.brokerlogs.events.event_rows import EVENTS
from generators.brokerlogs.tailing.sequence_numbers import Numbering
from generators.simulator.cluster.happening import REPLICATION, Happening
from generators.simulator.cluster.settings import MS, Settings
from generators.simulator.telemetry.beats import Clocks, beat, clocks, ends_second
from generators.simulator.telemetry.late import Late, killed
from generators.simulator.telemetry.levels import FULL, INFO, telling
from generators.simulator.telemetry.second_file import FILES, SecondFile
from generators.simulator.telemetry.thinning import thinned
from schemas import replication_events

if TYPE_CHECKING:
    from generators.simulator.cluster.simulation import Simulation

_RENAMED = {"broker_id": "broker", "event_type": "kind", "leader_id": "leader", "replica_id": "replica"}
_AT = attrgetter("at")
_FOR_EVER = 1 << 62
_FIELD = {name: k for k, name in enumerate(Happening._fields)}


class Source:
    """One telemetry writer: what it has told and not handed over yet, and how far."""

    def __init__(self, broker: int, kind: str, level: int) -> None:
        self.source_id = f"broker-{broker}/{kind}.log"
        self.level = level
        self.told = 0
        """The largest `ts` told so far."""
        self.pending: list[Happening] = []
        self.stalled: list[tuple[int, int, Happening]] = []
        """Fetches whose own line is yet to come: when, by which process. Their rows are those of their first line."""
        self.numbering = Numbering()
        self._progress = Happening(0, 0, broker, kind, "progress")

    def tell(self, happening: Happening) -> None:
        self.pending.append(happening)
        if happening.ts > self.told:
            self.told = happening.ts

    def take(self, now: int, simulation: Simulation | None) -> list[Happening]:
        """What can be handed over: up to the first fetch of which nobody knows yet whether its line will come."""
        never = [h for due, process, h in self.stalled if killed(simulation, h.broker, process, due)]
        self.stalled = [s for s in self.stalled if s[0] > now and not any(s[2] is h for h in never)]
        rows = [h for h in self.pending if not any(h is n for n in never)] if never else self.pending
        open = next((k for k, h in enumerate(rows) if any(h is s[2] for s in self.stalled)), len(rows))
        self.pending = rows[open:]
        return rows[:open]

    def progress(self, at: int, ts: int) -> None:
        """Everything up to `ts` is told."""
        self.tell(self._progress._replace(at=at, ts=ts))


class Telemetry:
    """Turns happenings into events of contract level 3 (full), 2 (lean) or 0 (stock INFO).

    Times are whole milliseconds, as Kafka's clocks have them: its rules compare nothing finer. `fetch_every_ms` thins
    out fetches that tell nothing new (see `thinning`), and lets rows be told afterwards, before the next `drain`. With
    `second_file` what a stock broker logs is in its stock files too. Call `follow` for progress by the second; take
    rows with `drain`, and the last ones with `close`.
    """

    def __init__(
        self, settings: Settings, level: int = FULL, fetch_every_ms: int = 0, *, second_file: bool = False
    ) -> None:
        self._settings = settings
        self._level = level
        self._told = telling(level, settings)
        self._second = SecondFile(settings) if second_file else None
        self._fetch_every_us = fetch_every_ms * MS
        self._late: Late[None] = Late(lambda: self._simulation)
        self._sources: dict[tuple[int, str], Source] = {}
        self._simulation: Simulation | None = None

    def follow(self, simulation: Simulation) -> None:
        """From now on whoever runs tells its progress every second, if the cluster moves by itself, and at the end."""
        self._simulation = simulation
        beat(simulation, self._beat)

    def observe(self, happening: Happening) -> None:
        self._tell(self._told.observe(happening))
        if self._second is not None:
            self._tell(self._second.observe(happening))

    def drain(self) -> pa.Table:
        """The rows told since the last call, in order of true time, in bronze schema."""
        return self._drain(self._now)

    def _drain(self, now: int) -> pa.Table:
        self._settle()
        tables, moments = [], []
        for source in self._sources.values():
            rows = source.take(now, self._simulation)
            if self._fetch_every_us:
                rows = thinned(sorted(rows, key=_AT), self._fetch_every_us)
            if rows:
                tables.append(source.numbering.number(_table(rows, self._settings.cluster, source)))
                moments += [h.at for h in rows]
        if not tables:
            return replication_events.ARROW.empty_table()
        order = np.argsort(np.array(moments), kind="stable")
        return pa.concat_tables(tables).take(pa.array(order)).combine_chunks()

    def close(self) -> pa.Table:
        """The last rows, with a progress row per source: up to now where it runs, else up to what it told last."""
        self._settle()
        for late, _ in self._late.close(self._now):
            self._source(late.broker, late.source).tell(late)
        running = self._clocks(clocks(self._simulation)) if self._simulation is not None else {}
        for key in running | dict.fromkeys(self._sources):
            source = self._source(*key)
            source.progress(self._now or source.told, max(running.get(key, 0), source.told))
        return self._drain(_FOR_EVER)

    def _settle(self) -> None:
        self._tell(self._told.settle())
        if self._second is not None:
            self._tell(self._second.settle())
        for late, _ in self._late.until(self._now):
            self._source(late.broker, late.source).tell(late)

    def _clocks(self, now: Clocks) -> Clocks:
        """Of every source: a broker's files have one clock."""
        files = FILES if self._second is not None else ()
        return now | {(id, file): ts for (id, kind), ts in now.items() if kind == REPLICATION for file in files}

    def _tell(self, happenings: Iterable[Happening]) -> None:
        for happening in happenings:
            for late, _ in self._late.before(happening):
                self._source(late.broker, late.source).tell(late)
            if happening.late_us:
                self._late.put(happening, happening.late_us, None, locked=True)
            else:
                self._report(happening)

    def _report(self, happening: Happening) -> None:
        source = self._source(happening.broker, happening.source)
        source.tell(happening)
        if happening.stall_us and self._simulation is not None:
            process = self._simulation.brokers[happening.broker].process
            source.stalled.append((happening.at + happening.stall_us, process, happening))

    def _source(self, broker: int, kind: str) -> Source:
        key = (broker, kind)
        if key not in self._sources:
            self._sources[key] = Source(broker, kind, self._level if kind == REPLICATION else INFO)
        return self._sources[key]

    def _beat(self, now: Clocks) -> None:
        self._settle()
        for key, ts in self._clocks(now).items():
            source = self._source(*key)
            if ends_second(source.told, ts):
                source.progress(self._now, ts)

    @property
    def _now(self) -> int:
        return self._simulation.agenda.now if self._simulation is not None else 0


def _table(rows: list[Happening], cluster: str, source: Source) -> pa.Table:
    """Happenings of one source, column by column, as events without numbers."""
    columns = list(zip(*rows, strict=True))
    fixed = {"cluster": cluster, "source_id": source.source_id, "level": source.level}
    arrays = []
    for field in EVENTS:
        if field.name in fixed:
            arrays.append(pa.repeat(pa.scalar(fixed[field.name], field.type), len(rows)))
        else:
            arrays.append(_column(field, columns[_FIELD[_RENAMED.get(field.name, field.name)]]))
    return pa.table(arrays, schema=EVENTS)


def _column(field: pa.Field, values: Sequence[Any]) -> pa.Array:
    """One column; of few distinct words or lists each is converted once."""
    if pa.types.is_timestamp(field.type):
        return pa.array(np.array(values, np.int64) // MS * MS).cast(field.type)
    if pa.types.is_integer(field.type):
        return pa.array(values, field.type)
    codes = {value: code for code, value in enumerate(dict.fromkeys(values))}
    which = pa.array(list(map(codes.__getitem__, values)), pa.int32())
    return pa.array(list(codes), field.type).take(which)
