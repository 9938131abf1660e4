"""Lines of one log to events, whatever the kind of log and however its bytes are cut."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from generators.brokerlogs.controllerlog import ControllerLog
from generators.brokerlogs.known import Known
from generators.brokerlogs.pair import STATE, decide
from generators.brokerlogs.rows import EVENTS
from generators.brokerlogs.scan import (
    ALTER,
    BROKEN,
    CONTINUATION,
    DUMPED,
    IGNORED,
    LINE,
    RARE,
    REQUEST,
    TRUNCATING,
    fill,
    hashes,
    scan,
)
from generators.brokerlogs.statelog import Line, StateLog
from generators.brokerlogs.tell import SOURCE, tell
from generators.brokerlogs.telling import Telling

_PREFIX = re.compile(
    r"\[(?:Partition (?P<partition>\S+) broker=(?P<b1>\d+)|Broker id=(?P<b2>\d+)|QuorumController id=(?P<b3>\d+)"
    r"|ReplicaFetcher replicaId=(?P<b4>\d+), leaderId=(?P<leader>\d+)[^\]]*"
    r"|UnifiedLog partition=(?P<log>[^,]+), dir=[^\]]*|[^\]]*)\] "
)


@dataclass
class ParseReport:
    """What became of the lines of one source."""

    lines: int = 0
    understood: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    """Lines that were not understood, by logger."""
    continuation: int = 0
    broken: int = 0
    torn: bool = False
    """The last line has no end."""
    requests: int = 0
    """Lines of the request log, recognised and left aside."""
    has_sn: bool = False
    level: int = 0
    lost: int = 0


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
        self.zone = ZoneInfo(timezone)
        self.report = ParseReport()
        self.told = 0
        self._forced = -1 if level is None else level
        self._known = Known(internal_topics)
        self._topic_ids: list[str] = []
        self._statelog = StateLog(self._known)
        self._controllerlog = ControllerLog(self._statelog)
        self._carry = b""
        self._taken: list[int] = []
        self._decided = np.zeros(1, STATE)
        self._decided[0] = (-1, -1, -1)
        self._source = np.zeros(1, SOURCE)
        self._source[0] = (0, 0, -1 if broker_id is None else broker_id)

    def feed(self, data: bytes, *, last: bool = False) -> pa.Table:
        """Events decided so far, in file order, in the schema EVENTS; `last` ends the log."""
        return self._read(self._carry + data, last)

    def _read(self, data: bytes, last: bool) -> pa.Table:
        lines, buf = self._scan(data)
        taken = np.searchsorted(lines["start"], np.array(self._taken, np.int64))
        decisions, stop = decide(lines, len(lines), taken, self._decided[0], self._forced, last)
        decided, waiting = lines[:stop], lines[stop:]
        whole = int(lines["end"][-1]) if len(lines) else 0
        whole = data.find(b"\n", whole) + 1 if len(lines) else 0
        rest = int(waiting["start"][0]) if len(waiting) else whole
        self._taken = [int(lines["start"][stop + k]) - rest for k in np.flatnonzero(decisions["taken"][stop:])]
        self._carry = data[rest:]
        if last:
            self.report.torn = bool(self._carry)
            self._carry = b""
        telling = self._tell(buf, lines, decisions, stop)
        self._count(decided)
        return telling.table(self.cluster, self.source_id) if telling.count else EVENTS.empty_table()

    def _scan(self, data: bytes) -> tuple[np.ndarray, np.ndarray]:
        buf = np.frombuffer(data, np.uint8)
        count = int(np.count_nonzero(buf == 10))
        lines = np.empty(count, LINE)
        names = self._known.names
        size = 1 << int(2 * (count + len(names)) + 16).bit_length()
        tables = [(np.zeros(size, np.int64), np.full(size, -1, np.int32)) for _ in range(3)]
        joined = np.frombuffer(b"".join(names), np.uint8)
        offsets = np.cumsum([0, *map(len, names)])
        fill(*tables[2], hashes(joined, offsets))
        classes, new = np.zeros((count, 3), np.int64), np.zeros((count, 2), np.int64)
        n, loggers, places = scan(buf, len(buf), lines, tables[0], tables[1], classes, tables[2], len(names), new)
        self._known.add([data[a:b] for a, b in new[: places - len(names)]])
        self._loggers = [data[a:b].decode("utf-8", "replace") for _, a, b in classes[:loggers]]
        self._to_utc(lines[:n])
        return lines[:n], buf

    def _to_utc(self, lines: np.ndarray) -> None:
        """Stock times are local: shift them by the zone's offset of their quarter of an hour."""
        local = lines["stock"] == 1
        if self.zone.key == "UTC" or not local.any():
            return
        quarters, which = np.unique(lines["ts"][local] // 900_000, return_inverse=True)
        shifts = [self._offset(int(q)) for q in quarters]
        lines["ts"][local] -= np.array(shifts)[which]

    def _offset(self, quarter: int) -> int:
        naive = datetime.fromtimestamp(quarter * 900, UTC).replace(tzinfo=self.zone)
        shift = naive.utcoffset()
        return int(shift.total_seconds() * 1000) if shift else 0

    def _tell(self, buf: np.ndarray, lines: np.ndarray, decisions: np.ndarray, stop: int) -> Telling:
        head = lines[:stop]
        telling = Telling(4 * stop + int(head["count"].sum()) + 64, self._known, self._topic_ids)
        rare = np.flatnonzero(head["kind"] >= RARE)
        at = 0
        for k in [*rare.tolist(), stop]:
            until = min(k + 1, stop)
            if until > at:
                telling.count = tell(
                    buf,
                    lines,
                    decisions,
                    at,
                    until,
                    telling.rows,
                    telling.count,
                    self._known.state,
                    self._known.told,
                    self._source[0],
                )
            if k < stop:
                self._rare(buf, lines[k], decisions[k], telling)
            at = until
        return telling

    def _rare(self, buf: np.ndarray, line: np.void, decision: np.void, telling: Telling) -> None:
        text = buf[line["message"] : line["end"]].tobytes().decode("utf-8", "replace")
        if line["kind"] == DUMPED:
            record = Line(int(line["ts"]), 0, -1, -1, text)
            self._understood(self._controllerlog.read_record(record, telling), "kafka-dump-log")
            return
        match = _PREFIX.match(text)
        broker, place = int(self._source["broker"][0]), int(line["place"])
        if match:
            said = match["b1"] or match["b2"] or match["b3"] or match["b4"]
            if said:
                broker = self._source["broker"][0] = int(said)
            if match["log"]:
                place = self._known.place(match["log"])
            text = text[match.end() :]
        decided = int(decision["fetch"]) if line["kind"] == TRUNCATING else -1
        rare = Line(int(line["ts"]), int(decision["level"]), broker, place, text, decided)
        logger = self._loggers[line["logger"]]
        log = self._controllerlog if ".controller." in logger else self._statelog
        self._understood(log.read(rare, telling), logger)

    def _understood(self, understood: bool, logger: str) -> None:
        if not understood:
            self.report.ignored[logger] += 1
            self.report.understood -= 1

    def _count(self, lines: np.ndarray) -> None:
        report, kinds = self.report, np.bincount(lines["kind"], minlength=DUMPED + 1)
        report.lines += len(lines)
        report.continuation += int(kinds[CONTINUATION])
        report.broken += int(kinds[BROKEN])
        report.requests += int(kinds[REQUEST])
        report.understood += int(kinds[REQUEST + 1 :].sum())
        for logger, count in zip(*np.unique(lines["logger"][lines["kind"] == IGNORED], return_counts=True), strict=True):
            report.ignored[self._loggers[logger]] += int(count)
        if len(lines):
            self.told = max(self.told, int(lines["ts"].max()) * 1000)
            report.has_sn = report.has_sn or bool((lines["number"] >= 0).any())


__all__ = ["ALTER", "EVENTS", "ParseReport", "SourceParser"]
