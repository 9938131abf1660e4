"""Starts and stops of a broker, its version, and log directories that fail."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from generators.brokerlogs.events.event_builder import EventBuilder
from generators.brokerlogs.messages.broker_state import Line, append_row
from generators.brokerlogs.scanning.fetch_grouping import RESTART_MS
from schemas.event_types import CLEAN_START, SESSION_EXPIRED, UNCLEAN_START

LINE_NUMBERS = "%sn"
"""A sign of a start that is no line: the line numbers begin again."""
VERSION = "version"
LONGEST_START_MS = 60_000
"""A log that begins with a start shows a sign of it within this time; lines longer before belong to an earlier run."""
_SIGNS_BESIDE_STOPS = ("kafka", "broker", "controller", "lifecycle", VERSION)
_NO_MATCH = re.compile(r"(?!)")


@dataclass
class Lifecycle:
    """Starts and stops of the broker of one source.

    A start shows several signs, one after the other: a sign that comes a second time, or after a stop, belongs to the
    next start.
    """

    first: int = -1
    """Time (ms) of the first line."""
    pause: int = -1
    """Time (ms) of the last line before the last silence, -1 where there was none."""
    signs: list[str] = field(default_factory=list)
    """Signs of the last start."""
    stopped: bool = False
    shows_stops: bool = False
    """Whether the source has lines of a logger that prints stops: in one that has none, no line of a stop means
    nothing."""
    end: int | None = None
    """Time (ms) of the last line before the last start, where no stop came before it; None once `killed` returned
    it."""

    def start(self, sign: str, pause: int) -> bool:
        """Record a sign; returns whether it is of another start than the last. `pause`: time (ms) of the last line
        before a silence."""
        self.shows_stops = self.shows_stops or sign in _SIGNS_BESIDE_STOPS
        client = sign == VERSION and any(other not in (VERSION, LINE_NUMBERS) for other in self.signs)
        if client or not (self.stopped or sign in self.signs or not self.signs or sign == LINE_NUMBERS):
            self.signs += [] if sign in self.signs else [sign]
            return False
        known = bool(self.signs) or sign == LINE_NUMBERS or pause - self.first >= LONGEST_START_MS
        self.end = pause if known and not self.stopped and pause >= 0 else None
        self.signs, self.stopped = [sign], False
        return True

    def pauses(self, ts: np.ndarray, before: int, at: np.ndarray) -> np.ndarray:
        """For each of the lines `at` the time (ms) of the last line before a silence in which a JVM may have started,
        -1 for none.

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
        """Record a line of a shutdown."""
        self.stopped = self.shows_stops = True

    def killed(self) -> int | None:
        """Time (ms) at which the broker ended without a stop, returned once, else None."""
        if not self.shows_stops:
            return None
        end, self.end = self.end, None
        return end


def start_sign(logger: str, message: str) -> str | None:
    """The sign of a start that this message is, None for others."""
    pattern = _STARTS.get(logger)
    return pattern[0] if pattern and re.match(pattern[1], message) else None


def is_stop(logger: str, message: str) -> bool:
    """Whether a message belongs to a logged shutdown."""
    return logger in _STOPS and re.match(_STOPS[logger], message) is not None


def read(logger: str, line: Line, events: EventBuilder) -> bool:
    """Append the row of one line; returns whether a pattern matched."""
    pattern, handle = _PATTERNS.get(logger, (_NO_MATCH, _version))
    match = pattern.match(line.message)
    if match:
        handle(line, match, events)
    return match is not None


def _version(line: Line, match: re.Match[str], events: EventBuilder) -> None:
    append_row(events, "config", line, replica_id=line.broker, detail=f"kafka={match[1]}")


def _metadata_version(line: Line, match: re.Match[str], events: EventBuilder) -> None:
    append_row(events, "config", line, replica_id=line.broker, detail=f"metadata={match[1]}")


def _failed_directory(line: Line, match: re.Match[str], events: EventBuilder) -> None:
    append_row(events, "broker_state", line, replica_id=line.broker, detail="log_dir_offline")


def _expired(line: Line, match: re.Match[str], events: EventBuilder) -> None:
    append_row(events, "config", line, replica_id=line.broker, detail=SESSION_EXPIRED)


def _of_log_manager(line: Line, match: re.Match[str], events: EventBuilder) -> None:
    """A directory that failed, or what one had of a clean shutdown as it was loaded: each says it."""
    if match[0].startswith("Stopping"):
        return _failed_directory(line, match, events)
    detail = CLEAN_START if match[0].startswith("Skipping") else UNCLEAN_START  # an empty one may be a new disk
    append_row(events, "config", line, replica_id=line.broker, detail=detail)
    return None


_STARTS = {
    "Log4jControllerRegistration": ("jvm", r"Registered `kafka:type=kafka\.Log4jController` MBean"),
    "ControllerServer": ("controller", r"Starting controller"),
    "KafkaServer": ("kafka", r"starting$"),
    "BrokerServer": ("broker", r"Transition from SHUTDOWN to STARTING"),
    "BrokerLifecycleManager": ("lifecycle", r"Incarnation \S+ of broker \d+ in cluster \S+ is now STARTING"),
    "QuorumController": ("quorum", r"Creating new QuorumController"),
    "AppInfoParser": (VERSION, r"Kafka version ?: "),
}
_STOPS = {
    "BrokerLifecycleManager": r"Beginning controlled shutdown|Transitioning from \w+ to SHUTTING_DOWN",
    "BrokerServer": r"shutting down|shut down completed|Transition from \w+ to (?:SHUTTING_DOWN|SHUTDOWN)",
    "ControllerServer": r"shutting down",
    "KafkaServer": r"shutting down|shut down completed|Starting controlled shutdown",
    "state.change.logger": r"Stopped fetchers as part of controlled shutdown",
    "AppInfoParser": r"App info kafka\.server for \S+ unregistered",
}
_SHAPES: dict[str, tuple[Callable[[Line, re.Match[str], EventBuilder], None], str]] = {
    "AppInfoParser": (_version, r"Kafka version ?: (\S+)"),
    "FeaturesPublisher": (_metadata_version, r"Loaded new metadata \w+\W\w*[vV]ersion=([^,\s]+),"),
    "ReplicaManager": (_failed_directory, r"Stopping serving replicas in dir .* because the log directory has failed"),
    "LogManager": (
        _of_log_manager,
        r"Stopping serving logs in dir |No logs found to be loaded in |"
        r"(?:Skipping|Recovering|Attempting) (?:recovery )?(?:of \d+ |for all |\d+ )?logs (?:from|in) .* "
        r"since (?:no )?clean shutdown file was found",
    ),
    # one of its clients registers the broker, another reads ACLs; before Kafka 2.1 they print no names
    "ZooKeeperClient": (_expired, r"\[ZooKeeperClient(?: Kafka server)?\] Session expired\."),
    "LogDirFailureChannel": (
        _failed_directory,
        r"Failed to create or validate data directory |Error while loading log dir ",
    ),
}
_PATTERNS = {kind: (re.compile(text), handle) for kind, (handle, text) in _SHAPES.items()}
"""By class of the logger: messages with a version, or of a log directory that failed."""
