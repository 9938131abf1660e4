"""The telemetry of a simulated cluster: its events as rows of bronze/replication_events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from generators.brokerlogs.events.event_rows import EVENTS
from generators.brokerlogs.tailing.sequence_numbers import Numbering
from generators.simulator.cluster.settings import MS, NEVER, Settings
from generators.simulator.cluster.simulation_event import REPLICATION, SimulationEvent
from generators.simulator.telemetry.delayed_lines import DelayedLines, killed
from generators.simulator.telemetry.fetch_thinning import Levels, thin_fetches
from generators.simulator.telemetry.heartbeats import Clocks, clocks, ends_second, on_heartbeat
from generators.simulator.telemetry.levels import COVERS, FULL, INFO, LEAN, level_filter
from generators.simulator.telemetry.second_file import FILES, SecondFile
from schemas import replication_events

if TYPE_CHECKING:
    from generators.simulator.cluster.simulation import Simulation

_RENAMED = {"broker_id": "broker", "event_type": "kind", "leader_id": "leader", "replica_id": "replica"}
_AT = attrgetter("at")
_FIELD = {name: k for k, name in enumerate(SimulationEvent._fields)}


def source_id(broker: int, kind: str) -> str:
    """The id of one telemetry source of a broker or controller."""
    return f"broker-{broker}/{kind}.log"


class Drained(NamedTuple):
    """Rows in order of true time in bronze schema; when each was reported, and what its clock showed (microseconds)."""

    rows: pa.Table
    at: npt.NDArray[np.int64]
    clock: npt.NDArray[np.int64]


class Source:
    """One telemetry writer: its events that are not handed over yet, and its greatest time."""

    def __init__(self, broker: int, kind: str, level: int) -> None:
        self.source_id = source_id(broker, kind)
        self.level = level
        self.covers = [*COVERS[kind], *(["hw"] if kind == REPLICATION and level >= LEAN else [])]
        self.max_ts = 0
        """The greatest `ts` so far."""
        self.pending: list[SimulationEvent] = []
        self.stalled: list[tuple[int, int, SimulationEvent]] = []
        """Fetches whose own line is still to come: (when, process, event). Their rows have the time of their first
        line."""
        self.numbering = Numbering()
        self.levels: Levels = {}
        self._progress = SimulationEvent(0, 0, broker, kind, "progress")

    def append(self, event: SimulationEvent) -> None:
        self.pending.append(event)
        if event.ts > self.max_ts:
            self.max_ts = event.ts

    def take(self, now: int, simulation: Simulation | None) -> list[SimulationEvent]:
        """Events that can be handed over: up to the first fetch whose line may still come, or never."""
        never = [event for due, process, event in self.stalled if killed(simulation, event.broker, process, due)]
        self.stalled = [s for s in self.stalled if s[0] > now and not any(s[2] is event for event in never)]
        rows = [event for event in self.pending if not any(event is n for n in never)] if never else self.pending
        open = next((k for k, event in enumerate(rows) if any(event is s[2] for s in self.stalled)), len(rows))
        self.pending = rows[open:]
        return rows[:open]

    def progress(self, at: int, ts: int) -> None:
        """Append a progress event: everything up to `ts` is complete."""
        self.append(self._progress._replace(at=at, ts=ts))


class Telemetry:
    """Turns events into rows of contract level 3 (full), 2 (lean) or 0 (stock INFO).

    Times are whole milliseconds, as Kafka's clocks have them: its rules compare nothing finer. `fetch_every_ms` thins
    out redundant fetches (see `fetch_thinning`), and allows rows to come afterwards, before the next `drain`. With
    `second_file` the rows of a broker's stock files are there, too; without `learned_hws` followers report no HWs. Call
    `follow` for progress by the second; take rows with `drain`, and the last ones with `close`.
    """

    def __init__(
        self,
        settings: Settings,
        level: int = FULL,
        fetch_every_ms: int = 0,
        *,
        second_file: bool = False,
        learned_hws: bool = True,
    ) -> None:
        self._learned_hws = learned_hws
        self._settings = settings
        self._level = level
        self._filter = level_filter(level, settings)
        self._second_file = SecondFile(settings) if second_file else None
        self._fetch_every_us = fetch_every_ms * MS
        self._late: DelayedLines[None] = DelayedLines(lambda: self._simulation)
        self._sources: dict[tuple[int, str], Source] = {}
        self._simulation: Simulation | None = None

    def follow(self, simulation: Simulation) -> None:
        """From now on every running node emits its progress every second, if the cluster moves by itself, and at the
        end."""
        self._simulation = simulation
        on_heartbeat(simulation, self._on_heartbeat)

    def observe(self, event: SimulationEvent) -> None:
        if event.kind == "hw" and event.broker != event.leader and not self._learned_hws:
            return
        self._append_all(self._filter.observe(event))
        if self._second_file is not None:
            self._append_all(self._second_file.observe(event))

    def drain(self) -> pa.Table:
        """The rows since the last call, in order of true time, in bronze schema."""
        return self.drain_timed().rows

    def drain_timed(self) -> Drained:
        """The same with their times."""
        return self._drain(self._now)

    def _drain(self, now: int) -> Drained:
        self._settle()
        tables: list[pa.Table] = []
        times: list[tuple[int, int]] = []
        for source in self._sources.values():
            events = source.take(now, self._simulation)
            if self._fetch_every_us:
                events = thin_fetches(sorted(events, key=_AT), self._fetch_every_us, source.levels)
            if events:
                tables.append(source.numbering.number(_table(events, self._settings.cluster, source)))
                times += [(event.at, event.ts) for event in events]
        at, clock = np.array(times, dtype=np.int64).reshape(-1, 2).T
        order = np.argsort(at, kind="stable")
        rows = pa.concat_tables([replication_events.ARROW.empty_table(), *tables])
        return Drained(rows.take(pa.array(order)).combine_chunks(), at[order], clock[order])

    def close(self) -> pa.Table:
        """The last rows, with a progress row per source: up to now where it runs, else up to its greatest time."""
        return self.close_timed().rows

    def close_timed(self) -> Drained:
        """The same with their times."""
        self._settle()
        for late, _ in self._late.close(self._now):
            self._source(late.broker, late.source).append(late)
        running = self._clocks(clocks(self._simulation)) if self._simulation is not None else {}
        for key in running | dict.fromkeys(self._sources):
            source = self._source(*key)
            source.progress(self._now or source.max_ts, max(running.get(key, 0), source.max_ts))
        return self._drain(NEVER)

    def _settle(self) -> None:
        self._append_all(self._filter.settle())
        if self._second_file is not None:
            self._append_all(self._second_file.settle())
        for late, _ in self._late.until(self._now):
            self._source(late.broker, late.source).append(late)

    def _clocks(self, now: Clocks) -> Clocks:
        """Clocks of all sources: a broker's files have one clock."""
        files = FILES if self._second_file is not None else ()
        return now | {(id, file): ts for (id, kind), ts in now.items() if kind == REPLICATION for file in files}

    def _append_all(self, events: Iterable[SimulationEvent]) -> None:
        for event in events:
            for late, _ in self._late.before(event):
                self._source(late.broker, late.source).append(late)
            if event.late_us:
                self._late.put(event, event.late_us, None, locked=True)
            else:
                self._append(event)

    def _append(self, event: SimulationEvent) -> None:
        source = self._source(event.broker, event.source)
        source.append(event)
        if event.stall_us and self._simulation is not None:
            process = self._simulation.brokers[event.broker].process
            source.stalled.append((event.at + event.stall_us, process, event))

    def _source(self, broker: int, kind: str) -> Source:
        key = (broker, kind)
        if key not in self._sources:
            self._sources[key] = Source(broker, kind, self._level if kind == REPLICATION else INFO)
        return self._sources[key]

    def _on_heartbeat(self, now: Clocks) -> None:
        self._settle()
        for key, ts in self._clocks(now).items():
            source = self._source(*key)
            if ends_second(source.max_ts, ts):
                source.progress(self._now, ts)

    @property
    def _now(self) -> int:
        return self._simulation.event_queue.now if self._simulation is not None else 0


