"""A cluster of very many partitions: steady ones in compiled rounds, the others step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from generators.simulator.clients.load import Load
from generators.simulator.cluster.settings import MS, SECOND, Clock, Settings
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.faults.injection import ROLLING, Injection
from generators.simulator.faults.script import Fault
from generators.simulator.fleet import bootstrap
from generators.simulator.fleet.arrangement import HW, LEO, Arrangement, Keys, Pair, arrange
from generators.simulator.fleet.columns import Names
from generators.simulator.fleet.compiled import I64
from generators.simulator.fleet.engine_switch import Disks, EngineSwitch
from generators.simulator.fleet.event_rows import RunParameters, clock
from generators.simulator.fleet.fault_scope import LEAD_TIME, FaultScope, fault_scopes
from generators.simulator.fleet.fetch_rounds import advance, due, plant
from generators.simulator.fleet.output_buffers import OutputBuffers, Part
from generators.simulator.fleet.partition_catalog import PartitionCatalog
from generators.simulator.fleet.partitions import Partitions
from generators.simulator.fleet.rolling import Rolling
from generators.simulator.fleet.sequence_numbers import FleetNumbers
from generators.simulator.fleet.truth import FleetTruth
from generators.simulator.telemetry.rows import Telemetry
from generators.simulator.truth.recorder import resting_fetches

WINDOW = SECOND
"""Time that one broker is simulated at once."""
BUFFERS = 3
MOST_ROWS = 1 << 21
"""In one file."""


class Fleet:
    """`settings.topics` on `settings.brokers` for so many `seconds` under `loads`; an append has `records` (from, to).

    `parts` yields the telemetry while time passes. With `sample_every` the truth is recorded, too (`truth.close()`
    after the last part): HWs in rounds every so many seconds.
    """

    def __init__(
        self,
        settings: Settings,
        loads: Sequence[Load],
        seconds: float,
        records: tuple[int, int] = (1, 20),
        faults: Sequence[Fault] = (),
        *,
        sample_every: float | None = None,
        rows: int = MOST_ROWS,
        window: int = WINDOW,
    ) -> None:
        self.settings = settings
        self.catalog = PartitionCatalog(settings, faults)
        self._loads, self._records = loads, records
        self._rolling: list[Rolling] = []
        self._followed = 0
        """Number of applied faults that have been processed here."""
        self._scopes = fault_scopes(faults, self.catalog, seconds)
        self._end, self._rows = round(seconds * SECOND), rows
        self.telemetry = Telemetry(settings, fetch_every_ms=settings.lag_max_ms // 3)
        self.simulation = Simulation(replace(settings, topics=()), [self.telemetry])
        self.truth: FleetTruth | None = None
        self._sample_every = 0 if sample_every is None else round(sample_every * SECOND)
        if self._sample_every:
            self.truth = FleetTruth(settings, self.catalog, loads)
            self.simulation.attach(self.truth)
        self.simulation.rest = resting_fetches(self.telemetry.observe, self.truth)
        self._stops = self._stops_at(window, faults)
        self._begin(faults)

    def _stops_at(self, window: int, faults: Sequence[Fault]) -> list[int]:
        """Times at which time is cut: at windows, before and after every fault, and where partitions may change
        engines."""
        found = {*range(window, self._end, window), *(t.at for t in self._scopes)}
        found |= {at for f in faults for at in (f.at, f.at + 1)}
        if self._scopes or any(f.do in ROLLING for f in faults):
            found |= {*range(SECOND, self._end, SECOND)}
        if self._sample_every:
            found |= {*range(self._sample_every, self._end, self._sample_every)}
        return [0, *sorted(at for at in found if 0 < at < self._end), self._end]

    def _begin(self, faults: Sequence[Fault]) -> None:
        """Start until every broker is up and every partition led: time counts from here."""
        self.simulation.start()
        self.telemetry.follow(self.simulation)
        bootstrap.announce(self.catalog, self.simulation)
        self.start = self.simulation.event_queue.now
        self.injection = Injection(self.simulation, faults, self._roll)
        loads, records = self._loads, self._records
        partitions = bootstrap.partitions(self.catalog, self.simulation, loads, sum(records) / 2)
        partitions.seq[:] = 1
        self.numbers = FleetNumbers(self.catalog)
        self.parameters = self._parameters(bootstrap.shape(loads, self._end / SECOND), records)
        self._keys = Keys(self.settings.seed, len(self.catalog.topic))
        self._disks = Disks(*np.zeros((3, len(self.catalog.topic)), dtype=np.int64))
        self.engine_switch = EngineSwitch(self.simulation, self.catalog, self.parameters, self._keys, loads, self.truth)
        self._arrange(partitions, {}, 0)

    def _parameters(self, shape: np.ndarray, records: tuple[int, int]) -> RunParameters:
        settings = self.settings
        clocks = [settings.clocks.get(b, Clock()) for b in settings.brokers]
        return RunParameters(
            start=self.start,
            passed=self.start - settings.start,
            network_low=settings.network_us[0],
            network_high=settings.network_us[1],
            wait_max=settings.fetch_wait_max_ms * MS,
            most=settings.fetch_max_records,
            emit_unchanged=settings.lag_max_ms // 3 * MS,
            sweep=max(1, settings.lag_max_ms // 30) * MS,
            records_low=records[0],
            records_high=records[1],
            strict=settings.version.strict_min_isr,
            shape=shape,
            skew=np.array([c.skew_us for c in clocks]),
            drift=np.array([c.drift_ppm for c in clocks]),
            broker=np.array(settings.brokers, dtype=np.int32),
        )

    def _arrange(self, partitions: Partitions, kept: dict[tuple[int, int], Pair], now: int) -> None:
        self.arrangement: Arrangement = arrange(partitions, self.settings.brokers, self._keys, kept)
        for broker in range(len(self.settings.brokers)):
            plant(self.arrangement.layout, self.arrangement.live, self.parameters, broker, now)
        if self.truth is not None:
            self.truth.arranged = self.arrangement
        at = self.arrangement.partitions
        self.names = Names(
            self.settings.cluster, self.settings.brokers, self.catalog.topics, list(self.catalog.topic_ids),
            self.catalog.topic[at.number], self.catalog.partition[at.number], at.replicas[:, 0].copy(),
            at.leader_epoch, at.partition_epoch, self._broker_epochs(),
        )  # fmt: skip

    def _broker_epochs(self) -> I64:
        """By id of a broker: the incarnation that is running."""
        epochs = np.zeros(max(self.settings.brokers) + 1, dtype=np.int64)
        for id, broker in self.simulation.brokers.items():
            epochs[id] = broker.epoch or 0
        return epochs

    # time passes

    def parts(self) -> Iterator[Part]:
        """Telemetry until the end, in parts; give each back (`done`) before the next but one is requested."""
        buffers = OutputBuffers(BUFFERS, self._rows)
        for until in self._stops:
            yield from self._window(buffers, until)
            names = self.names
            if self.truth is not None and until and (until % self._sample_every == 0 or until == self._end):
                self.truth.sample(self.arrangement, names, self.parameters, until)
            if self._change_over(until) or buffers.filled > self._rows // 2:
                yield buffers.part(names, complete=True)
        brokers, others = self.numbers.split(self.telemetry.close())
        for table in others:
            buffers.add_table(table)
        for broker, rows in brokers.items():
            self._number_rows(buffers, self.settings.brokers.index(broker), buffers.filled, [rows], over=True)
        yield buffers.part(self.names, complete=True)

    def _window(self, buffers: OutputBuffers, until: int) -> Iterator[Part]:
        """Simulate everything before `until`: single steps first, so that their rows can be put between those of the
        rounds."""
        self.simulation.event_queue.run(self.start + until - 1)
        self.simulation.emit_resting()
        self._follow_clocks()
        brokers, others = self.numbers.split(self.telemetry.drain())
        for table in others:
            buffers.add_table(table)
        arranged = self.arrangement
        for position, broker in enumerate(self.settings.brokers):
            waiting = [brokers[broker]] if broker in brokers else []
            while True:
                last = advance(
                    arranged.layout, arranged.live, self.parameters, buffers.rows, position, until, buffers.filled
                )
                over = due(arranged.layout, arranged.live, position) >= until
                self._number_rows(buffers, position, last, waiting, over)
                if over:
                    break
                yield buffers.part(self.names, complete=False)

    def _number_rows(
        self, buffers: OutputBuffers, position: int, last: int, waiting: list[pa.Table], over: bool
    ) -> None:
        """Number the rows of one broker up to `last`, and those of its single steps that come before what is left."""
        emitted = buffers.rows.ts[buffers.filled : last]
        numbers, rest = self.numbers.number(
            self.settings.brokers[position], emitted, waiting.pop() if waiting else None, over
        )
        buffers.add(position, last, numbers)
        if rest:
            buffers.add_table(rest[0])
            waiting.append(rest[1])

    def _follow_clocks(self) -> None:
        """Clocks may have jumped."""
        at = self.simulation.event_queue.now - self.start
        for position, broker in enumerate(self.settings.brokers):
            shown = self.simulation.brokers[broker].clock.ms
            if shown != clock(self.parameters, position, at):
                self.parameters.skew[position] += MS * (shown - clock(self.parameters, position, at))

    # between rounds and single steps

    def _change_over(self, now: int) -> bool:
        """Move partitions between rounds and single steps; returns whether any moved."""
        self._checkpoint(now)
        self._follow_topics(now)
        if now % SECOND == 0:
            self._scopes += [scope for rolling in self._rolling if (scope := rolling.next(now)) is not None]
        wanted = [t for t in self._scopes if t.at == now]
        back = [] if now % SECOND else self._back(now)
        if not (wanted or back):
            return False
        state = self.arrangement.state()
        going = self._in_scope(state, wanted)
        fetched, kept = self.arrangement.fetched(), self.arrangement.kept()
        leaves = state.only(going)
        self.numbers.emitted[leaves.number, self.numbers.position(leaves.replicas[:, 0])] = leaves.seq
        self.engine_switch.to_steps(leaves, fetched[going], self._disks)
        stays = [state.only(~going), *self.engine_switch.to_rounds(back, self._disks)]
        for come in stays[1:]:
            come.seq[:] = self.numbers.emitted[come.number, self.numbers.position(come.replicas[:, 0])]
            come.emitted[:] = now
        self._arrange(Partitions.of(stays), kept, now)
        return True

    def _roll(self, fault: Fault) -> None:
        self._rolling.append(Rolling(self.simulation, fault))

    def _follow_topics(self, now: int) -> None:
        """Topics may have been deleted and created."""
        done, self._followed = self.injection.done[self._followed :], len(self.injection.done)
        for fault in [one.fault for one in done if one.skipped is None]:
            if fault.do == "delete-topic":
                self.engine_switch.forget(self.catalog.of(fault.on).tolist())
            elif fault.do == "create-topic":
                records = sum(self._records) / 2
                made = bootstrap.created(self.catalog, self.simulation, fault.on, self._loads, records)
                self.engine_switch.add_created(made, now, self._disks)

    def _in_scope(self, state: Partitions, fault_scopes: list[FaultScope]) -> np.ndarray:
        masks = [t.covers(self.catalog.replicas, state.number, state.replicas[:, 0]) for t in fault_scopes]
        return np.any(masks, axis=0) if masks else np.zeros(len(state), dtype=bool)

    def _back(self, now: int) -> list[int]:
        """Stepped partitions that are steady, and outside the scope of any fault soon."""
        if not self.engine_switch.stepped:
            return []
        soon = [t for t in self._scopes if now - 2 * LEAD_TIME <= t.at <= now + SECOND]
        steady = list(self.engine_switch.steady())
        number = np.array(steady, dtype=np.int64)
        for n in steady:
            self.catalog.follow(n, self.engine_switch.known(n))
        leader = np.array([self.engine_switch.known(n).leader for n in steady], dtype=np.int32)
        masks = [t.covers(self.catalog.replicas, number, leader) for t in soon]
        return [n for position, n in enumerate(steady) if not any(mask[position] for mask in masks)]

    def _checkpoint(self, now: int) -> None:
        """Update what a broker that dies would find on its disk."""
        number, live = self.arrangement.partitions.number, self.arrangement.live.partition
        if now % (self.settings.checkpoint_ms * MS) == 0:
            self._disks.checkpointed[number] = live[:, HW]
        if now % (self.settings.flush_ms * MS) == 0:
            self._disks.flushed[number] = live[:, LEO]
