"""Lines that are read one at a time: which module reads each, and what becomes of one that none understands."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from generators.brokerlogs.events.event_builder import EventBuilder
from generators.brokerlogs.events.source_state import PartitionStates
from generators.brokerlogs.messages import clients, lifecycle, zookeeper
from generators.brokerlogs.messages import controller as controller_shapes
from generators.brokerlogs.messages.broker_state import BrokerLogState, Line, append_row
from generators.brokerlogs.messages.controller_state import ControllerLogState, Registration
from generators.brokerlogs.messages.coverage import Shown, note_shown
from generators.brokerlogs.messages.evidence import may_be_evidence, shape_of
from generators.brokerlogs.messages.isr_changes import ISR_CHANGES
from generators.brokerlogs.messages.leadership import BARE_START, LEADERSHIP
from generators.brokerlogs.messages.lifecycle import Lifecycle
from generators.brokerlogs.messages.metadata_records import read_record
from generators.brokerlogs.messages.quorum_roles import read_role
from generators.brokerlogs.messages.truncations import TRUNCATIONS, is_of_future_log, read_move
from generators.brokerlogs.parsing.parse_report import ParseReport
from generators.brokerlogs.scanning.loggers import class_name
from generators.brokerlogs.scanning.torn import two_lines
from schemas.coverage import TERMS
from schemas.telemetry_gaps import NOT_UNDERSTOOD

_PATTERNS = LEADERSHIP | ISR_CHANGES | TRUNCATIONS


def read_broker_line(broker: BrokerLogState, line: Line, events: EventBuilder) -> bool:
    """Append the rows of one line; returns whether it was understood."""
    if is_of_future_log(broker, line):
        return True
    pattern, handle = _PATTERNS.get(line.message.partition(" ")[0], BARE_START)
    match = pattern.match(line.message)
    if match:
        handle(broker, line, match, events)
    return match is not None


PREFIX = re.compile(
    r"\[(?:Partition \S+ broker=(?P<b1>\d+)|Broker id=(?P<b2>\d+)|QuorumController id=(?P<b3>\d+)"
    r"|BrokerLifecycleManager id=(?P<b5>\d+)|(?:Broker|Controller|Kafka)Server id=(?P<b6>\d+)"
    r"|Controller id=(?P<b8>\d+)(?: epoch=(?P<epoch>\d+))?|Controller (?P<b9>\d+)"
    r"|ReplicaManager broker=(?P<b7>\d+)"
    r"|ReplicaFetcher replicaId=(?P<b4>\d+), [^\]]*"
    r"|(?:Unified|Merged)?Log partition=(?P<log>[^,\]]+)(?:, (?!dir=)[^,\]]*)*(?:, dir=(?P<dir>[^\]]*))?"
    r"|(?!ZooKeeperClient)[^\]]*)\] "  # which of a broker's sessions it is stands nowhere else
)
_CONTROLLER_LOGGERS = frozenset(
    [
        "ReplicationControlManager",
        "ClusterControlManager",
        "ConfigurationControlManager",
        "BrokerHeartbeatManager",
        "FeatureControlManager",
        "BrokerLifecycleManager",
    ]
)
_BROKER_LOGGERS = frozenset(
    ["Partition", "state.change.logger", "ReplicaFetcherThread", "UnifiedLog", "MergedLog", "Log"]
)
_ZOOKEEPER_LOGGERS = frozenset(["KafkaController", "KafkaZkClient"])
_TORN_DETAIL = "at least 1 line: what stands there cannot be read"
_OTHER_BROKER = "an unknown number of lines: this log has lines of several brokers, and some name none"
_MAX_SHAPES = 200
"""Shapes counted separately; further ones are counted as one."""


class RareLines:
    """State of the rare lines of one source, and which of them were not understood."""

    def __init__(self, partitions: PartitionStates, report: ParseReport) -> None:
        self.partitions, self.report = partitions, report
        self.broker = BrokerLogState(partitions)
        self.controller = ControllerLogState(self.broker)
        self.lifecycle = Lifecycle()
        self.shown: Shown = {}
        """The kinds of evidence that are printed, each since when (ms)."""
        self._topics: list[str] = []
        self._topics_of = 0
        self.reported_at: dict[str, int] = {}
        """By shape that was not understood, the second of log time of its last `lost` row."""
        self.early: list[tuple[int, str]] = []
        """Times (ms) and messages with the version of a broker that no line has named yet."""
        self.killed: list[int] = []
        """Times (ms) of last lines before starts that no stop precedes, until they are taken."""

    def read(self, logger: str, line: Line, events: EventBuilder) -> bool:
        """Append the rows of a line.

        Returns False where a line of evidence has an unknown wording: the source counts as level 0 from there on.
        """
        kind = class_name(logger)
        note_shown(self.shown, kind, line.message, line.ts)
        if kind == clients.LOGGER:
            return clients.read(self.broker, line, events) or not self._report_unknown(
                logger, line.message, line, events
            )
        if line.broker < 0:
            self._queue_version(kind, line)
            return True
        for ts, message in self.early:
            lifecycle.read("AppInfoParser", Line(ts, 0, line.broker, -1, message), events)
        self.early.clear()
        try:
            whole = not _is_two_lines(line.message)
            if whole and (self._shape(kind, line, events) or not may_be_evidence(kind, line.message)):
                return True
        except (KeyError, ValueError, OverflowError):  # a shape whose fields are others, or wider, than it has had
            pass
        return not self._report_unknown(logger, line.message, line, events)

    def _queue_version(self, kind: str, line: Line) -> None:
        """A line before any that names the broker: its version is kept until one does, other lines are skipped."""
        if kind == "AppInfoParser" and line.message.startswith("Kafka version"):
            self.early.append((line.ts, line.message))
        else:
            self.report.nameless += 1

    def read_dumped(self, line: Line, events: EventBuilder) -> bool:
        """`read` for a line of the printed metadata log."""
        try:
            unknown = read_record(self.controller, line, events)
        except OverflowError:
            unknown = line.message
        return unknown is None or not self._report_unknown("kafka-dump-log", unknown, line, events)

    def is_start(self, logger: str, message: str, pause: int) -> bool:
        """Whether a line shows that the broker started; a line of a stop is recorded."""
        kind = class_name(logger)
        if lifecycle.is_stop(kind, message):
            self.lifecycle.stop()
        sign = lifecycle.start_sign(kind, message)
        return sign is not None and self.on_start_sign(sign, pause)

    def on_start_sign(self, sign: str, pause: int) -> bool:
        """Record a sign of a start; `pause` is the time (ms) of the last line before the last silence."""
        is_start = self.lifecycle.start(sign, pause)
        if is_start:
            self.broker.led.clear()
        if (end := self.lifecycle.killed()) is not None:
            self.killed.append(end)
        return is_start

    def on_missing_lines(self) -> None:
        """Lines are missing here: what they might have changed is unknown."""
        self.broker.led.clear()
        self.controller.forget_role()

    def on_broker(self, broker: int, ts: int, events: EventBuilder) -> None:
        """Record the broker that a line names. If another one was named before, what is known is of that one, and lines
        that name none may be of either: some are missing."""
        known = self.broker
        known.named, before = broker, known.named
        if before in (-1, broker):
            return
        self.on_missing_lines()
        for of_one in (known.proposed, known.moving_to, known.loaded_hws, known.answers):
            of_one.clear()
        if self.reported_at.get(_OTHER_BROKER) != ts // 1000:
            append_row(events, "lost", Line(ts, 0, broker, -1, ""), detail=_OTHER_BROKER)
            self.partitions.repeat_leos()
        self.reported_at[_OTHER_BROKER] = ts // 1000

    def _shape(self, kind: str, line: Line, events: EventBuilder) -> bool:
        if kind == "LogManager" and read_move(self.broker, line):
            return True
        if kind in _BROKER_LOGGERS or kind.endswith("AlterPartitionManager"):
            of_controller = kind == "state.change.logger" and self.controller.read(zookeeper.PATTERNS, line, events)
            return of_controller or read_broker_line(self.broker, line, events)
        if kind in _ZOOKEEPER_LOGGERS:
            return self.controller.read(zookeeper.PATTERNS, line, events)
        if kind in _CONTROLLER_LOGGERS:
            return self.controller.read(controller_shapes.PATTERNS, line, events)
        if kind == "QuorumController":
            return read_role(self.controller, line, events)
        return lifecycle.read(kind, line, events)

    def _report_unknown(self, logger: str, message: str, line: Line, events: EventBuilder) -> bool:
        """Append a `lost` row for a line that was not understood.

        Returns False if a cut-off line and the next line are joined in it.
        """
        torn = _is_two_lines(message)
        shape = _TORN_DETAIL if torn else f"{NOT_UNDERSTOOD}{self._count(logger, message)}"
        self.report.broken += torn
        self.report.understood -= torn
        if self.reported_at.get(shape) != line.ts // 1000:
            append_row(events, "lost", line, level=line.level if torn else 0, detail=shape)
            self.partitions.repeat_leos()
        self.reported_at[shape] = line.ts // 1000
        if logger.endswith("QuorumController"):
            self.on_missing_lines()
        return not torn

    def _count(self, logger: str, message: str) -> str:
        if self._topics_of != len(self.partitions.places):
            topics = {topic for topic, _ in self.partitions.places if topic}
            self._topics, self._topics_of = sorted(topics, key=len, reverse=True), len(self.partitions.places)
        shape = shape_of(message, self._topics)
        if f"{NOT_UNDERSTOOD}{shape}" not in self.reported_at and len(self.reported_at) >= _MAX_SHAPES:
            shape = "more shapes than are counted"
        self.report.not_understood(f"{logger}: {shape}", message)
        return shape

    def dump(self) -> dict[str, Any]:
        """The state as a JSON value."""
        controller, cuts = self.controller, (self.broker.loaded_hws.items(), self.broker.answers.items())
        return {
            "names": self.broker.names,
            "proposed": list(self.broker.proposed.items()),
            "partitions": [
                [*key, *vars(registration).values()] for key, registration in controller.registrations.items()
            ],
            "brokers": list(controller.brokers.items()),
            "changed": controller.changed,
            "role": [controller.active, controller.epoch],
            "assigned": controller.assigned,
            **({"told_epochs": controller.told_epochs} if controller.told_epochs else {}),
            "prints_followers": self.broker.prints_followers,
            **({"cuts": [*map(list, cuts)]} if any(cuts) else {}),
            "led": sorted(self.broker.led),
            "moving_to": list(self.broker.moving_to.items()),
            "lifecycle": vars(self.lifecycle),
            "reported_at": self.reported_at,
            "early": self.early,
            "shown": self.shown,
        }

    def load(self, stored: dict[str, Any]) -> None:
        """Restore what `dump` gave, into a new object."""
        controller = self.controller
        self.broker.names, self.broker.proposed = stored["names"], dict(stored["proposed"])
        controller.registrations = {(t, p): Registration(*registration) for t, p, *registration in stored["partitions"]}
        controller.brokers = dict(stored["brokers"])
        controller.changed = tuple(stored["changed"]) if stored["changed"] else None
        controller.active, controller.epoch = stored["role"]
        controller.assigned = stored.get("assigned", {})
        controller.told_epochs = stored.get("told_epochs", {})
        self.broker.prints_followers = stored.get("prints_followers", False)
        self.broker.loaded_hws, self.broker.answers = map(dict, stored.get("cuts", ((), ())))
        self.broker.moving_to = dict(stored.get("moving_to", ()))
        self.broker.led = set(stored.get("led", ()))
        self.lifecycle = Lifecycle(**stored["lifecycle"])
        self.reported_at = stored["reported_at"]
        before = {TERMS: 0} if (self.partitions.state["leader_epoch"] >= 0).any() else {}
        self.shown = stored.get("shown", before)  # a state of before says nothing of it, but it has what was read
        self.early = [(ts, message) for ts, message in stored["early"]]


def _is_two_lines(message: str) -> bool:
    text = np.frombuffer(message.encode(errors="surrogateescape"), np.uint8)
    return bool(two_lines(text, 0, len(text)))
