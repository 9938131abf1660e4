"""Lines of one log to events, whatever the kind of log and however its bytes are cut."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from generators.brokerlogs.events.clock_offsets import Clock
from generators.brokerlogs.events.event_builder import Telling
from generators.brokerlogs.events.event_rows import EVENTS
from generators.brokerlogs.events.snapshots import dump, load, pack, unpack
from generators.brokerlogs.events.source_state import Known
from generators.brokerlogs.messages.broker_state import Line
from generators.brokerlogs.messages.controller_state import METADATA_LOG
from generators.brokerlogs.messages.lifecycle import NUMBERING
from generators.brokerlogs.parsing.parse_report import ParseReport
from generators.brokerlogs.parsing.rare_lines import PREFIX, RareLines
from generators.brokerlogs.scanning.fetch_grouping import STATE, decide
from generators.brokerlogs.scanning.frequent_events import SOURCE, tell
from generators.brokerlogs.scanning.line_record import DUMPED, RARE, TRUNCATING
from generators.brokerlogs.scanning.overlong import WholeLines
from generators.brokerlogs.scanning.scanner import Scanner

_KILLED = "it was killed, or its log4j2 stops at SIGTERM (shutdownHook: disable)"


def _clock(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


class Found(NamedTuple):
    """A line that is read alone, and what was decided of it."""

    message: int
    end: int
    ts: int
    kind: int
    place: int
    logger: int
    level: int
    fetch: int
    pause: int
    """Time (ms) of the last line before the last silence, -1 where there was none."""


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
        clock: Clock | None = None,
    ) -> None:
        self.cluster, self.source_id = cluster, source_id
        self.told = 0
        """Microseconds since 1970 up to which everything has been told."""
        self._settings = {
            "broker_id": broker_id,
            "timezone": timezone,
            "internal_topics": internal_topics,
            "level": level,
        }
        self.clock = clock or Clock()
        self._level = -1 if level is None else level
        self._known = Known(internal_topics)
        self._scanner = Scanner(self._known, timezone)
        self._topic_ids: list[str] = []
        self._rare = RareLines(self._known, ParseReport())
        self._lines = WholeLines()
        self._waiting = b""
        self._taken: list[int] = []
        # Zeros first: the bytes between fields are kept, too, and would be whatever lay in memory.
        self._decided, self._source = np.zeros(1, STATE), np.zeros(1, SOURCE)
        self._decided[0] = (-1, 0, 0, 0, -1, -1)
        self._source[0] = (0, 0, 0, -1 if broker_id is None else broker_id)

    @property
    def report(self) -> ParseReport:
        """What became of the lines so far; that of another parser goes on here where it is set."""
        return self._rare.report

    @report.setter
    def report(self, report: ParseReport) -> None:
        self._rare.report = report

    @property
    def patterns(self) -> list[tuple[int, int]]:
        """(time in us, grade) of each pattern, from when on lines have had it (see `voices`)."""
        ahead = self.clock.most(int(self._source["broker"][0]))
        return [((ms - ahead) * 1000, grade) for ms, grade in self._scanner.patterns]

    def feed(self, data: bytes, *, last: bool = False) -> pa.Table:
        """Events decided so far, in file order, in the schema EVENTS.

        `last` ends the log: everything is decided, and a last line without an end is torn and left out. Feeding may
        go on after it, as with the next file of a series.
        """
        before = self._lines.overlong
        pieces = self._lines.pieces(data)
        self.report.overlong += self._lines.overlong - before
        events = [self._read(self._waiting + piece, last=False) for piece in pieces]
        if last:
            events.append(self.flush())
            self.report.torn = bool(self._lines.rest) or self._lines.dropped
            self._lines = WholeLines()
        return pa.concat_tables(events) if events else EVENTS.empty_table()

    def flush(self) -> pa.Table:
        """Decide what waits for lines to come, as when a live log stands still; an unfinished line is kept."""
        return self._read(self._waiting, True)

    def lost(self, detail: str) -> pa.Table:
        """What waits, then a `lost` event: its reader knows that lines are missing from here."""
        before = self.flush()
        telling = Telling(1, self._known, self._topic_ids)
        telling.tell("lost", self.told // 1000, int(self._source["broker"][0]), self.report.level, detail=detail)
        self._known.tell_again()
        self._rare.missing()
        self.report.lost += 1
        return pa.concat_tables([before, telling.table(self.cluster, self.source_id)])

    def words(self) -> list[str]:
        """What there is to say of ends of the broker that were no stops, each once."""
        ends, self._rare.killed = self._rare.killed, []
        return [f"{self.source_id} ends at {_clock(ms)} without a shutdown: {_KILLED}" for ms in ends]

    def snapshot(self) -> bytes:
        """All that is needed to go on, lines that wait included."""
        return dump(
            {
                "cluster": self.cluster,
                "source_id": self.source_id,
                "settings": self._settings,
                "told": self.told,
                "report": vars(self.report),
                "known": self._known.dump(),
                "topic_ids": self._topic_ids,
                "rare": self._rare.dump(),
                "waiting": (self._waiting + self._lines.rest).decode("latin-1"),
                "dropped": self._lines.dropped,
                "taken": self._taken,
                "patterns": self._scanner.patterns,
                "decided": pack(self._decided),
                "source": pack(self._source),
            }
        )

    @classmethod
    def restore(cls, blob: bytes) -> SourceParser:
        """The parser that gave this snapshot, or that of the version before."""
        held = load(blob)
        parser = cls(held["cluster"], held["source_id"], **held["settings"])
        vars(parser.report).update(held["report"])
        parser.told = held["told"]
        parser._known.load(held["known"])
        parser._topic_ids.extend(held["topic_ids"])
        parser._rare.load(held["rare"])
        lines, end, rest = held["waiting"].encode("latin-1").rpartition(b"\n")
        parser._waiting, parser._lines = lines + end, WholeLines(rest, held.get("dropped", False))
        parser._taken = held["taken"]
        parser._scanner.patterns = [(ms, grade) for ms, grade in held.get("patterns", [])]
        parser._decided, parser._source = unpack(held["decided"], STATE), unpack(held["source"], SOURCE)
        return parser

    def _read(self, data: bytes, last: bool) -> pa.Table:
        buf = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(buf == 10)
        lines = self._scanner.lines(data, buf, ends)
        taken = np.searchsorted(lines["start"], np.array(self._taken, np.int64))
        before = int(self._decided["ts"][0])
        decisions, stop = decide(buf, lines, len(lines), taken, self._known.state, self._decided[0], self._level, last)
        rest = int(lines["start"][stop]) if stop < len(lines) else len(data)
        self._taken = [int(lines["start"][stop + k]) - rest for k in np.flatnonzero(decisions["taken"][stop:])]
        self._waiting = data[rest:]
        telling = self._tell(buf, lines, decisions, stop, before)
        self.report.count(lines[:stop], decisions[:stop], self._scanner.loggers)
        latest = int(lines["ts"][:stop].max(initial=0)) - self.clock.most(int(self._source["broker"][0]))
        self.told = max(self.told, latest * 1000, telling.correct(self.clock) * 1000)
        return telling.table(self.cluster, self.source_id) if telling.count else EVENTS.empty_table()

    def _tell(self, buf: np.ndarray, lines: np.ndarray, decisions: np.ndarray, stop: int, before: int) -> Telling:
        """Rows of the decided lines: the frequent ones by kernel, up to and including each one that is read alone.

        `before` is the time of the line before them.
        """
        decided = lines[:stop]
        telling = Telling(2 * stop + 64, self._known, self._topic_ids)
        breaks = (decisions["lost"][:stop] != 0) | (decisions["start"][:stop] != 0)
        alone = np.flatnonzero((decided["kind"] >= RARE) | breaks)
        opens = breaks[alone] | (decisions["fetch"][alone] >= 0)
        pauses = self._rare.lifecycle.pauses(decided["ts"], before, alone)
        columns = [decided[name][alone] for name in Found._fields[:6]] + [
            decisions[name][alone] for name in ("level", "fetch")
        ]
        found = zip(*(column.tolist() for column in (*columns, pauses)), strict=True)
        at = 0
        for k, by_kernel, line in zip(alone.tolist(), opens.tolist(), map(Found._make, found), strict=True):
            if breaks[k]:
                self._note_break(decisions[k], line.pause)
            if k > at or by_kernel:
                self._frequent(buf, lines, decisions, at, k + 1, telling)
            if line.kind >= RARE:
                self._read_alone(buf, line, telling)
            at = k + 1
        self._frequent(buf, lines, decisions, at, stop, telling)
        return telling

    def _note_break(self, decision: np.void, pause: int) -> None:
        if decision["lost"]:
            self._rare.missing()
        if decision["start"]:
            self._rare.started(NUMBERING, pause)

    def _frequent(
        self, buf: np.ndarray, lines: np.ndarray, decisions: np.ndarray, at: int, to: int, telling: Telling
    ) -> None:
        telling.room(4 * (to - at) + int(lines["count"][at:to].sum()))
        known, source = self._known, self._source[0]
        telling.count = tell(
            buf, lines, decisions, at, to, telling.rows, telling.count, known.state, known.told, source
        )

    def _read_alone(self, buf: np.ndarray, found: Found, telling: Telling) -> None:
        """Rows of a line that the kernel does not read."""
        text, place = buf[found.message : found.end].tobytes().decode("utf-8", "replace"), found.place
        if found.kind == DUMPED:
            self._cap(self._rare.read_dumped(Line(found.ts, 0, METADATA_LOG, -1, text), telling))
            return
        match = PREFIX.match(text)
        if match:
            self._learn_broker(match)
            place = self._known.place(match["log"]) if match["log"] else place
            text = text[match.end() :]
        logger = self._scanner.loggers[found.logger]
        if self._rare.starts(logger, text, found.pause):
            self._source["capped"][0] = 0
        level = 0 if self._source["capped"][0] else found.level
        cut = found.fetch if found.kind == TRUNCATING else -1
        line = Line(found.ts, level, int(self._source["broker"][0]), place, text, cut)
        self._cap(self._rare.read(logger, line, telling))

    def _learn_broker(self, match: re.Match[str]) -> None:
        if match.lastgroup and match.lastgroup != "log":
            self._source["broker"][0] = int(match[match.lastgroup])

    def _cap(self, understood: bool) -> None:
        """From a line of evidence in words that are not known on the source tells no more than level 0."""
        if not understood:
            self._source["capped"][0] = 1
