"""One source being read: its lines are parsed ahead, its rows taken up to a horizon, its state known at any row.

Rows get their numbers in the round in which they are taken (see `rounds`), from `numbering`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from time import monotonic
from typing import Any

import numpy as np
import pyarrow as pa

from generators.brokerlogs.discovery.sources import Source
from generators.brokerlogs.events.event_rows import EVENTS
from generators.brokerlogs.parsing.parser import SourceParser
from generators.brokerlogs.tailing.broker_settings import BrokerSettings
from generators.brokerlogs.tailing.chosen_files import LineGrades
from generators.brokerlogs.tailing.chunks import Chunk, Chunks
from generators.brokerlogs.tailing.heartbeat import Heartbeat
from generators.brokerlogs.tailing.log_ends import note_hole_before
from generators.brokerlogs.tailing.missing_lines import MissingLines
from generators.brokerlogs.tailing.open_files import OpenFiles
from generators.brokerlogs.tailing.progress import earliest
from generators.brokerlogs.tailing.read_position import Older, PositionLost, ReadPosition
from generators.brokerlogs.tailing.reader import SeriesReader
from generators.brokerlogs.tailing.sequence_numbers import Numbering
from generators.brokerlogs.tailing.source_time import SourceTime
from generators.brokerlogs.tailing.told_lines import Stretch, Told
from generators.brokerlogs.tailing.windows import Spans

CHUNK = 8 << 20
PATIENCE_S = 5.0
RETRY_S = 1.0
UNBOUNDED = np.iinfo(np.int64).max


class Tailer:
    """A source, read ahead by at most one chunk.

    `state` is what `as_json` returned at the last commit: reading continues right after its rows. `told` are all lines
    told of the files, by this source those in the stretch of `state`, which is added. `only`: see SeriesReader.
    `defaults` are the columns of progress rows until the source's own rows give them. With `follow` the end of the
    files is not final; else the rows that the parser holds back are emitted there. `siblings` are the other logs of
    its broker.
    """

    def __init__(
        self,
        source: Source,
        make_parser: Callable[[], SourceParser],
        told: Told,
        *,
        only: Sequence[Older] | None = None,
        defaults: Mapping[str, Any] | None = None,
        settings: BrokerSettings | None = None,
        state: Mapping[str, Any] | None = None,
        follow: bool = False,
        chunk: int = CHUNK,
        open_files: OpenFiles | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.source, self.settings, self.follow = source, settings, follow
        self.siblings: list[Tailer] = []
        self.told_beside: list[tuple[str, int | None, Spans]] = []
        """Names of other logs of its broker, with the times of which earlier calls told."""
        self.is_new = not state and only is None
        """Whether nothing of it was told by earlier calls."""
        self.messages: list[str] = []
        self._finished = False
        self.limit, self._make_parser, self._open_files = chunk, make_parser, open_files
        self.time = SourceTime({}, dict(defaults or {}))
        self._heartbeat, self._flushed = Heartbeat(), False
        self._lost_since: float | None = None
        self.ended_us = 0
        """The time (us) of the last row of the incarnation before; `has_rows`: whether this one has any."""
        self.missing = MissingLines(state.get("unread", ()) if state else ())
        state = dict(state or {})
        stored = ReadPosition.from_json(state["place"]) if state.get("place") else None
        self.lines: Stretch = state.get("lines") or Stretch()
        if "place" in state:
            self.lines = self.lines.until(stored.count if stored else 0)
        told.stretches.append(self.lines)
        retry_s = RETRY_S if follow else 0.0
        self.reader = SeriesReader(source.series, told, self.lines, stored, only=only, retry_s=retry_s, stop=stop)
        self._start(state)
        self.report_before = deepcopy(self.parser.report)
        if only is None:
            self.missing.add_unread(source.unread)
        if self.is_new and source.repeats:
            self.missing.add_lost(f"{source.repeats} has lines of this log, they are told again")
        if self.numbering.epoch and not stored:
            self.missing.add_lost("the stored position of this log was damaged")

    def _start(self, state: dict[str, Any]) -> None:
        self.parser = self._make_parser()
        if "parser" in state:
            self.parser, changes = self.parser.continue_from(b64decode(state["parser"]))
            self.messages.extend(changes)
        self.numbering = Numbering(**state.get("numbers", {}))
        self.has_rows = self.numbering.following > 0  # what is missing stands before the first one
        self.time = SourceTime(state, self.time.defaults)
        self._settings_digest: str | None = state.get("settings")
        self._chunks = Chunks(state.get("skip", 0))
        self.grades = LineGrades(self.source.source_id, state)

    def look_into(self, source: Source) -> None:
        """Read the files of this source, which is the same one with more or fewer folders."""
        self.reader.series = source.series
        self.source = replace(self.source, series=source.series)
        self.missing.add_unread(source.unread)

    def as_json(self) -> dict[str, Any]:
        """The state after the last row taken, as a JSON value."""
        first = self._chunks.first
        read_position = first.read_position if first else self.reader.read_position
        parser = first.parser if first else self.parser.snapshot()
        return {
            "place": read_position.as_json() if read_position else None,
            "lines": self.lines,
            "parser": b64encode(parser).decode(),
            "skip": self._chunks.skip,
            "numbers": self.numbering.as_json(),
            **self.time.as_json(),
            "settings": self._settings_digest,
            **self.grades.as_json(),
            "unread": self.missing.unread,
        }

    @property
    def max_ts(self) -> int:
        """The greatest time (us) of the rows taken, 0 before the first one."""
        return self.time.max_ts

    @property
    def drained(self) -> bool:
        """Whether every row read was taken."""
        return self._chunks.first is None

    @property
    def rows_ahead(self) -> pa.Table:
        """Rows that were read and are not taken yet."""
        return self._chunks.rows()

    @property
    def finished(self) -> bool:
        """Whether all there is was read, and nothing more is to come."""
        return self._finished and self.reader.at_end

    @property
    def low_watermark(self) -> int:
        """The time (us) up to which all rows are read; unbounded at the end of the files."""
        return UNBOUNDED if self.reader.waits else max(self.parser.low_watermark, self.max_ts)

    def pull(self) -> int:
        """Read and parse the next piece, to be called once all rows are taken; returns its number of bytes."""
        read_position, before, waited = self.reader.read_position, self.parser.snapshot(), self.reader.at_end
        try:
            data = self.reader.read(self.limit)
            self._lost_since = None
            if self._open_files is not None:
                self._open_files.use(self.reader)
        except PositionLost as lost:
            return self._lost(str(lost))
        unread = self.reader.take_unread()
        self.messages.extend(f"{reason}, left for later" for reason in unread)
        self.missing.add_unread(unread)
        if why := self.reader.missing():
            self.missing.add_lost(why)
        if data:
            self._finished = False
            rows = self._parse(data)
            self._heartbeat.on_lines(rows["ts"][0].value if waited and rows.num_rows else None)
            self._append_chunk(rows, read_position, before)
        elif not self.follow and not self._finished and self.reader.at_end:
            self._finish()
        elif self.missing.notes and self.max_ts:
            self._flush()
        return len(data)

    def _parse(self, data: bytes) -> pa.Table:
        self._flushed = False
        held = self.parser.flush() if self.missing.notes else EVENTS.empty_table()
        self.has_rows |= held.num_rows > 0
        noted = self.take_notes() if self.has_rows else []
        rows = self.parser.feed(data)
        if self.is_new and rows.num_rows and not self.has_rows:
            note_hole_before(self, rows)
        first = self.take_notes(rows) if rows.num_rows else []
        self.has_rows |= rows.num_rows > 0
        self.messages.extend(self.parser.take_messages())
        return pa.concat_tables([held, *noted, *first, rows])

    def take_notes(self, before: pa.Table | None = None) -> list[pa.Table]:
        """Rows on missing lines, each once; `before`: the rows that follow them, if these were not returned yet."""
        return [self.parser.note(kind, detail, before) for kind, detail in self.missing.take()]

    def _lost(self, why: str) -> int:
        """Wait a while for a rotation to be completed, then treat the files as another log."""
        self._lost_since = self._lost_since or monotonic()
        if self.follow and monotonic() - self._lost_since < PATIENCE_S:
            self.reader.at_end = self.reader.waits = True
            return 0
        if not self._flushed:  # what was read before is told first
            self._flush()
            return 0
        self._start_new_epoch(why)
        return self.pull()

    def _start_new_epoch(self, why: str) -> None:
        """Start a new incarnation of the source: its next lines do not follow those told last."""
        epoch, report = self.numbering.epoch + 1, self.parser.report
        self.ended_us, self._flushed = self.max_ts, False
        self.messages.append(f"{self.source.source_id}: not the files read before, restarted as source_epoch {epoch}")
        self._start({"numbers": {"epoch": epoch}})
        self.parser.report = report
        self.reader.forget_end()
        self.missing.add_lost(why)

    def _finish(self) -> None:
        """Nothing more will come: decide what is open, but leave a line that a broker may still be writing."""
        if self.reader.torn:
            self.messages.append(f"{self.source.source_id}: torn last line ({self.reader.torn} bytes), left out")
        self._flush()
        self._finished = True

    def _flush(self) -> None:
        """Decide what the parser holds back for lines that might follow."""
        read_position, before = self.reader.read_position, self.parser.snapshot()
        rows = self.parser.flush()
        if rows.num_rows and not self.has_rows:
            rows = pa.concat_tables([*self.take_notes(rows), rows])
        elif self.parser.low_watermark or rows.num_rows:
            rows = pa.concat_tables([rows, *self.take_notes()])
        self.has_rows |= rows.num_rows > 0
        self._append_chunk(rows, read_position, before, whole=True)
        self.messages.extend(self.parser.take_messages())
        self._flushed = True

    def _append_chunk(
        self, rows: pa.Table, read_position: ReadPosition | None, before: bytes, *, whole: bool = False
    ) -> None:
        self.grades.observe(rows, self.parser.patterns)
        self._chunks.append(rows, read_position, before, self.max_ts, whole=whole)

    def take(self, horizon: int) -> list[pa.Table]:
        """Rows, in order, up to `horizon` (us): those before the first row past it."""
        taken: list[pa.Table] = []
        while chunk := self._chunks.first:
            end = chunk.end(horizon)
            taken.extend(self._emit(chunk, end))
            if end < chunk.rows.num_rows:
                horizon = min(horizon, earliest(chunk.rows.slice(chunk.taken), self.max_ts))
                return taken + self.time.quiet_rows(horizon, self.parser.shown)
            self._chunks.drop_first()
        return taken

    def _emit(self, chunk: Chunk, end: int) -> list[pa.Table]:
        rows = chunk.rows.slice(chunk.taken, end - chunk.taken)
        if not rows.num_rows:
            return []
        between = self.time.interleave(rows, self.parser.shown)
        kept, messages = self.grades.own_rows(between, [(one.grades, one.rows_ahead) for one in self.siblings])
        self.messages.extend(messages)
        first = self._settings_events(rows["ts"][0].value)
        self.time.advance(rows, int(chunk.running[end - 1]))
        chunk.taken = end
        return [*first, kept] if kept.num_rows else first

    def _settings_events(self, ts: int) -> list[pa.Table]:
        """The broker's settings as rows, at the source's first row and whenever they have changed."""
        if self.settings is None or self.settings.digest == self._settings_digest:
            return []
        self._settings_digest = self.settings.digest
        return [self.settings.events(max(ts, self.max_ts))]

    def progress_rows(self, ts: int = 0) -> list[pa.Table]:
        """Progress rows up to `ts` (us), or to the low watermark; none if that is not later than the last."""
        return self.time.rows_up_to(max(ts, self.parser.low_watermark), self.parser.shown)

    def heartbeat_rows(self, allowed_us: int) -> list[pa.Table]:
        """Rows of a source at the end of its live log that no event brings about.

        While it is silent: those that its parser holds back, and a progress row, at the present time where lines arrive
        within `allowed_us` of being written. While its lines are no events: progress rows up to them.
        """
        if not self.reader.at_end or self.reader.blocked or self.parser.report.tells_nothing:
            return []
        if not self._heartbeat.silent:
            quiet, shown = self.parser.low_watermark, self.parser.shown
            return self.time.quiet_rows(quiet, shown) if self.max_ts else self.progress_rows()
        if not self._flushed:
            self._flush()
        until = self._heartbeat.quiet_until(allowed_us)
        self.messages.extend(f"{self.source.source_id}: {message}" for message in self._heartbeat.take_messages())
        return self.take(UNBOUNDED) + self.progress_rows(until)