def _table(rows: list[SimulationEvent], cluster: str, source: Source) -> pa.Table:
    """Events of one source, column by column, as rows without numbers."""
    columns = list(zip(*rows, strict=True))
    fixed = {"cluster": cluster, "source_id": source.source_id, "level": source.level}
    arrays = []
    for field in EVENTS:
        if field.name in fixed:
            arrays.append(pa.repeat(pa.scalar(fixed[field.name], field.type), len(rows)))
        elif field.name == "covers":
            arrays.append(pa.array([source.covers if row.kind == "progress" else None for row in rows], field.type))
        else:
            arrays.append(_column(field, columns[_FIELD[_RENAMED.get(field.name, field.name)]]))
    return pa.table(arrays, schema=EVENTS)


def _column(field: pa.Field, values: Sequence[Any]) -> pa.Array:
    """One column; distinct texts or lists are converted once each."""
    if pa.types.is_timestamp(field.type):
        return pa.array(np.array(values, np.int64) // MS * MS).cast(field.type)
    if pa.types.is_integer(field.type):
        return pa.array(values, field.type)
    codes = {value: code for code, value in enumerate(dict.fromkeys(values))}
    which = pa.array(list(map(codes.__getitem__, values)), pa.int32())
    return pa.array(list(codes), field.type).take(which)
