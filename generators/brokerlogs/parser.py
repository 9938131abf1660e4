"""Lines of one log to events, whatever the kind of log and however its bytes are cut."""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from generators.brokerlogs import controller_shapes, shapes
from generators.brokerlogs.controllerlog import ControllerLog, Registration
from generators.brokerlogs.known import Known, pack, unpack
from generators.brokerlogs.lines import (
    DUMPED,
    LINE,
    LONGEST,
    RARE,
    TRUNCATING,
)
from generators.brokerlogs.metadata_records import read_record
from generators.brokerlogs.names import fill, hashes, table
from generators.brokerlogs.pair import STATE, decide
from generators.brokerlogs.report import ParseReport
from generators.brokerlogs.rows import EVENTS
from generators.brokerlogs.scan import scan
from generators.brokerlogs.statelog import Line, StateLog
from generators.brokerlogs.tell import SOURCE, tell
from generators.brokerlogs.telling import Telling

VERSION = 1
"""Of the snapshot."""
_PREFIX = re.compile(
    r"\[(?:Partition \S+ broker=(?P<b1>\d+)|Broker id=(?P<b2>\d+)|QuorumController id=(?P<b3>\d+)"
    r"|BrokerLifecycleManager id=(?P<b5>\d+)"
    r"|ReplicaFetcher replicaId=(?P<b4>\d+), [^\]]*|UnifiedLog partition=(?P<log>[^,]+), dir=[^\]]*|[^\]]*)\] "
)
_OF_CONTROLLER = re.compile(r"\.controller\.|BrokerLifecycleManager$")


