"""One source being read: its lines parsed ahead, its rows given out up to a horizon, its state at any point.

Rows get their numbers in the round in which they go out (`merge`): `numbering` is for it to count on.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any

import numpy as np
import pyarrow as pa

from generators.brokerlogs.discovery.log_series import Source
from generators.brokerlogs.events.event_rows import EVENTS
from generators.brokerlogs.parsing.parser import SourceParser
from generators.brokerlogs.tailing.chosen_files import Voice
from generators.brokerlogs.tailing.heartbeat import Heartbeat
from generators.brokerlogs.tailing.progress import earliest, interleave, progress, quiet_seconds, running_time
from generators.brokerlogs.tailing.reader import Place, PlaceLost, SeriesReader, first_not_done
from generators.brokerlogs.tailing.sequence_numbers import Numbering

CHUNK = 8 << 20
PATIENCE_S = 5.0
UNBOUNDED = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Settings:
    """A broker's settings file: what it is told apart by, and its events at a time (us)."""

    digest: str
    events: Callable[[int], pa.Table]


@dataclass
class _Chunk:
    """Rows of one piece of lines, and where to begin to get them once more; a `whole` one is never cut."""

    rows: pa.Table
    running: np.ndarray
    place: Place | None
    parser: bytes
    taken: int = 0
    whole: bool = False


