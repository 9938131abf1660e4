"""Events of one log, whatever kind of log it is and however its bytes are cut."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from generators.brokerlogs.events.clock_offsets import ClockOffsets
from generators.brokerlogs.events.event_builder import EventBuilder, TopicIds
from generators.brokerlogs.events.event_rows import EVENTS
from generators.brokerlogs.events.snapshots import dump, load, pack, unpack
from generators.brokerlogs.events.source_state import PartitionStates
from generators.brokerlogs.forms.translation import Translation
from generators.brokerlogs.messages.coverage import Shown
from generators.brokerlogs.parsing.parse_report import ParseReport
from generators.brokerlogs.parsing.rare_lines import RareLines
from generators.brokerlogs.parsing.row_builder import RowBuilder
from generators.brokerlogs.scanning.fetch_grouping import STATE, decide
from generators.brokerlogs.scanning.frequent_events import SOURCE, GroupedLines
from generators.brokerlogs.scanning.masking import masked_line
from generators.brokerlogs.scanning.overlong import WholeLines
from generators.brokerlogs.scanning.scanner import Scanner
from schemas.coverage import HW
from schemas.levels import LEAN

_KILLED_HINT = "it was killed, or its log4j2 stops at SIGTERM (shutdownHook: disable)"


def _timestamp(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


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
        clock_offsets: ClockOffsets | None = None,
        layout: str | None = None,
    ) -> None:
        self.cluster, self.source_id = cluster, source_id
        self.low_watermark = 0
        """Microseconds since 1970 up to which every event has been returned."""
        self._settings: dict[str, Any] = {
            "broker_id": broker_id,
            "timezone": timezone,
            "internal_topics": internal_topics,
            **({"layout": layout} if layout else {}),
        }
        self._translation = Translation(timezone, layout)
        self.clock_offsets = clock_offsets or ClockOffsets()
        self._partitions = PartitionStates(internal_topics)
        self._scanner = Scanner(self._partitions, timezone)
        self._topic_ids = TopicIds()
        self._rare = RareLines(self._partitions, ParseReport())
        self._whole_lines = WholeLines()
        self._waiting = b""
        self._taken: list[int] = []
        # Zeros first: snapshots contain the padding between fields, which would be uninitialised memory.
        self._decided, self._source = np.zeros(1, STATE), np.zeros(1, SOURCE)
        self._decided[0] = (-1, 0, 0, 0, -1, -1)
        self._source[0] = (0, 0, 0, -1 if broker_id is None else broker_id)

    @property
    def report(self) -> ParseReport:
        """The counts of the lines so far; may be set to the report of another parser, which is then continued."""
        return self._rare.report

    @report.setter
    def report(self, report: ParseReport) -> None:
        self._rare.report = report

    @property
    def form(self) -> tuple[str, ...]:
        """The envelopes and layouts in which lines came, beside the two patterns that are read as they are."""
        return tuple(self._translation.found)

    @property
    def timezone(self) -> str:
        """The zone of times without one; may be set for the lines to come."""
        return str(self._settings["timezone"])

    @timezone.setter
    def timezone(self, name: str) -> None:
        self._settings["timezone"] = name
        self._scanner.zone, self._translation.zone = ZoneInfo(name), name

    @property
    def patterns(self) -> list[tuple[int, int]]:
        """(time in us, grade) of the first line of each pattern (see tailing.chosen_files)."""
        return [((ms - self._ahead_ms) * 1000, grade) for ms, grade in self._scanner.patterns]

    @property
    def shown(self) -> Shown:
        """By kind of evidence since when (us) it is known to be printed."""
        return {kind: (ms - self._ahead_ms) * 1000 for kind, ms in self._rare.shown.items()}

    @property
    def _ahead_ms(self) -> int:
        return self.clock_offsets.largest(int(self._source["broker"][0]))

    def feed(self, data: bytes, *, last: bool = False) -> pa.Table:
        """Events decided so far, in file order, in the schema EVENTS.

        `last` ends the log: everything is decided, and a last line without an end is torn and skipped. Feeding may
        continue after it, as with the next file of a series.
        """
        before = self._whole_lines.overlong
        pieces = self._whole_lines.pieces(data)
        self.report.overlong += self._whole_lines.overlong - before
        for piece in pieces[:1] if not self.report.first_line else ():
            self.report.first_line = masked_line(piece)
        events = [table for piece in pieces for table in self._read_piece(piece)]
        if last:
            events.append(self.flush())
            self._whole_lines = WholeLines()
        return pa.concat_tables(events) if events else EVENTS.empty_table()

    def _read_piece(self, piece: bytes) -> list[pa.Table]:
        """The events of these whole lines, and that some are in no layout that is known."""
        events = [self._read(self._waiting + self._translation.lines(piece), last=False)]
        if self._translation.given_up:
            events.append(self.flush())
        if self.low_watermark and (given_up := self._translation.take_given_up()):
            events.append(self.note("lost", given_up))
        return events

    def flush(self) -> pa.Table:
        """Decide what waits for lines to come, as when a live log stands still; an unfinished line is kept."""
        return self._read(self._waiting, True)

    def note(self, kind: str, detail: str, before: pa.Table | None = None) -> pa.Table:
        """The events that wait, then one of the kind `lost` or `unread`: the reader knows that lines are missing here.

        `before`: events that come after it; none were returned yet, and its time is that of the first of them.
        """
        waiting = self.flush() if before is None else EVENTS.empty_table()
        ts = self.low_watermark // 1000 if before is None else before["ts"][0].value // 1000
        broker = int(self._source["broker"][0]) if before is None else before["broker_id"][0].as_py()
        events = EventBuilder(1, self._partitions, self._topic_ids)
        events.append(kind, ts, broker, self.report.level, detail=detail)
        if before is None:
            self._partitions.repeat_leos()
            self._rare.on_missing_lines()
        self.report.lost += kind == "lost"
        return pa.concat_tables([waiting, events.table(self.cluster, self.source_id)])

    def take_messages(self) -> list[str]:
        """Messages on ends of the broker that were no stops, each returned once."""
        ends, self._rare.killed = self._rare.killed, []
        return [f"{self.source_id} ends at {_timestamp(ms)} without a shutdown: {_KILLED_HINT}" for ms in ends]

    def snapshot(self) -> bytes:
        """All that is needed to continue, waiting lines included."""
        return dump(
            {
                "cluster": self.cluster,
                "source_id": self.source_id,
                "settings": self._settings,
                "low_watermark": self.low_watermark,
                "report": vars(self.report),
                "partitions": self._partitions.dump(),
                "topic_ids": self._topic_ids,
                "rare": self._rare.dump(),
                "waiting": (self._waiting + self._whole_lines.rest).decode("latin-1"),
                "dropped": self._whole_lines.dropped,
                "taken": self._taken,
                "patterns": self._scanner.patterns,
                "decided": pack(self._decided),
                "source": pack(self._source),
                **self._translation.dump(),
            }
        )

    @classmethod
    def restore(cls, blob: bytes) -> SourceParser:
        """The parser of this snapshot. Raises ValueError for one of another version."""
        stored = load(blob)
        settings = {name: value for name, value in stored["settings"].items() if name != "level"}  # one of before
        parser = cls(stored["cluster"], stored["source_id"], **settings)
        vars(parser.report).update(stored["report"])
        parser.low_watermark = stored["low_watermark"]
        parser._partitions.load(stored["partitions"])
        parser._topic_ids = TopicIds(stored["topic_ids"])
        parser._rare.load(stored["rare"])
        lines, end, rest = stored["waiting"].encode("latin-1").rpartition(b"\n")
        parser._waiting, parser._whole_lines = lines + end, WholeLines(rest, stored["dropped"])
        parser._taken = stored["taken"]
        parser._scanner.patterns = [(ms, grade) for ms, grade in stored["patterns"]]
        parser._decided, parser._source = unpack(stored["decided"], STATE), unpack(stored["source"], SOURCE)
        parser._translation.load(stored)
        return parser

    def continue_from(self, blob: bytes) -> tuple[SourceParser, list[str]]:
        """The parser of this snapshot, with the clock offsets and time zone of this one, and what that changes."""
        parser = self.restore(blob)
        parser.clock_offsets, before = self.clock_offsets, parser.timezone
        if before == self.timezone:
            return parser, []
        parser.timezone = self.timezone
        return parser, [f"{self.source_id}: its times were read as {before} so far, as {self.timezone} from here on"]

    def _read(self, data: bytes, last: bool) -> pa.Table:
        buf = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(buf == 10)
        lines = self._scanner.lines(data, buf, ends)
        taken = np.searchsorted(lines["start"], np.array(self._taken, np.int64))
        before = int(self._decided["ts"][0])
        decisions, stop = decide(buf, lines, len(lines), taken, self._partitions.state, self._decided[0], last)
        rest = int(lines["start"][stop]) if stop < len(lines) else len(data)
        self._taken = [int(lines["start"][stop + k]) - rest for k in np.flatnonzero(decisions["taken"][stop:])]
        self._waiting = data[rest:]
        grouped = GroupedLines(buf, lines, decisions)
        rows = RowBuilder(grouped, self._partitions, self._rare, self._scanner.loggers, self._source)
        events = rows.build(stop, before, self._topic_ids)
        self.report.count(lines[:stop], decisions[:stop], self._scanner.loggers)
        latest = int(lines["ts"][:stop].max(initial=0))
        if (traced := decisions["level"][:stop] >= LEAN).any():
            self._rare.shown.setdefault(HW, int(lines["ts"][int(traced.argmax())]))
        latest -= self._ahead_ms
        self.low_watermark = max(
            self.low_watermark, latest * 1000, events.subtract_clock_offsets(self.clock_offsets) * 1000
        )
        return events.table(self.cluster, self.source_id) if events.count else EVENTS.empty_table()
