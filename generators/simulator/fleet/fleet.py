"""A cluster of very many partitions: those that are steady in compiled rounds, the others step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from generators.simulator.clients.load import Load
from generators.simulator.cluster.happening import Happening
from generators.simulator.cluster.settings import MS, SECOND, Clock, Settings
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.faults.injection import ROLLING, Injection
from generators.simulator.faults.script import Fault
from generators.simulator.fleet import opening
from generators.simulator.fleet.arrangement import HW, LEO, Arrangement, Keys, Pair, arrange
from generators.simulator.fleet.columns import Names
from generators.simulator.fleet.compiled import I64
from generators.simulator.fleet.handover import Disks, Handover
from generators.simulator.fleet.numbering import Numbering
from generators.simulator.fleet.partitions import Partitions
from generators.simulator.fleet.parts import Filling, Part
from generators.simulator.fleet.rolling import Rolling
from generators.simulator.fleet.roster import Roster
from generators.simulator.fleet.rounds import advance, due, plant
from generators.simulator.fleet.telling import Course, clock
from generators.simulator.fleet.touched import NOTICE, Touch, touches
from generators.simulator.fleet.truth import FleetTruth
from generators.simulator.telemetry.rows import Telemetry

WINDOW = SECOND
"""What one broker is run through at once."""
BUFFERS = 3
MOST_ROWS = 1 << 21
"""In one file."""


class Fleet:
    """`settings.topics` on `settings.brokers` for so many `seconds` under `loads`; an append has `records` (from, to).

    `parts` gives the telemetry while time passes. With `look_every` the truth is kept too (`truth.close()` after
    the last part): HWs in rounds every so many seconds.
    """

    def __init__(
        self,
        settings: Settings,
        loads: Sequence[Load],
        seconds: float,
        records: tuple[int, int] = (1, 20),
        faults: Sequence[Fault] = (),
        *,
        look_every: float | None = None,
        rows: int = MOST_ROWS,
        window: int = WINDOW,
    ) -> None:
        self.settings = settings
        self.roster = Roster(settings, faults)
        self._loads, self._records = loads, records
        self._rolling: list[Rolling] = []
        self._followed = 0
        """Of the faults done: so many are known here."""
        self._touches = touches(faults, self.roster, seconds)
        self._end, self._rows = round(seconds * SECOND), rows
        self.telemetry = Telemetry(settings, fetch_every_ms=settings.lag_max_ms // 3)
        self.simulation = Simulation(replace(settings, topics=()), [self.telemetry], rest=self._rested)
        self.truth: FleetTruth | None = None
        self._look_every = 0 if look_every is None else round(look_every * SECOND)
        if self._look_every:
            self.truth = FleetTruth(settings, self.roster, loads)
            self.simulation.observers.append(self.truth)
            self.truth.follow(self.simulation)
        self._stops = self._stops_at(window, faults)
        self._begin(faults)

    def _stops_at(self, window: int, faults: Sequence[Fault]) -> list[int]:
        """Where time is cut: at windows, before and after every fault, and where partitions may change over."""
        found = {*range(window, self._end, window), *(t.at for t in self._touches)}
        found |= {at for f in faults for at in (f.at, f.at + 1)}
        if self._touches or any(f.do in ROLLING for f in faults):
            found |= {*range(SECOND, self._end, SECOND)}
        if self._look_every:
            found |= {*range(self._look_every, self._end, self._look_every)}
        return [0, *sorted(at for at in found if 0 < at < self._end), self._end]

    def _begin(self, faults: Sequence[Fault]) -> None:
        """Every broker up, every partition led: time starts to count."""
        self.simulation.start()
        self.telemetry.follow(self.simulation)
        opening.announce(self.roster, self.simulation)
        self.start = self.simulation.agenda.now
        self.injection = Injection(self.simulation, faults, self._roll)
        loads, records = self._loads, self._records
        partitions = opening.partitions(self.roster, self.simulation, loads, sum(records) / 2)
        partitions.seq[:] = 1
        self.numbering = Numbering(self.roster)
        self.course = self._course(opening.shape(loads, self._end / SECOND), records)
        self._keys = Keys(self.settings.seed, len(self.roster.topic))
        self._disks = Disks(*np.zeros((3, len(self.roster.topic)), dtype=np.int64))
        self.handover = Handover(self.simulation, self.roster, self.course, self._keys, loads, self.truth)
        self._arrange(partitions, {}, 0)

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

    def _arrange(self, partitions: Partitions, kept: dict[tuple[int, int], Pair], now: int) -> None:
        self.arrangement: Arrangement = arrange(partitions, self.settings.brokers, self._keys, kept)
        for broker in range(len(self.settings.brokers)):
            plant(self.arrangement.layout, self.arrangement.live, self.course, broker, now)
        if self.truth is not None:
            self.truth.arranged = self.arrangement
        at = self.arrangement.partitions
        self.names = Names(
            self.settings.cluster, self.settings.brokers, self.roster.topics, list(self.roster.topic_ids),
            self.roster.topic[at.number], self.roster.partition[at.number], at.replicas[:, 0].copy(),
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
        """Telemetry until the end, in pieces; give each back (`done`) before the next but one is asked for."""
        filling = Filling(BUFFERS, self._rows)
        for until in self._stops:
            yield from self._window(filling, until)
            names = self.names
            if self.truth is not None and until and (until % self._look_every == 0 or until == self._end):
                self.truth.look(self.arrangement, names, self.course, until)
            if self._change_over(until) or filling.filled > self._rows // 2:
                yield filling.part(names, complete=True)
        brokers, others = self.numbering.split(self.telemetry.close())
        for table in others:
            filling.add_table(table)
        for broker, rows in brokers.items():
            self._tell(filling, self.settings.brokers.index(broker), filling.filled, [rows], over=True)
        yield filling.part(self.names, complete=True)

    def _window(self, filling: Filling, until: int) -> Iterator[Part]:
        """Everything before `until`: single steps first, so that their rows can be put between those of the rounds."""
        self.simulation.agenda.run(self.start + until - 1)
        self.simulation.tell_of_rest()
        self._look_at_clocks()
        brokers, others = self.numbering.split(self.telemetry.drain())
        for table in others:
            filling.add_table(table)
        arranged = self.arrangement
        for k, broker in enumerate(self.settings.brokers):
            waiting = [brokers[broker]] if broker in brokers else []
            while True:
                last = advance(arranged.layout, arranged.live, self.course, filling.rows, k, until, filling.filled)
                over = due(arranged.layout, arranged.live, k) >= until
                self._tell(filling, k, last, waiting, over)
                if over:
                    break
                yield filling.part(self.names, complete=False)

    def _tell(self, filling: Filling, k: int, last: int, waiting: list[pa.Table], over: bool) -> None:
        """Numbers the rows of one broker up to `last`, and those of its single steps that come before what is left."""
        told = filling.rows.ts[filling.filled : last]
        numbers, rest = self.numbering.number(self.settings.brokers[k], told, waiting.pop() if waiting else None, over)
        filling.add(k, last, numbers)
        if rest:
            filling.add_table(rest[0])
            waiting.append(rest[1])

    def _rested(self, fetch: Happening) -> None:
        self.telemetry.observe(fetch)
        if self.truth is not None:
            self.truth.heard(fetch)

    def _look_at_clocks(self) -> None:
        """Clocks may have jumped."""
        at = self.simulation.agenda.now - self.start
        for k, broker in enumerate(self.settings.brokers):
            shown = self.simulation.brokers[broker].clock.ms
            if shown != clock(self.course, k, at):
                self.course.skew[k] += MS * (shown - clock(self.course, k, at))

    # between rounds and single steps

    def _change_over(self, now: int) -> bool:
        """Partitions come and go between rounds and single steps; whether any did."""
        self._checkpoint(now)
        self._follow_topics(now)
        if now % SECOND == 0:
            self._touches += [touch for rolling in self._rolling if (touch := rolling.next(now)) is not None]
        wanted = [t for t in self._touches if t.at == now]
        back = [] if now % SECOND else self._back(now)
        if not (wanted or back):
            return False
        state = self.arrangement.state()
        going = self._touched(state, wanted)
        fetched, kept = self.arrangement.fetched(), self.arrangement.kept()
        leaves = state.only(going)
        self.numbering.told[leaves.number, self.numbering.position(leaves.replicas[:, 0])] = leaves.seq
        self.handover.adopt(leaves, fetched[going], self._disks)
        stays = [state.only(~going), *self.handover.release(back, self._disks)]
        for come in stays[1:]:
            come.seq[:] = self.numbering.told[come.number, self.numbering.position(come.replicas[:, 0])]
            come.told[:] = now
        self._arrange(Partitions.of(stays), kept, now)
        return True

    def _roll(self, fault: Fault) -> None:
        self._rolling.append(Rolling(self.simulation, fault))

    def _follow_topics(self, now: int) -> None:
        """Topics may have been deleted and created."""
        done, self._followed = self.injection.done[self._followed :], len(self.injection.done)
        for fault in [one.fault for one in done if one.skipped is None]:
            if fault.do == "delete-topic":
                self.handover.forget(self.roster.of(fault.on).tolist())
            elif fault.do == "create-topic":
                records = sum(self._records) / 2
                made = opening.created(self.roster, self.simulation, fault.on, self._loads, records)
                self.handover.welcome(made, now, self._disks)

    def _touched(self, state: Partitions, touches: list[Touch]) -> np.ndarray:
        masks = [t.touches(self.roster.replicas, state.number, state.replicas[:, 0]) for t in touches]
        return np.any(masks, axis=0) if masks else np.zeros(len(state), dtype=bool)

    def _back(self, now: int) -> list[int]:
        """Guests that rest, and that no fault is about to touch."""
        if not self.handover.guests:
            return []
        soon = [t for t in self._touches if now - 2 * NOTICE <= t.at <= now + SECOND]
        steady = list(self.handover.steady())
        number = np.array(steady, dtype=np.int64)
        for n in steady:
            self.roster.follow(n, self.handover.known(n))
        leader = np.array([self.handover.known(n).leader for n in steady], dtype=np.int32)
        masks = [t.touches(self.roster.replicas, number, leader) for t in soon]
        return [n for k, n in enumerate(steady) if not any(mask[k] for mask in masks)]

    def _checkpoint(self, now: int) -> None:
        """What a broker that dies would find on its disk."""
        number, live = self.arrangement.partitions.number, self.arrangement.live.partition
        if now % (self.settings.checkpoint_ms * MS) == 0:
            self._disks.checkpointed[number] = live[:, HW]
        if now % (self.settings.flush_ms * MS) == 0:
            self._disks.flushed[number] = live[:, LEO]