class Tail:
    """A source read ahead by one chunk at most.

    `state` is what `as_json` gave when the rows before it were made lasting: reading goes on right behind them.
    `like` gives the columns of progress rows until the source's own rows do. With `follow` the end of the files is
    no end; else what the parser holds back is told there. `beside` are the other files of its folder.
    """

    def __init__(
        self,
        source: Source,
        make_parser: Callable[[], SourceParser],
        *,
        like: Mapping[str, Any] | None = None,
        settings: Settings | None = None,
        state: Mapping[str, Any] | None = None,
        follow: bool = False,
        chunk: int = CHUNK,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.source, self.settings, self.follow = source, settings, follow
        self.beside: list[Tail] = []
        self.words: list[str] = []
        self.finished = False
        self._make_parser, self._limit, self._stop = make_parser, chunk, stop
        self._like: dict[str, Any] = dict(like or {})
        self._heartbeat = Heartbeat()
        self._flushed = False
        self._lost_since: float | None = None
        self._chunks: deque[_Chunk] = deque()
        self._start(dict(state or {}))
        self.report_before = deepcopy(self.parser.report)

    def _start(self, state: dict[str, Any]) -> None:
        self.parser = self._make_parser()
        if "parser" in state:
            clock, self.parser = self.parser.clock, self.parser.restore(b64decode(state["parser"]))
            self.parser.clock = clock
        place = state.get("place")
        self.reader = SeriesReader(self.source.series, Place.from_json(place) if place else None, stop=self._stop)
        self.numbering = Numbering(**state.get("numbers", {}))
        self.high: int = state.get("high", 0)
        self.progressed: int = state.get("progressed", 0)
        self._like = state.get("like", self._like)
        self._settings_told: str | None = state.get("settings")
        self._skip: int = state.get("skip", 0)
        self.voice = Voice(self.source.source_id, state.get("voice", {}))

    def as_json(self) -> dict[str, Any]:
        """The state behind the last row given out."""
        first = self._chunks[0] if self._chunks else None
        place = first.place if first else self.reader.place
        parser = first.parser if first else self.parser.snapshot()
        return {
            "place": asdict(place) if place else None,
            "parser": b64encode(parser).decode(),
            "skip": first.taken if first else self._skip,
            "numbers": self.numbering.as_json(),
            "high": self.high,
            "progressed": self.progressed,
            "like": self._like,
            "settings": self._settings_told,
            "voice": self.voice.steps,
        }

    @property
    def drained(self) -> bool:
        """Whether every row read was given out."""
        return not self._chunks

    @property
    def told(self) -> int:
        """The time (us) before which nothing is still to be read; unbounded at the end of the files."""
        return UNBOUNDED if self.reader.at_end else max(self.parser.told, self.high)

    def pull(self) -> int:
        """Read and parse the next piece, once everything is given out; the number of bytes it had."""
        place, before, waited = self.reader.place, self.parser.snapshot(), self.reader.at_end
        try:
            data = self.reader.read(self._limit)
            self._lost_since = None
        except PlaceLost:
            return self._lost()
        self.words.extend(self.reader.damage())
        if data:
            rows = self._parse(data)
            self._heartbeat.heard(rows["ts"][0].value if waited and rows.num_rows else None)
            self._keep(rows, place, before)
        elif not self.follow and not self.finished:
            self._finish()
        return len(data)

    def _parse(self, data: bytes) -> pa.Table:
        self._flushed = False
        missing = self.reader.missing()
        lost = [self.parser.lost(f"an unknown number of lines: {missing}")] if missing else []
        rows = pa.concat_tables([*lost, self.parser.feed(data)])
        self.words.extend(self.parser.words())
        return rows

    def _lost(self) -> int:
        """Wait a while for a rotation in the making, then take the files for another log."""
        self._lost_since = self._lost_since or monotonic()
        if self.follow and monotonic() - self._lost_since < PATIENCE_S:
            self.reader.at_end = True
            return 0
        self._begin_anew()
        return self.pull()

    def _begin_anew(self) -> None:
        """A new incarnation of the source: the files are others than those read before."""
        lost, epoch, report = self.reader.place, self.numbering.epoch + 1, self.parser.report
        self.words.append(f"{self.source.source_id}: not the files read before, begun anew as source_epoch {epoch}")
        self._start({"numbers": {"epoch": epoch}})
        self.parser.report = report
        fresh = first_not_done(self.source.series, lost)
        self.reader = SeriesReader(fresh, done=lost.done if lost else (), stop=self._stop)

    def _finish(self) -> None:
        """Nothing more will come: end what is open, but leave a line that a broker may still be writing."""
        if self.reader.torn:
            self.words.append(f"{self.source.source_id}: torn last line ({self.reader.torn} bytes), left out")
        self._flush()
        self.finished = True

    def _flush(self) -> None:
        """What the parser holds back for lines that might follow."""
        place, before = self.reader.place, self.parser.snapshot()
        self._keep(self.parser.flush(), place, before, whole=True)
        self.words.extend(self.parser.words())
        self._flushed = True

    def _keep(self, rows: pa.Table, place: Place | None, before: bytes, *, whole: bool = False) -> None:
        self.voice.listen(rows, self.parser.patterns)
        again = min(self._skip, rows.num_rows)
        self._skip -= again
        if rows.num_rows > again:
            high = self._chunks[-1].running[-1] if self._chunks else self.high
            running = running_time(rows.slice(again), high)
            running = np.concatenate([np.full(again, high, np.int64), running])
            self._chunks.append(_Chunk(rows, running, place, before, again, whole))

    def take(self, horizon: int) -> list[pa.Table]:
        """Rows, in order, up to `horizon` (us): those before the first row that lies beyond it."""
        taken: list[pa.Table] = []
        while self._chunks:
            chunk = self._chunks[0]
            end = int(np.searchsorted(chunk.running, horizon, side="right"))
            if chunk.whole and end < chunk.rows.num_rows:
                end = chunk.taken
            taken.extend(self._give(chunk, end))
            if end < chunk.rows.num_rows:
                return taken + self._pass_time(chunk, horizon)
            self._chunks.popleft()
        return taken

    def _give(self, chunk: _Chunk, end: int) -> list[pa.Table]:
        rows = chunk.rows.slice(chunk.taken, end - chunk.taken)
        if not rows.num_rows:
            return []
        self._remember(rows)
        told, words = self.voice.own(interleave(rows, self.high, self._like), [tail.voice for tail in self.beside])
        self.words.extend(words)
        first = self._settings_events(rows["ts"][0].value)
        self.high, self.progressed, chunk.taken = max(self.high, int(chunk.running[end - 1])), 0, end
        return [*first, told] if told.num_rows else first

    def _pass_time(self, chunk: _Chunk, horizon: int) -> list[pa.Table]:
        """Progress rows for the quiet seconds up to `horizon`, before the next row."""
        until = min(horizon, earliest(chunk.rows.slice(chunk.taken), self.high)) if self.high else 0
        stamps = quiet_seconds(self.high, until)
        return self._progress(stamps) if len(stamps) > 1 else []

    def _progress(self, stamps: np.ndarray) -> list[pa.Table]:
        stamps = stamps[stamps > self.progressed]
        if not len(stamps) or not self._like:
            return []
        self.high = self.progressed = int(stamps[-1])
        return [progress(stamps, self._like, EVENTS)]

    def _remember(self, rows: pa.Table) -> None:
        names = ("cluster", "source_id", "broker_id", "level")
        self._like = {name: rows[name][rows.num_rows - 1].as_py() for name in names}

    def _settings_events(self, ts: int) -> list[pa.Table]:
        """The broker's settings, told at its first row and whenever they have changed."""
        if self.settings is None or self.settings.digest == self._settings_told:
            return []
        self._settings_told = self.settings.digest
        return [self.settings.events(max(ts, self.high))]

    def tell(self, ts: int = 0) -> list[pa.Table]:
        """Progress rows up to `ts` (us), or to where the source is told by now; none where that is nothing new."""
        ts = max(ts, self.high, self.parser.told)
        return self._progress(np.unique(np.append(quiet_seconds(self.high or ts, ts), ts)))

    def beat(self, allowed_us: int) -> list[pa.Table]:
        """What there is to say of a source that is silent at the end of its live log: what its parser held back, and
        a progress row, at the present time where lines come within `allowed_us` of being written."""
        if not (self.reader.at_end and self._heartbeat.silent):
            return []
        if not self._flushed:
            self._flush()
        told = self._heartbeat.told(allowed_us)
        self.words.extend(f"{self.source.source_id}: {word}" for word in self._heartbeat.words())
        return self.take(UNBOUNDED) + self.tell(told)
