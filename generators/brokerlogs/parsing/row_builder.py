"""The rows of lines that were read: frequent ones by kernel, the others one at a time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from generators.brokerlogs.events.event_builder import EventBuilder, TopicIds
from generators.brokerlogs.events.source_state import PartitionStates
from generators.brokerlogs.messages.broker_state import Line
from generators.brokerlogs.messages.controller_state import METADATA_LOG
from generators.brokerlogs.messages.lifecycle import LINE_NUMBERS
from generators.brokerlogs.messages.truncations import MOVING_THREAD
from generators.brokerlogs.parsing.rare_lines import PREFIX, RareLines
from generators.brokerlogs.scanning.frequent_events import GroupedLines, Memory, append_frequent
from generators.brokerlogs.scanning.line_record import DUMPED, RARE, TRUNCATING
from schemas.replication_events import as_int


def _head(buf: np.ndarray, message: int) -> bytes:
    """A line up to its message, where that is not too long."""
    before: bytes = buf[max(0, message - 200) : message].tobytes()
    return before[before.rfind(b"\n") + 1 :]


class RareLine(NamedTuple):
    """A line that is read by regular expression, and what was decided of it."""

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


class RowBuilder:
    """Builds the rows of a piece of lines; `source` and what `rare` and `partitions` remember are changed by them."""

    def __init__(
        self,
        grouped: GroupedLines,
        partitions: PartitionStates,
        rare: RareLines,
        loggers: Sequence[str],
        source: np.ndarray,
    ) -> None:
        self._grouped, self._partitions, self._rare = grouped, partitions, rare
        self._loggers, self._source = loggers, source

    def build(self, count: int, before: int, topic_ids: TopicIds) -> EventBuilder:
        """Rows of the first `count` lines: frequent ones by kernel, up to and including each line that is rare.

        `before` is the time (ms) of the line before them.
        """
        decided, decisions = self._grouped.lines[:count], self._grouped.decisions[:count]
        events = EventBuilder(2 * count + 64, self._partitions, topic_ids)
        breaks = (decisions["lost"] != 0) | (decisions["start"] != 0)
        rare = np.flatnonzero((decided["kind"] >= RARE) | breaks)
        opens = breaks[rare] | (decisions["fetch"][rare] >= 0)
        pauses = self._rare.lifecycle.pauses(decided["ts"], before, rare)
        columns = [decided[name][rare] for name in RareLine._fields[:6]] + [
            decisions[name][rare] for name in ("level", "fetch")
        ]
        rare_lines = map(RareLine._make, zip(*(column.tolist() for column in (*columns, pauses)), strict=True))
        start = 0
        for k, by_kernel, line in zip(rare.tolist(), opens.tolist(), rare_lines, strict=True):
            if breaks[k]:
                self._on_break(decisions[k], line.pause)
            if k > start or by_kernel:
                self._append_frequent(start, k + 1, events)
            if line.kind >= RARE:
                self._append_rare(line, events)
            start = k + 1
        self._append_frequent(start, count, events)
        return events

    def _on_break(self, decision: np.void, pause: int) -> None:
        if decision["lost"]:
            self._rare.on_missing_lines()
        if decision["start"]:
            self._rare.on_start_sign(LINE_NUMBERS, pause)

    def _append_frequent(self, start: int, stop: int, events: EventBuilder) -> None:
        events.reserve(4 * (stop - start) + int(self._grouped.lines["count"][start:stop].sum()))
        memory = Memory(self._partitions.state, self._partitions.leos, self._source)
        events.count = append_frequent(self._grouped, start, stop, events.rows, events.count, memory)

    def _append_rare(self, rare_line: RareLine, events: EventBuilder) -> None:
        """Append the rows of a line that the kernel does not read."""
        buf = self._grouped.buf
        text, place = buf[rare_line.message : rare_line.end].tobytes().decode("utf-8", "replace"), rare_line.place
        if rare_line.kind == DUMPED:
            self._cap_level(self._rare.read_dumped(Line(rare_line.ts, 0, METADATA_LOG, -1, text), events))
            return
        match, directory, moves = PREFIX.match(text), None, False
        if match:
            if directory := match["dir"]:
                moves = MOVING_THREAD in _head(buf, rare_line.message)
            self._learn_broker(match, rare_line.ts, events)
            place = self._partitions.place_of(match["log"]) if match["log"] else place
            text = text[match.end() :]
        logger = self._loggers[rare_line.logger]
        if self._rare.is_start(logger, text, rare_line.pause):
            self._source["capped"][0] = 0
        level = 0 if self._source["capped"][0] else rare_line.level
        cut = rare_line.fetch if rare_line.kind == TRUNCATING else -1
        line = Line(rare_line.ts, level, int(self._source["broker"][0]), place, text, cut, directory, moves)
        self._cap_level(self._rare.read(logger, line, events))

    def _learn_broker(self, match: re.Match[str], ts: int, events: EventBuilder) -> None:
        ids = (value for name, value in match.groupdict().items() if name.startswith("b") and value)
        if (broker := as_int(next(ids, ""))) is not None:
            self._source["broker"][0] = broker
            self._rare.on_broker(broker, ts, events)
        if match["epoch"]:
            self._rare.controller.epoch = int(match["epoch"])

    def _cap_level(self, understood: bool) -> None:
        """From a line of evidence in an unknown wording on, the source counts as level 0."""
        if not understood:
            self._source["capped"][0] = 1
