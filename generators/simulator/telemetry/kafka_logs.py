"""The log files that real Kafka 4.x brokers would have written: `hwmark ingest logs` reads them to the same facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from generators.recordings.traces import LEAN_DENIES
from generators.simulator.cluster.happening import CONTROLLER, REPLICATION, Happening
from generators.simulator.cluster.settings import MS, SECOND, Settings
from generators.simulator.telemetry.attempts import Attempt, Attempts
from generators.simulator.telemetry.broker_lines import (
    DEBUG,
    STATE_LOGGER,
    STOCK_LOGGER,
    TRACE,
    WARN,
    Line,
    created,
    follower_hw,
    is_follower_hw,
    lines,
)
from generators.simulator.telemetry.broker_lines import INFO as INFO_LINE
from generators.simulator.telemetry.controller_lines import ControllerLines
from generators.simulator.telemetry.late import Late
from generators.simulator.telemetry.leader_view import LeaderViews, Place
from generators.simulator.telemetry.levels import FULL, INFO, LEAN
from generators.simulator.telemetry.second_file import SERVER, STATE_CHANGE

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
    that is back within a second, which no real one is. With `second_file` brokers also write what a stock broker does,
    in Kafka's own pattern: state-change.log and server.log. Call `follow` before the simulation starts and `close`
    when it is over.
    """

    def __init__(
        self,
        settings: Settings,
        folder: str | Path,
        level: int = FULL,
        numbered: bool = True,
        *,
        second_file: bool = False,
    ) -> None:
        self._settings = settings
        self._level = level
        self._numbered = numbered
        self._second_file = second_file
        self._files = ExitStack()
        self._folder = Path(folder)
        self._open: dict[tuple[int, str], TextIO] = {}
        self._numbers: dict[tuple[int, str], _Numbers] = {}
        self._attempts = Attempts()
        self._views = LeaderViews(settings)
        self._controllers = {id: ControllerLines(id) for id in settings.controllers}
        self._elections: dict[int, Happening] = {}
        """By controller: one that waits for the ISR that comes with it."""
        self._known: set[tuple[int, int, str | None, int]] = set()
        self._late: Late[list[Line]] = Late(lambda: self._simulation)
        self._hw: dict[Place, int] = {}
        self._cut: Happening | None = None
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
        for controller in list(self._elections):
            self._flush_election(controller)
        if self._simulation is not None:
            for late, waiting in self._late.until(self._simulation.agenda.now):
                self._write(late, waiting)
        self._files.close()

    def _print(self, attempt: Attempt) -> None:
        h = attempt.by
        if h.source == CONTROLLER:
            self._print_controller(h)
            return
        self._print_lines(h, list(self._lines(attempt)))

    def _print_lines(self, h: Happening, printed: list[Line]) -> None:
        """Now, or late; the line of a fetch whose thread stalls comes after the others."""
        for late, waiting in self._late.before(h):
            self._write(late, waiting)
        if h.stall_us:
            self._late.put(h, h.late_us + h.stall_us, printed[-1:], locked=False)
            del printed[-1:]
        if h.late_us:
            self._late.put(h, h.late_us, printed, locked=True)
        else:
            self._write(h, printed)

    def _lines(self, attempt: Attempt) -> Iterator[Line]:
        h = attempt.by
        place = (h.broker, h.topic, h.partition)
        if (
            h.partition >= 0
            and (key := (h.broker, self._process(h.broker), h.topic_id, h.partition)) not in self._known
        ):
            self._known.add(key)
            yield created(h)
        tried = self._views.learn(attempt)
        view = self._views.of(h)
        if is_follower_hw(h):
            yield from follower_hw(h, self._hw.get(place, -1), self._cut is not None and self._cut.at == h.at)
        frozen = view is not None and self._views.under_min_isr(h, view)
        yield from lines(attempt, view, tried, frozen)
        self._cut = h if h.kind == "truncate" else None
        if h.hw is not None and h.kind in ("leader", "follower", "hw"):
            self._hw[place] = h.hw
        if attempt.hw is not None and attempt.hw.hw is not None:
            self._hw[place] = attempt.hw.hw

    # the controller

    def _print_controller(self, h: Happening) -> None:
        waiting = self._elections.get(h.broker)
        if waiting is not None and h.kind == "isr" and _same_change(waiting, h):
            del self._elections[h.broker]  # one record names both
        self._flush_election(h.broker)
        printing = self._controllers[h.broker]
        if h.kind == "election":
            self._elections[h.broker] = h
        elif h.kind == "isr":
            self._write(h, printing.partition(h))
        elif h.kind == "broker_state":
            failed = h.detail == "log_dir_offline" and h.committed is False
            self._write(h, [printing.directories(h)] if failed else [])
            self._write(h, [printing.broker(h)])
        elif h.kind == "config" and h.min_isr is not None:
            self._write(h, printing.topic(h))
            self._write(h, printing.setting(h, h.min_isr))
        elif h.kind == "role":
            if h.detail == "started":
                self._controllers[h.broker] = ControllerLines(h.broker)
            self._write(h, printing.role(h))

    def _flush_election(self, controller: int) -> None:
        h, printing = self._elections.pop(controller, None), self._controllers[controller]
        if h is None:
            return
        self._write(h, printing.topic(h))
        self._write(h, printing.partition(h))

    # files

    def _write(self, h: Happening, printed: Iterable[Line]) -> None:
        for line in printed:
            if self._shown(line):
                number = f"{self._number(h)}|" if self._numbered else ""
                head = f"{h.ts // MS}|{line.thread}|{line.level}|{line.logger}|{number}"
                self._file(h.broker, h.source).write(f"{head}{line.message}\n")
            if self._second_file and h.source == REPLICATION and line.level in (INFO_LINE, WARN):
                file = STATE_CHANGE if line.logger == STATE_LOGGER else SERVER
                self._file(h.broker, file).write(_stock(h.ts, line))

    def _shown(self, line: Line) -> bool:
        if line.logger == STOCK_LOGGER:
            return False
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

    def _process(self, id: int) -> int:
        if self._simulation is None:
            return 0
        return (self._simulation.brokers.get(id) or self._simulation.quorum.nodes[id]).process

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


def _stock(ts: int, line: Line) -> str:
    """In Kafka's own pattern, `[%d] %p %m (%c)%n`, where the zone is UTC."""
    moment = datetime.fromtimestamp(ts // SECOND, UTC)
    return f"[{moment:%Y-%m-%d %H:%M:%S},{ts // MS % 1000:03}] {line.level} {line.message} ({line.logger})\n"


def _same_change(a: Happening, b: Happening) -> bool:
    return (a.topic_id, a.partition, a.partition_epoch) == (b.topic_id, b.partition, b.partition_epoch)
