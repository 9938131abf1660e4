"""Lines read one at a time: to whom each belongs, and what becomes of one that nobody understands."""

from __future__ import annotations

import re
from typing import Any

from generators.brokerlogs.events.event_builder import Telling
from generators.brokerlogs.events.source_state import Known
from generators.brokerlogs.messages import broker, lifecycle
from generators.brokerlogs.messages import controller as controller_shapes
from generators.brokerlogs.messages.broker_state import Line, StateLog
from generators.brokerlogs.messages.controller_state import ControllerLog, Registration
from generators.brokerlogs.messages.evidence import may_be_evidence, shape_of
from generators.brokerlogs.messages.lifecycle import Lifecycle
from generators.brokerlogs.messages.metadata_records import read_record
from generators.brokerlogs.messages.quorum_roles import read_role
from generators.brokerlogs.parsing.parse_report import ParseReport
from generators.brokerlogs.scanning.loggers import simple
from schemas.telemetry_gaps import NOT_UNDERSTOOD

PREFIX = re.compile(
    r"\[(?:Partition \S+ broker=(?P<b1>\d+)|Broker id=(?P<b2>\d+)|QuorumController id=(?P<b3>\d+)"
    r"|BrokerLifecycleManager id=(?P<b5>\d+)|(?:Broker|Controller)Server id=(?P<b6>\d+)"
    r"|ReplicaManager broker=(?P<b7>\d+)"
    r"|ReplicaFetcher replicaId=(?P<b4>\d+), [^\]]*|UnifiedLog partition=(?P<log>[^,]+), dir=[^\]]*|[^\]]*)\] "
)
_OF_CONTROLLER = frozenset(
    [
        "ReplicationControlManager",
        "ClusterControlManager",
        "ConfigurationControlManager",
        "BrokerHeartbeatManager",
        "FeatureControlManager",
        "BrokerLifecycleManager",
    ]
)
_OF_BROKER = frozenset(["Partition", "state.change.logger", "ReplicaFetcherThread", "UnifiedLog"])
_TWO_LINES = re.compile(
    r"\d{13}\|[^|]*\|(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\||\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] [A-Z]{4,5} "
)
_TORN = "at least 1 line: what stands there cannot be read"
_SHAPES = 200
"""So many shapes are told apart; what comes beyond is one."""


class RareLines:
    """What the rare lines of one source have told so far, and which of them were not understood."""

    def __init__(self, known: Known, report: ParseReport) -> None:
        self.known, self.report = known, report
        self.states = StateLog(known)
        self.controller = ControllerLog(self.states)
        self.lifecycle = Lifecycle()
        self.told: dict[str, int] = {}
        """What was said not to be understood, and the second of log time in which it was said last."""
        self.early: list[tuple[int, str]] = []
        """Times (ms) and messages that tell the version of a broker which no line has named yet."""
        self.killed: list[int] = []
        """Times (ms) of last lines before starts that no stop precedes, until somebody takes them."""

    def read(self, logger: str, line: Line, telling: Telling) -> bool:
        """Tell the rows of a line.

        Whether the source goes on telling what it told: not where a line of evidence is worded anew.
        """
        kind = simple(logger)
        if line.broker < 0:
            self._hold(kind, line)
            return True
        for ts, message in self.early:
            lifecycle.read("AppInfoParser", Line(ts, 0, line.broker, -1, message), telling)
        self.early.clear()
        try:
            if self._shape(kind, line, telling) or not may_be_evidence(kind, line.message):
                return True
        except (KeyError, ValueError):  # a shape whose fields are others than it has had
            pass
        return not self._worded_anew(logger, line.message, line, telling)

    def _hold(self, kind: str, line: Line) -> None:
        """A line before any that names the broker: its version waits for that, the others tell nothing."""
        if kind == "AppInfoParser" and line.message.startswith("Kafka version"):
            self.early.append((line.ts, line.message))
        else:
            self.report.nameless += 1

    def read_dumped(self, line: Line, telling: Telling) -> bool:
        """The same for a line of the printed metadata log."""
        unknown = read_record(self.controller, line, telling)
        return unknown is None or not self._worded_anew("kafka-dump-log", unknown, line, telling)

    def starts(self, logger: str, message: str, pause: int) -> bool:
        """Whether a line shows that the broker started; one of a stop is taken note of."""
        kind = simple(logger)
        if lifecycle.is_stop(kind, message):
            self.lifecycle.stop()
        sign = lifecycle.sign_of(kind, message)
        return sign is not None and self.started(sign, pause)

    def started(self, sign: str, pause: int) -> bool:
        """Take note of a sign of a start; `pause` is the time (ms) of the last line before the last silence."""
        starts = self.lifecycle.start(sign, pause)
        if (end := self.lifecycle.killed()) is not None:
            self.killed.append(end)
        return starts

    def missing(self) -> None:
        """Lines are missing here."""
        self.controller.forget_role()

    def _shape(self, kind: str, line: Line, telling: Telling) -> bool:
        if kind in _OF_BROKER or kind.endswith("AlterPartitionManager"):
            return broker.read(self.states, line, telling)
        if kind in _OF_CONTROLLER:
            return controller_shapes.read(self.controller, line, telling)
        if kind == "QuorumController":
            return read_role(self.controller, line.message)
        return lifecycle.read(kind, line, telling)

    def _worded_anew(self, logger: str, message: str, line: Line, telling: Telling) -> bool:
        """Say what was not understood; False where that is two lines in one, of which the first was cut."""
        torn = _TWO_LINES.search(message) is not None
        shape = _TORN if torn else f"{NOT_UNDERSTOOD}{self._count(logger, message)}"
        self.report.broken += torn
        self.report.understood -= torn
        if self.told.get(shape) != line.ts // 1000:
            telling.tell("lost", line.ts, line.broker, line.level if torn else 0, detail=shape)
            self.known.tell_again()
        self.told[shape] = line.ts // 1000
        if logger.endswith("QuorumController"):
            self.missing()
        return not torn

    def _count(self, logger: str, message: str) -> str:
        topics = {topic for topic, _ in self.known.places if topic}
        shape = shape_of(message, sorted(topics, key=len, reverse=True))
        if f"{NOT_UNDERSTOOD}{shape}" not in self.told and len(self.told) >= _SHAPES:
            shape = "more shapes than are told apart"
        self.report.not_understood(f"{logger}: {shape}", message)
        return shape

    def dump(self) -> dict[str, Any]:
        """All of it as JSON can hold it."""
        controller = self.controller
        return {
            "names": self.states.names,
            "proposed": list(self.states.proposed.items()),
            "partitions": [[*key, *vars(now).values()] for key, now in controller.partitions.items()],
            "brokers": list(controller.brokers.items()),
            "changed": controller.changed,
            "role": [controller.active, controller.epoch],
            "lifecycle": vars(self.lifecycle),
            "told": self.told,
            "early": self.early,
        }

    def load(self, dumped: dict[str, Any]) -> None:
        """What `dump` held, into a new one; what a version before did not hold is as at the start."""
        controller = self.controller
        self.states.names, self.states.proposed = dumped["names"], dict(dumped["proposed"])
        controller.partitions = {(t, p): Registration(*now) for t, p, *now in dumped["partitions"]}
        controller.brokers = dict(dumped["brokers"])
        controller.changed = tuple(dumped["changed"]) if dumped["changed"] else None
        controller.active, controller.epoch = dumped.get("role", (None, None))
        self.lifecycle = Lifecycle(**dumped.get("lifecycle", {}))
        self.told = dumped.get("told", {})
        self.early = [(ts, message) for ts, message in dumped.get("early", [])]
