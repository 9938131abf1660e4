"""Starts and stops of a broker, its version, and log directories that fail."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from generators.brokerlogs.events.event_builder import Telling
from generators.brokerlogs.messages.broker_state import Line
from generators.brokerlogs.scanning.fetch_grouping import RESTART_MS

NUMBERING = "%sn"
"""The sign of a start that is no line: line numbers begin anew."""
VERSION = "version"
LONGEST_START_MS = 60_000
"""A log that begins with a start shows a sign of it within this; what it shows longer before is of an earlier run."""
_OF_LOGGERS_THAT_PRINT_STOPS = ("broker", "controller", "lifecycle", VERSION)
_NONE = re.compile(r"(?!)")


@dataclass
class Lifecycle:
    """What one source has shown of starts and stops of its broker.

    A start shows several signs, one after the other: one that is shown again, or after a stop, is the next start.
    """

    first: int = -1
    """Time (ms) of the first line."""
    pause: int = -1
    """Time (ms) of the last line before the last silence, -1 where there was none."""
    signs: list[str] = field(default_factory=list)
    """Of the start seen last."""
    stopped: bool = False
    shows_stops: bool = False
    """Whether the source has lines of a logger that prints stops: one that has none says nothing by showing none."""
    end: int | None = None
    """Time (ms) of the last line before the start seen last, where no stop came before it and that is not said yet."""

    def start(self, sign: str, pause: int) -> bool:
        """Take note of a sign behind a `pause`; whether it is that of another start than the one seen last."""
        self.shows_stops = self.shows_stops or sign in _OF_LOGGERS_THAT_PRINT_STOPS
        client = sign == VERSION and any(other not in (VERSION, NUMBERING) for other in self.signs)
        if client or not (self.stopped or sign in self.signs or not self.signs or sign == NUMBERING):
            self.signs += [] if sign in self.signs else [sign]
            return False
        known = bool(self.signs) or sign == NUMBERING or pause - self.first >= LONGEST_START_MS
        self.end = pause if known and not self.stopped and pause >= 0 else None
        self.signs, self.stopped = [sign], False
        return True

    def pauses(self, ts: np.ndarray, before: int, at: np.ndarray) -> np.ndarray:
        """Of the lines `at`, the time of the last line before a silence in which a JVM may have started, -1 for none.

        `ts` are the times of all lines, `before` that of the line before them.
        """
        if self.first < 0 and len(ts):
            self.first = int(ts[0])
        times = np.concatenate([[before], ts])
        silent = np.flatnonzero(np.diff(times) >= RESTART_MS)
        silent = silent[times[silent] >= 0]
        known = np.concatenate([[self.pause], times[silent]])
        pauses: np.ndarray = known[np.searchsorted(silent, at, side="right")]
        self.pause = int(known[-1])
        return pauses

    def stop(self) -> None:
        """Take note of a line of a shutdown."""
        self.stopped = self.shows_stops = True

    def killed(self) -> int | None:
        """When the broker ended without a stop, told once."""
        if not self.shows_stops:
            return None
        end, self.end = self.end, None
        return end


def sign_of(logger: str, message: str) -> str | None:
    """The sign of a start that a line is."""
    begins = _STARTS.get(logger)
    return begins[0] if begins and re.match(begins[1], message) else None


def is_stop(logger: str, message: str) -> bool:
    """Whether a line is of a shutdown that is logged."""
    return logger in _STOPS and re.match(_STOPS[logger], message) is not None


def read(logger: str, line: Line, telling: Telling) -> bool:
    """Tell the row of one line; whether a shape fits it."""
    pattern, tell = _SHAPES.get(logger, (_NONE, _version))
    match = pattern.match(line.message)
    if match:
        tell(line, match, telling)
    return match is not None


def _version(line: Line, m: re.Match[str], telling: Telling) -> None:
    telling.tell("config", line.ts, line.broker, 0, replica_id=line.broker, detail=f"kafka={m[1]}")


def _metadata_version(line: Line, m: re.Match[str], telling: Telling) -> None:
    telling.tell("config", line.ts, line.broker, 0, replica_id=line.broker, detail=f"metadata={m[1]}")


def _failed_directory(line: Line, m: re.Match[str], telling: Telling) -> None:
    telling.tell("broker_state", line.ts, line.broker, 0, replica_id=line.broker, detail="log_dir_offline")


_STARTS = {
    "Log4jControllerRegistration": ("jvm", r"Registered `kafka:type=kafka\.Log4jController` MBean"),
    "ControllerServer": ("controller", r"Starting controller"),
    "BrokerServer": ("broker", r"Transition from SHUTDOWN to STARTING"),
    "BrokerLifecycleManager": ("lifecycle", r"Incarnation \S+ of broker \d+ in cluster \S+ is now STARTING"),
    "QuorumController": ("quorum", r"Creating new QuorumController"),
    "AppInfoParser": (VERSION, r"Kafka version ?: "),
}
_STOPS = {
    "BrokerLifecycleManager": r"Beginning controlled shutdown|Transitioning from \w+ to SHUTTING_DOWN",
    "BrokerServer": r"shutting down|shut down completed|Transition from \w+ to (?:SHUTTING_DOWN|SHUTDOWN)",
    "ControllerServer": r"shutting down",
    "state.change.logger": r"Stopped fetchers as part of controlled shutdown",
    "AppInfoParser": r"App info kafka\.server for \S+ unregistered",
}
_SHAPES: dict[str, tuple[re.Pattern[str], Callable[[Line, re.Match[str], Telling], None]]] = {
    "AppInfoParser": (re.compile(r"Kafka version ?: (\S+)"), _version),
    "FeaturesPublisher": (re.compile(r"Loaded new metadata \w+\W\w*[vV]ersion=([^,\s]+),"), _metadata_version),
    "ReplicaManager": (
        re.compile(r"Stopping serving replicas in dir .* because the log directory has failed"),
        _failed_directory,
    ),
    "LogManager": (re.compile(r"Stopping serving logs in dir "), _failed_directory),
    "LogDirFailureChannel": (
        re.compile(r"Failed to create or validate data directory |Error while loading log dir "),
        _failed_directory,
    ),
}
"""By the class of the logger: a line that tells a version, or a log directory that failed."""
