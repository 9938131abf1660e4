"""The log files that real Kafka 4.x brokers would have written: `hwmark ingest logs` reads them to the same facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from generators.simulator.cluster.happening import CONTROLLER, Happening
from generators.simulator.cluster.settings import MS, SECOND, Settings
from generators.simulator.telemetry.attempts import Attempt, Attempts
from generators.simulator.telemetry.broker_lines import DEBUG, TRACE, Line, created, follower_hw, is_follower_hw, lines
from generators.simulator.telemetry.controller_lines import ControllerLines
from generators.simulator.telemetry.leader_view import LeaderViews, Place
from generators.simulator.telemetry.levels import FULL, INFO, LEAN
from generators.traces import LEAN_DENIES

if TYPE_CHECKING:
    from generators.simulator.cluster.simulation import Simulation


@dataclass
class _Numbers:
    """The line numbers (%sn) of one log: the last one, by which process and when."""

    last: int = 0
    process: int = 0
    ts: int = 0


class KafkaLogs:
    """Writes `broker-<n>/replication.log`, `broker-<n>/server.properties` and the controller's log below `folder`.

    `level`: 3 full TRACE, 2 lean TRACE (what conf/log4j2-hwmark.yaml lets through), 0 stock INFO. Lines have the
    pattern `%d{UNIX_MILLIS}|%t|%p|%c|%sn|%m%n`, without `%sn` unless `numbered`; a process numbers from 1, but for one
    that is back within a second, which no real one is. Call `follow` before the simulation starts and `close` when it
    is over.
    """

    def __init__(self, settings: Settings, folder: str | Path, level: int = FULL, numbered: bool = True) -> None:
        self._settings = settings
        self._level = level
        self._numbered = numbered
        self._files = ExitStack()
        self._folder = Path(folder)
        self._open: dict[tuple[int, str], TextIO] = {}
        self._numbers: dict[tuple[int, str], _Numbers] = {}
        self._attempts = Attempts()
        self._views = LeaderViews(settings)
        self._controller = ControllerLines(settings.controller_id)
        self._election: Happening | None = None
        self._known: set[tuple[int, int, str | None, int]] = set()
        self._hw: dict[Place, int] = {}
        self._cut: Happening | None = None
        self._min_isr: dict[str, int] = {}
        self._simulation: Simulation | None = None
        for broker in settings.brokers:
            self._write_properties(broker)

    def follow(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def observe(self, happening: Happening) -> None:
        for attempt in self._attempts.observe(happening):
            self._print(attempt)

    def close(self) -> None:
        """Writes what waits and closes the files."""
        for attempt in self._attempts.settle():
            self._print(attempt)
        self._flush_election()
        self._files.close()

    def _print(self, attempt: Attempt) -> None:
        h = attempt.by
        if h.source == CONTROLLER:
            self._print_controller(h)
            return
        if h.kind == "config" and h.topic is not None and h.min_isr is not None:
            self._configure(h, h.topic, h.min_isr)
        self._write(h, self._lines(attempt))

    def _lines(self, attempt: Attempt) -> Iterator[Line]:
        h = attempt.by
        place = (h.broker, h.topic, h.partition)
        if (
            h.partition >= 0
            and (key := (h.broker, self._process(h.broker), h.topic_id, h.partition)) not in self._known
        ):
            self._known.add(key)
            yield created(h)
        before = self._views.of(h)
        before = replace(before) if before is not None else None
        tried = self._views.learn(attempt)
        view = self._views.of(h)
        if is_follower_hw(h):
            yield from follower_hw(h, self._hw.get(place, -1), self._cut is not None and self._cut.at == h.at)
        frozen = view is not None and self._views.under_min_isr(h, view)
        yield from lines(attempt, view, tried, frozen, before)
        self._cut = h if h.kind == "truncate" else None
        if h.hw is not None and h.kind in ("leader", "follower", "hw"):
            self._hw[place] = h.hw
        if attempt.hw is not None and attempt.hw.hw is not None:
            self._hw[place] = attempt.hw.hw

    # the controller

    def _print_controller(self, h: Happening) -> None:
        waiting = self._election
        if waiting is not None and h.kind == "isr" and _same_change(waiting, h):
            self._election = None  # one record names both
        self._flush_election()
        if h.kind == "election":
            self._election = h
        elif h.kind == "isr":
            self._write(h, self._controller.partition(h))
        elif h.kind == "broker_state":
            self._write(h, [self._controller.broker(h)])
        elif h.kind == "config" and h.min_isr is not None:
            self._write(h, [self._controller.setting(h.topic, h.min_isr)])

    def _flush_election(self) -> None:
        h, self._election = self._election, None
        if h is None:
            return
        self._write(h, self._controller.topic(h))
        least = self._least(h)
        if least is not None and self._min_isr.get(h.topic_id or "", 1) != least:
            self._min_isr[h.topic_id or ""] = least
            self._write(h, [self._controller.setting(h.topic, least)])
        self._write(h, self._controller.partition(h))

    def _least(self, h: Happening) -> int | None:
        """min.insync.replicas of a topic as the controller has it."""
        if self._simulation is None:
            return next((t.min_isr for t in self._settings.topics if t.name == h.topic), None)
        known = self._simulation.controller.partitions.get((h.topic or "", h.partition))
        return known.min_isr if known is not None else None

    def _configure(self, h: Happening, topic: str, least: int) -> None:
        """A broker heard of another min ISR: the controller has printed it by then."""
        if self._min_isr.get(h.topic_id or "", 1) != least:
            self._min_isr[h.topic_id or ""] = least
            clock = self._simulation.controller.clock.us if self._simulation is not None else h.ts
            told = Happening(h.at, clock, self._settings.controller_id, CONTROLLER, "config")
            self._write(told, [self._controller.setting(topic, least)])

    # files

    def _write(self, h: Happening, printed: Iterable[Line]) -> None:
        for line in printed:
            if self._shown(line):
                number = f"{self._number(h)}|" if self._numbered else ""
                head = f"{h.ts // MS}|{line.thread}|{line.level}|{line.logger}|{number}"
                self._file(h.broker, h.source).write(f"{head}{line.message}\n")

    def _shown(self, line: Line) -> bool:
        if self._level == INFO:
            return line.level not in (TRACE, DEBUG)
        return self._level != LEAN or not any(words in line.message for words in LEAN_DENIES)

    def _number(self, h: Happening) -> int:
        now = self._numbers.setdefault((h.broker, h.source), _Numbers())
        process = self._process(h.broker)
        if process != now.process and h.ts - now.ts > SECOND:
            now.last = 0
        now.process, now.ts, now.last = process, h.ts, now.last + 1
        return now.last

    def _process(self, broker: int) -> int:
        known = self._simulation.brokers.get(broker) if self._simulation is not None else None
        return known.process if known is not None else 0

    def _file(self, broker: int, source: str) -> TextIO:
        if (broker, source) not in self._open:
            path = self._folder / f"broker-{broker}" / f"{source}.log"
            path.parent.mkdir(parents=True, exist_ok=True)
            self._open[broker, source] = self._files.enter_context(path.open("w", encoding="utf-8"))
        return self._open[broker, source]

    def _write_properties(self, broker: int) -> None:
        path = self._folder / f"broker-{broker}" / "server.properties"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"node.id={broker}\nreplica.lag.time.max.ms={self._settings.lag_max_ms}\n", encoding="utf-8")


def _same_change(a: Happening, b: Happening) -> bool:
    return (a.topic_id, a.partition, a.partition_epoch) == (b.topic_id, b.partition, b.partition_epoch)