class SourceParser:
    """The events of one source, fed in chunks of bytes; the events do not depend on the cuts."""

    def __init__(
        self,
        cluster: str,
        source_id: str,
        *,
        broker_id: int | None = None,
        timezone: str = "UTC",
        internal_topics: bool = True,
        level: int | None = None,
    ) -> None:
        self.cluster, self.source_id = cluster, source_id
        self.told = 0
        """Microseconds since 1970 up to which everything has been told."""
        self.report = ParseReport()
        self._settings = {
            "broker_id": broker_id,
            "timezone": timezone,
            "internal_topics": internal_topics,
            "level": level,
        }
        self._zone = ZoneInfo(timezone)
        self._level = -1 if level is None else level
        self._known = Known(internal_topics)
        self._topic_ids: list[str] = []
        self._states = StateLog(self._known)
        self._controller = ControllerLog(self._states)
        self._waiting = b""
        self._taken: list[int] = []
        self._decided = np.array([(-1, 0, 0, 0, -1, -1)], STATE)
        self._source = np.array([(0, 0, -1 if broker_id is None else broker_id)], SOURCE)
        self._loggers: list[str] = []

    def feed(self, data: bytes, *, last: bool = False) -> pa.Table:
        """Events decided so far, in file order, in the schema EVENTS.

        `last` ends the log: everything is decided, and a last line without an end is torn and left out. Feeding may
        go on after it, as with the next file of a series.
        """
        events = self._read(self._waiting + data, last)
        if last:
            self.report.torn = bool(self._waiting)
            self._waiting = b""
        return events

    def flush(self) -> pa.Table:
        """Decide what waits for lines to come, as when a live log stands still; an unfinished line is kept."""
        return self._read(self._waiting, True)

    def lost(self, detail: str) -> pa.Table:
        """What waits, then a `lost` event: its reader knows that lines are missing from here."""
        before = self.flush()
        telling = Telling(1, self._known, self._topic_ids)
        telling.tell("lost", self.told // 1000, int(self._source["broker"][0]), self.report.level, detail=detail)
        self._known.tell_again()
        self.report.lost += 1
        return pa.concat_tables([before, telling.table(self.cluster, self.source_id)])

    def snapshot(self) -> bytes:
        """All that is needed to go on, lines that wait included."""
        held = {
            "version": VERSION,
            "cluster": self.cluster,
            "source_id": self.source_id,
            "settings": self._settings,
            "told": self.told,
            "report": vars(self.report),
            "known": self._known.dump(),
            "topic_ids": self._topic_ids,
            "names": self._states.names,
            "proposed": list(self._states.proposed.items()),
            "partitions": [[*key, *vars(now).values()] for key, now in self._controller.partitions.items()],
            "brokers": list(self._controller.brokers.items()),
            "changed": self._controller.changed,
            "waiting": self._waiting.decode("latin-1"),
            "taken": self._taken,
            "decided": pack(self._decided),
            "source": pack(self._source),
        }
        return zlib.compress(json.dumps(held).encode(), 1)

    @classmethod
    def restore(cls, blob: bytes) -> SourceParser:
        """The parser that gave this snapshot."""
        held = json.loads(zlib.decompress(blob))
        if held["version"] != VERSION:
            raise ValueError(f"snapshot of a log parser has version {held['version']}, this program reads {VERSION}")
        parser = cls(held["cluster"], held["source_id"], **held["settings"])
        report = held["report"]
        parser.report = ParseReport(**report | {"ignored": Counter(report["ignored"])})
        parser.told = held["told"]
        parser._known.load(held["known"])
        parser._topic_ids.extend(held["topic_ids"])
        parser._states.names = held["names"]
        parser._states.proposed = dict(held["proposed"])
        parser._controller.partitions = {(t, p): Registration(*now) for t, p, *now in held["partitions"]}
        parser._controller.brokers = dict(held["brokers"])
        parser._controller.changed = tuple(held["changed"]) if held["changed"] else None
        parser._waiting = held["waiting"].encode("latin-1")
        parser._taken = held["taken"]
        parser._decided, parser._source = unpack(held["decided"], STATE), unpack(held["source"], SOURCE)
        return parser

    def _read(self, data: bytes, last: bool) -> pa.Table:
        buf = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(buf == 10)
        lines, whole = self._scan(data, buf, ends), int(ends[-1]) + 1 if len(ends) else 0
        taken = np.searchsorted(lines["start"], np.array(self._taken, np.int64))
        decisions, stop = decide(buf, lines, len(lines), taken, self._decided[0], self._level, last)
        rest = int(lines["start"][stop]) if stop < len(lines) else whole
        self._taken = [int(lines["start"][stop + k]) - rest for k in np.flatnonzero(decisions["taken"][stop:])]
        self._waiting = data[rest:] if stop < len(lines) else data[rest : rest + LONGEST + 1]
        telling = self._tell(buf, lines, decisions, stop)
        self.report.count(lines[:stop], decisions[:stop], self._loggers)
        self.told = max(self.told, int(lines["ts"][:stop].max(initial=0)) * 1000)
        return telling.table(self.cluster, self.source_id) if telling.count else EVENTS.empty_table()

    def _scan(self, data: bytes, buf: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """The lines of `data` that end at `ends`."""
        count, names = len(ends), self._known.names
        lines = np.empty(count, LINE)
        threads, loggers, places = table(count), table(count), table(count + len(names))
        offsets = np.cumsum([0, *map(len, names)])
        fill(*places, hashes(np.frombuffer(b"".join(names), np.uint8), offsets))
        classes, new = np.zeros((count, 3), np.int64), np.zeros((count, 2), np.int64)
        named, known = scan(buf, ends, lines, threads, loggers, classes, places, len(names), new)
        self._known.add([data[a:b] for a, b in new[: known - len(names)]])
        self._loggers = [data[a:b].decode("utf-8", "replace") for _, a, b in classes[:named]]
        self._to_utc(lines)
        return lines

    def _to_utc(self, lines: np.ndarray) -> None:
        """Stock times are local: shift them by the zone's offset of their quarter of an hour."""
        local = lines["stock"] == 1
        if self._zone.key == "UTC" or not local.any():
            return
        quarters, which = np.unique(lines["ts"][local] // 900_000, return_inverse=True)
        lines["ts"][local] -= np.array([self._offset(int(quarter)) for quarter in quarters])[which]

    def _offset(self, quarter: int) -> int:
        there = datetime.fromtimestamp(quarter * 900, UTC).replace(tzinfo=self._zone)
        shift = there.utcoffset()
        return int(shift.total_seconds() * 1000) if shift else 0

    def _tell(self, buf: np.ndarray, lines: np.ndarray, decisions: np.ndarray, stop: int) -> Telling:
        """Rows of the decided lines: the frequent ones by kernel, up to and including each rare one."""
        decided = lines[:stop]
        telling = Telling(2 * stop + 64, self._known, self._topic_ids)
        rare = np.flatnonzero(decided["kind"] >= RARE)
        alone = (decisions["lost"][rare] == 0) & (decisions["fetch"][rare] < 0)
        columns = [decided[name][rare].tolist() for name in ("message", "end", "ts", "kind", "place", "logger")]
        levels, fetches = decisions["level"][rare].tolist(), decisions["fetch"][rare].tolist()
        at = 0
        for k, no_more, level, fetch, *line in zip(
            rare.tolist(), alone.tolist(), levels, fetches, *columns, strict=True
        ):
            if k > at or not no_more:
                self._frequent(buf, lines, decisions, at, k + 1, telling)
            self._rare(buf, level, fetch, telling, *line)
            at = k + 1
        self._frequent(buf, lines, decisions, at, stop, telling)
        return telling

    def _frequent(
        self, buf: np.ndarray, lines: np.ndarray, decisions: np.ndarray, at: int, to: int, telling: Telling
    ) -> None:
        telling.room(4 * (to - at) + int(lines["count"][at:to].sum()))
        known, source = self._known, self._source[0]
        telling.count = tell(
            buf, lines, decisions, at, to, telling.rows, telling.count, known.state, known.told, source
        )

    def _rare(
        self,
        buf: np.ndarray,
        level: int,
        decided: int,
        telling: Telling,
        start: int,
        end: int,
        ts: int,
        kind: int,
        place: int,
        logger: int,
    ) -> None:
        text = buf[start:end].tobytes().decode("utf-8", "replace")
        if kind == DUMPED:
            if not read_record(self._controller, Line(ts, 0, -1, -1, text), telling):
                self.report.not_understood("kafka-dump-log")
            return
        match = _PREFIX.match(text)
        if match:
            said = match["b1"] or match["b2"] or match["b3"] or match["b4"] or match["b5"]
            if said:
                self._source["broker"][0] = int(said)
            if match["log"]:
                place = self._known.place(match["log"])
            text = text[match.end() :]
        broker, name = int(self._source["broker"][0]), self._loggers[logger]
        line = Line(ts, level, broker, place, text, decided if kind == TRUNCATING else -1)
        if broker < 0:
            understood = False
        elif _OF_CONTROLLER.search(name):
            understood = controller_shapes.read(self._controller, line, telling)
        else:
            understood = shapes.read(self._states, line, telling)
        if not understood:
            self.report.not_understood(name)
