"""The log files that real Kafka 4.x brokers would have written: `hwmark ingest logs` reads the same facts from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from generators.simulator.cluster.settings import MS, SECOND, Settings
from generators.simulator.cluster.simulation_event import CONTROLLER, REPLICATION, SimulationEvent
from generators.simulator.telemetry.attempts import Attempt, Attempts
from generators.simulator.telemetry.delayed_lines import DelayedLines
from generators.simulator.telemetry.leader_view import LeaderViews, Place
from generators.simulator.telemetry.levels import FULL, INFO, LEAN
from generators.simulator.telemetry.second_file import SERVER, STATE_CHANGE
from tests.simulated.broker_lines import (
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
from tests.simulated.broker_lines import INFO as INFO_LINE
from tests.simulated.controller_lines import ControllerLines
from tests.simulated.cut_traces import LEAN_DENIES

if TYPE_CHECKING:
    from generators.simulator.cluster.simulation import Simulation


@dataclass
class _Numbers:
    """The line numbers (%sn) of one log: the last one, by which process and when."""

    last: int = 0
    process: int = 0
    ts: int = 0


class KafkaLogs:
    """Writes `broker-<n>/replication.log`, `broker-<n>/server.properties` and the controllers' logs below `folder`.

    `level`: 3 full TRACE, 2 lean TRACE (what conf/log4j2-hwmark.yaml lets through), 0 stock INFO. Lines have the
    pattern `%d{UNIX_MILLIS}|%t|%p|%c|%sn|%m%n`, without `%sn` unless `numbered`; a process numbers from 1, except one
    that is back within a second, which no real one is. With `second_file` brokers also write the files of a stock
    broker, in Kafka's own pattern: state-change.log and server.log. Call `follow` before the simulation starts and
    `close` when it is over.
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
        self._controllers = {id: ControllerLines(id, settings.racks) for id in settings.controllers}
        self._elections: dict[int, SimulationEvent] = {}
        """By controller: an election that waits for the ISR change of the same record."""
        self._known: set[tuple[int, int, str | None, int]] = set()
        self._late: DelayedLines[list[Line]] = DelayedLines(lambda: self._simulation)
        self._hw: dict[Place, int] = {}
        self._cut: SimulationEvent | None = None
        self._simulation: Simulation | None = None
        for broker in settings.brokers:
            self._write_properties(broker)

    def follow(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def observe(self, event: SimulationEvent) -> None:
        for attempt in self._attempts.observe(event):
            self._print(attempt)

    def close(self) -> None:
        """Write what waits and close the files."""
        for attempt in self._attempts.settle():
            self._print(attempt)
        for controller in list(self._elections):
            self._flush_election(controller)
        if self._simulation is not None:
            for late, waiting in self._late.until(self._simulation.event_queue.now):
                self._write(late, waiting)
        self._files.close()

    def _print(self, attempt: Attempt) -> None:
        event = attempt.by
        if event.source == CONTROLLER:
            self._print_controller(event)
            return
        self._print_lines(event, list(self._lines(attempt)))

    def _print_lines(self, event: SimulationEvent, printed: list[Line]) -> None:
        """Print now, or late; the line of a fetch whose thread is suspended comes after the others."""
        for late, waiting in self._late.before(event):
            self._write(late, waiting)
        if event.stall_us:
            self._late.put(event, event.late_us + event.stall_us, printed[-1:], locked=False)
            del printed[-1:]
        if event.late_us:
            self._late.put(event, event.late_us, printed, locked=True)
        else:
            self._write(event, printed)

    def _lines(self, attempt: Attempt) -> Iterator[Line]:
        event = attempt.by
        place = (event.broker, event.topic, event.partition)
        if (
            event.partition >= 0
            and (key := (event.broker, self._process(event.broker), event.topic_id, event.partition)) not in self._known
        ):
            self._known.add(key)
            yield created(event)
        tried = self._views.learn(attempt)
        view = self._views.of(event)
        if is_follower_hw(event):
            yield from follower_hw(event, self._hw.get(place, -1), self._cut is not None and self._cut.at == event.at)
        frozen = view is not None and self._views.under_min_isr(event, view)
        yield from lines(attempt, view, tried, frozen)
        self._cut = event if event.kind == "truncate" else None
        if event.hw is not None and event.kind in ("leader", "follower", "hw"):
            self._hw[place] = event.hw
        if attempt.hw is not None and attempt.hw.hw is not None:
            self._hw[place] = attempt.hw.hw

    # the controller

    def _print_controller(self, event: SimulationEvent) -> None:
        waiting = self._elections.get(event.broker)
        if waiting is not None and event.kind == "isr" and _same_change(waiting, event):
            del self._elections[event.broker]  # one record names both
        self._flush_election(event.broker)
        printing = self._controllers[event.broker]
        if event.kind == "election":
            self._elections[event.broker] = event
        elif event.kind == "isr":
            self._write(event, printing.partition(event))
        elif event.kind == "broker_state":
            failed = event.detail == "log_dir_offline" and event.committed is False
            self._write(event, [printing.directories(event)] if failed else [])
            self._write(event, [printing.broker(event)])
        elif event.kind == "config" and event.min_isr is not None:
            self._write(event, printing.topic(event))
            self._write(event, printing.setting(event, event.min_isr))
        elif event.kind == "role":
            if event.detail == "started":
                self._controllers[event.broker] = ControllerLines(event.broker, self._settings.racks)
            self._write(event, printing.role(event))

    def _flush_election(self, controller: int) -> None:
        event, printing = self._elections.pop(controller, None), self._controllers[controller]
        if event is None:
            return
        self._write(event, printing.topic(event))
        self._write(event, printing.partition(event))

    # files

    def _write(self, event: SimulationEvent, printed: Iterable[Line]) -> None:
        for line in printed:
            if self._shown(line):
                number = f"{self._number(event)}|" if self._numbered else ""
                head = f"{event.ts // MS}|{line.thread}|{line.level}|{line.logger}|{number}"
                self._file(event.broker, event.source).write(f"{head}{line.message}\n")
            if self._second_file and event.source == REPLICATION and line.level in (INFO_LINE, WARN):
                file = STATE_CHANGE if line.logger == STATE_LOGGER else SERVER
                self._file(event.broker, file).write(_stock(event.ts, line))

    def _shown(self, line: Line) -> bool:
        if line.logger == STOCK_LOGGER:
            return False
        if self._level == INFO:
            return line.level not in (TRACE, DEBUG)
        return self._level != LEAN or not any(text in line.message for text in LEAN_DENIES)

    def _number(self, event: SimulationEvent) -> int:
        now = self._numbers.setdefault((event.broker, event.source), _Numbers())
        process = self._process(event.broker)
        if process != now.process and event.ts - now.ts > SECOND:
            now.last = 0
        now.process, now.ts, now.last = process, event.ts, now.last + 1
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
        lines = [f"node.id={broker}", f"replica.lag.time.max.ms={self._settings.lag_max_ms}"]
        if rack := self._settings.racks.get(broker):
            lines.append(f"broker.rack={rack}")
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


class LogFiles:
    """A sink of `simulate`: the log files of Kafka's brokers below a folder."""

    summary = "log files"

    def __init__(self, folder: Path, second_file: bool = False) -> None:
        self._folder = folder
        self._second_file = second_file

    def begin(self, simulation: Simulation, level: int) -> None:
        self._logs = KafkaLogs(simulation.settings, self._folder, level, second_file=self._second_file)
        simulation.attach(self._logs)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self._logs.close()


def _stock(ts: int, line: Line) -> str:
    """In Kafka's own pattern, `[%d] %p %m (%c)%n`, where the zone is UTC."""
    moment = datetime.fromtimestamp(ts // SECOND, UTC)
    return f"[{moment:%Y-%m-%d %H:%M:%S},{ts // MS % 1000:03}] {line.level} {line.message} ({line.logger})\n"


def _same_change(before: SimulationEvent, after: SimulationEvent) -> bool:
    return (before.topic_id, before.partition, before.partition_epoch) == (
        after.topic_id,
        after.partition,
        after.partition_epoch,
    )
