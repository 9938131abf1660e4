"""A cluster of very many partitions: those that are steady in compiled rounds, the others step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from generators.simulator.fleet import opening
from generators.simulator.fleet.arrangement import Arrangement, Keys, Pair, arrange
from generators.simulator.fleet.columns import Names, source_id
from generators.simulator.fleet.compiled import I64
from generators.simulator.fleet.parts import Filling, Part, SourceNumbers
from generators.simulator.fleet.rounds import Course, advance, due, plant
from generators.simulator.load import Load
from generators.simulator.settings import MS, SECOND, Clock, Settings
from generators.simulator.simulation import Simulation
from generators.simulator.telemetry import Telemetry

WINDOW = SECOND
"""What one broker is run through at once."""
BUFFERS = 3
MOST_ROWS = 1 << 21
"""In one file."""


class Fleet:
    """`settings.topics` on `settings.brokers` for so many `seconds` under `loads`; an append has `records` (from, to).

    `parts` gives the telemetry while time passes.
    """

    def __init__(
        self,
        settings: Settings,
        loads: Sequence[Load],
        seconds: float,
        records: tuple[int, int] = (1, 20),
        *,
        rows: int = MOST_ROWS,
        window: int = WINDOW,
    ) -> None:
        self.settings = settings
        self.roster = opening.Roster(settings)
        self.telemetry = Telemetry(settings)
        self.simulation = Simulation(replace(settings, topics=()), [self.telemetry])
        self._rows, self._window_us = rows, window
        self._seconds = seconds
        self._begin(loads, records)

    def _begin(self, loads: Sequence[Load], records: tuple[int, int]) -> None:
        """Every broker up, every partition led: time starts to count."""
        self.simulation.start()
        self.telemetry.follow(self.simulation)
        opening.announce(self.roster, self.simulation)
        self.start = self.simulation.agenda.now
        self.partitions = opening.partitions(self.roster, self.simulation, loads, sum(records) / 2)
        self.told = np.zeros(self.roster.replicas.shape, dtype=np.int64)
        """Rows told of a partition by the broker of each of its replicas."""
        self.partitions.seq[:] = 1
        self._numbers = {b: SourceNumbers() for b in self.settings.brokers}
        self.course = self._course(opening.shape(loads, self._seconds), records)
        self._keys = Keys(self.settings.seed, len(self.partitions))
        self._arrange({})

    def _course(self, shape: np.ndarray, records: tuple[int, int]) -> Course:
        s = self.settings
        clocks = [s.clocks.get(b, Clock()) for b in s.brokers]
        return Course(
            start=self.start, passed=self.start - s.start, network_low=s.network_us[0], network_high=s.network_us[1],
            wait_max=s.fetch_wait_max_ms * MS, most=s.fetch_max_records, tell_unchanged=s.lag_max_ms // 3 * MS,
            sweep=max(1, s.lag_max_ms // 30) * MS, records_low=records[0], records_high=records[1],
            strict=s.version.strict_min_isr, shape=shape, skew=np.array([c.skew_us for c in clocks]),
            drift=np.array([c.drift_ppm for c in clocks]), broker=np.array(s.brokers, dtype=np.int32),
        )  # fmt: skip

    @property
    def now(self) -> int:
        """Microseconds since the fleet began; single steps have been done up to here, this moment not included."""
        return self.simulation.agenda.now + 1 - self.start

    def _arrange(self, kept: dict[tuple[int, int], Pair]) -> None:
        self.arrangement: Arrangement = arrange(self.partitions, self.settings.brokers, self._keys, kept)
        for broker in range(len(self.settings.brokers)):
            plant(self.arrangement.layout, self.arrangement.live, self.course, broker, max(0, self.now - 1))
        at = self.arrangement.partitions
        self.names = Names(
            self.settings.cluster, self.settings.brokers, self.roster.topics, self.roster.topic_ids,
            self.roster.topic[at.number], self.roster.partition[at.number], at.replicas[:, 0].copy(),
            at.leader_epoch, at.partition_epoch,
        )  # fmt: skip

    def parts(self) -> Iterator[Part]:
        """Telemetry until the end, in pieces; give each back (`done`) before the next but one is asked for."""
        filling = Filling(BUFFERS, self._rows)
        end = round(self._seconds * SECOND)
        for until in [*range(self._window_us, end, self._window_us), end]:
            yield from self._window(filling, until)
            if filling.filled > self._rows // 2:
                yield filling.part(self.names, complete=True)
        self._merge(filling, self.telemetry.close())
        yield filling.part(self.names, complete=True)

    def _window(self, filling: Filling, until: int) -> Iterator[Part]:
        """Everything before `until`: single steps first, so that their rows can be put between those of the rounds."""
        self.simulation.agenda.run(self.start + until - 1)
        others = self._split(filling, self.telemetry.drain())
        for k, broker in enumerate(self.settings.brokers):
            waiting, arranged = others.get(broker), self.arrangement
            while True:
                last = advance(arranged.layout, arranged.live, self.course, filling.rows, k, until, filling.filled)
                over = due(arranged.layout, arranged.live, k) >= until
                waiting = self._tell(filling, k, last, waiting, over)
                if over:
                    break
                yield filling.part(self.names, complete=False)

    def _tell(self, filling: Filling, k: int, last: int, others: pa.Table | None, over: bool) -> pa.Table | None:
        """Numbers the rows of one broker up to `last`, and those of its single steps; gives what comes after them."""
        told, later = filling.rows.ts[filling.filled : last], None
        times = np.zeros(0, dtype=np.int64) if others is None else others["ts"].cast(pa.int64()).to_numpy()
        if not over and len(told):
            here = int(np.searchsorted(np.maximum.accumulate(times), told[-1]))
            if others is not None:
                others, later, times = others.slice(0, here), others.slice(here), times[:here]
        mine, theirs = self._numbers[self.settings.brokers[k]].merge(told, times)
        filling.add(k, last, mine)
        if others is not None:
            filling.add_table(_numbered(others, "source_seq", theirs))
        return later

    def _merge(self, filling: Filling, rows: pa.Table) -> None:
        for broker, others in self._split(filling, rows).items():
            self._tell(filling, self.settings.brokers.index(broker), filling.filled, others, over=True)

    def _split(self, filling: Filling, rows: pa.Table) -> dict[int, pa.Table]:
        """Rows of single steps by broker; the controller's go their way."""
        source = rows["source_id"].combine_chunks().dictionary_encode()
        names = {source_id(b): b for b in self.settings.brokers}
        found = {}
        for code, name in enumerate(source.dictionary.to_pylist()):
            these = rows.filter(pa.array(source.indices.to_numpy() == code))
            if name in names:
                found[names[name]] = self._renumbered(these, names[name])
            else:
                filling.add_table(these)
        return found

    def _renumbered(self, rows: pa.Table, broker: int) -> pa.Table:
        """`seq` goes on from what has been told of a partition by this broker in rounds."""
        partition = rows["partition"].to_numpy()
        of = np.flatnonzero(partition >= 0)
        if not len(of):
            return rows
        topics = rows["topic"].combine_chunks().dictionary_encode()
        known = np.array([*(self.roster.topics.index(t) for t in topics.dictionary.to_pylist()), -1])
        topic = known[topics.indices.fill_null(len(known) - 1).to_numpy()]
        number = self.roster.first[topic[of]] + partition[of]
        slot = (self.roster.replicas[number] == broker).argmax(axis=1)
        seq = rows["seq"].to_numpy().copy()
        seq[of] = _counted(number, self.told, slot)
        return _numbered(rows, "seq", seq)


def _counted(number: I64, told: I64, slot: I64) -> I64:
    """The next numbers of each partition, which `told` then has counted."""
    order = np.argsort(number, kind="stable")
    there, first, counts = np.unique(number[order], return_index=True, return_counts=True)
    made = np.empty(len(number), dtype=np.int64)
    slots = slot[order][first]
    made[order] = np.arange(len(number)) - np.repeat(first, counts) + np.repeat(told[there, slots], counts)
    told[there, slots] += counts
    return made


def _numbered(rows: pa.Table, column: str, values: I64) -> pa.Table:
    at = rows.schema.get_field_index(column)
    return rows.set_column(at, rows.schema.field(at), pa.array(values, pa.int64()))
