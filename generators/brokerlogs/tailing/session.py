"""The sources of one call: added one by one, read in rounds, summarised."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from generators.brokerlogs.discovery.sources import Discovery, Source
from generators.brokerlogs.events.clock_offsets import clock_offsets_of
from generators.brokerlogs.messages.controller_state import METADATA_LOG
from generators.brokerlogs.parsing.parser import SourceParser
from generators.brokerlogs.tailing.broker_settings import BrokerSettings, settings_by_source
from generators.brokerlogs.tailing.log_ends import common_end, unread_rows
from generators.brokerlogs.tailing.open_files import OpenFiles
from generators.brokerlogs.tailing.read_position import Older
from generators.brokerlogs.tailing.rounds import Round, done, step
from generators.brokerlogs.tailing.summary import IngestSummary, SourceSummary, count_broken, count_lines, count_rows
from generators.brokerlogs.tailing.tailer import CHUNK, Tailer
from generators.brokerlogs.tailing.told_lines import Told
from generators.brokerlogs.tailing.windows import Spans, owner
from schemas.replication_events import OLDER, writer

if TYPE_CHECKING:
    from pipelines.lake.bronze import Layout

ROUND_BYTES = 64 << 20
LEAST_CHUNK = 256 << 10
"""Sources share what is read ahead, but no piece is shorter: the state before each piece is kept with it."""
PERIOD_S = 1.0

States = Mapping[str, Mapping[str, Any]]
"""By source id what `Tailer.as_json` returned at the last commit."""
Compared = Mapping[str, tuple[int | None, Spans]]
"""The broker of each source, and the times when it told something."""


@dataclass(frozen=True)
class ReadOptions:
    """The options of reading broker logs."""

    pattern: str | None = None
    """log4j's PatternLayout of lines whose layout is not found from themselves."""
    timezone: str = "UTC"
    """Of times in the stock pattern, which prints none."""
    internal_topics: bool = True
    """Whether events of topics that begin with `__` are wanted."""
    clock_offsets: Mapping[str, int] = field(default_factory=dict)
    """Milliseconds by which clocks are ahead, by broker id or pattern of a source id (see events.clock_offsets)."""
    grace_ms: int = 10_000
    """No commit is ahead of a source that is being followed by more than half of this."""
    coalesce_ms: int = 0
    """Unchanged fetches within this become one row (see tailing.coalesce); 0 keeps all."""
    source: str | None = None
    """Stands for broker or path in the names of sources."""
    broker: int | None = None
    """The broker of all logs that are given, where their lines are not to say it."""
    layout: Layout = "order"
    """How the rows of a commit lie in its files."""
    printed_at: datetime | None = None
    """When Kafka's tools printed what is given of them, where that does not say it itself."""


@dataclass(frozen=True)
class TailerFactory:
    """Makes the tailers of one cluster's logs."""

    cluster: str
    options: ReadOptions = ReadOptions()
    follow: bool = False
    stop: threading.Event = field(default_factory=threading.Event)
    open_files: OpenFiles = field(default_factory=OpenFiles)

    def tailers(self, found: Discovery, new: Sequence[Source], states: States, compared: Compared) -> list[Tailer]:
        """Tailers of those sources of `found` that are `new`, each from its state; for `compared` see Checkpoints."""
        settings = settings_by_source(found.sources, self.cluster)
        tailers = []
        for source in new:
            joined = [state["lines"] for state in states.values() if state.get("log") == source.source_id]
            told = Told(joined)
            first = self._tailer(source, told, states.get(source.source_id), settings.get(source.source_id))
            tailers.append(first)
            first.told_beside = [
                (name, *told_by)
                for name, told_by in compared.items()
                if owner(name) == owner(source.source_id) and name not in states
            ]
            older, readers = first.reader.older, first.reader.older_readers
            while (name := older_id(source, len(readers) + 1)) in states:
                older.extend([[]] if len(older) == len(readers) else ())  # its position was damaged
                only = older[len(readers)]
                tailers.append(
                    self._tailer(replace(source, source_id=name), told, states[name], first.settings, only=only)
                )
                readers.append(tailers[-1].reader)
        return tailers

    def older_tailers(self, tailer: Tailer) -> list[Tailer]:
        """Tailers of lines that `tailer` came upon, and that lie before lines that were told."""
        reader, found = tailer.reader, []
        for only in reader.older[len(reader.older_readers) :]:
            source = replace(tailer.source, source_id=older_id(tailer.source, len(reader.older_readers) + 1))
            found.append(self._tailer(source, reader.told, settings=tailer.settings, only=only))
            reader.older_readers.append(found[-1].reader)
            if any(stretch.first for stretch in reader.told.stretches):
                found[-1].missing.add_lost("more were told than are known, these may be among them")
        return found

    def _tailer(
        self,
        source: Source,
        told: Told,
        state: Mapping[str, Any] | None = None,
        settings: BrokerSettings | None = None,
        only: Sequence[Older] | None = None,
    ) -> Tailer:
        return Tailer(
            source,
            partial(self._parser, source),
            told,
            only=only,
            defaults=self._defaults(source),
            settings=settings and replace(settings, source_id=source.source_id),
            state=state,
            follow=self.follow,
            open_files=self.open_files,
            stop=self.stop.is_set,
        )

    def _parser(self, source: Source) -> SourceParser:
        return SourceParser(
            self.cluster,
            source.source_id,
            broker_id=source.broker_id,
            timezone=self.options.timezone,
            layout=self.options.pattern,
            internal_topics=self.options.internal_topics,
            clock_offsets=None
            if source.broker_id == METADATA_LOG
            else clock_offsets_of(source.source_id, self.options.clock_offsets),
        )

    def _defaults(self, source: Source) -> dict[str, Any]:
        """Columns of every row of a source, where its broker is known before its first row."""
        same = {"cluster": self.cluster, "source_id": source.source_id, "broker_id": source.broker_id, "level": 0}
        return same if source.broker_id is not None else {}


class IngestSession:
    """The sources being read, and the messages of the summary."""

    def __init__(self, factory: TailerFactory) -> None:
        self.factory, self.cluster = factory, factory.cluster
        self.tailers: list[Tailer] = []
        self.messages: dict[str, None] = {}
        self.bytes = 0
        self._began = monotonic()
        self._sources: dict[str, SourceSummary] = {}
        self._broken: Counter[str] = Counter()

    def add_messages(self, messages: Sequence[str]) -> None:
        """Add messages to the summary, each once."""
        self.messages.update(dict.fromkeys(messages))

    def add_tailers(self, tailers: Sequence[Tailer]) -> None:
        """Read these, too, from now on."""
        if not tailers:
            return
        self.tailers.extend(tailers)
        limit = min(CHUNK, max(LEAST_CHUNK, ROUND_BYTES // len(self.tailers)))
        families = defaultdict[str, list[tuple[str, Tailer]]](list)
        for tailer in self.tailers:
            families[owner(own := writer(tailer.source.source_id))].append((own, tailer))
        for family in families.values():
            for own, tailer in family:
                tailer.limit, tailer.siblings = limit, [one for name, one in family if name != own]
                tailer.grades.begin_beside([one.grades for one in tailer.siblings])
        self._sources |= {tailer.source.source_id: SourceSummary(tailer.source.source_id) for tailer in tailers}

    def is_new(self, source: Source) -> bool:
        """Whether a source is not being read; of one that is, the files are looked for where they are now."""
        mine = [tailer for tailer in self.tailers if writer(tailer.source.source_id) == source.source_id]
        for tailer in mine:
            tailer.look_into(source)
        return not mine

    def rounds(self, stop: Callable[[], bool] = lambda: False) -> Iterator[Round]:
        """Rounds until all there is was read, or `stop` returns True; a round in which much was read may have no
        rows. None is longer than a second where files are followed: a busy log may grow as fast as it is read."""
        ended = False
        while not ended:
            current, began = Round(), monotonic()
            while not ended and not self._is_full(current, monotonic() - began):
                step(self.tailers, current, stop, self._add_older)
                ended = done(self.tailers) or stop()
            self.bytes += current.bytes
            if ended and not stop():
                self._add_unread(current)
                self._add_common_ends(current)
            if current.rows or current.bytes:
                yield current

    def _add_older(self) -> None:
        """Read older lines that were come upon, too."""
        for tailer in [*self.tailers]:
            self.add_tailers(self.factory.older_tailers(tailer))

    def _is_full(self, current: Round, seconds: float) -> bool:
        """Whether a round is long enough, or has as many bytes as are committed at once."""
        is_late = seconds >= PERIOD_S and (self.factory.follow or not current.rows)
        return is_late or (bool(current.rows) and current.bytes >= ROUND_BYTES)

    def _add_unread(self, current: Round) -> None:
        """Add what was not read of sources that have no rows, at the latest time that is known."""
        ts = max((tailer.max_ts for tailer in self.tailers), default=0)
        for tailer in self.tailers:
            current.add(tailer, unread_rows(tailer, ts or int(tailer.source.series.written() * 1e6)))

    def _add_common_ends(self, current: Round) -> None:
        """Add that logs which were read to their ends have told all up to the end of those beside them."""
        for tailer in self.tailers:
            if writer(tailer.source.source_id) == tailer.source.source_id:
                current.add(tailer, common_end(tailer))

    def following(
        self, stop: threading.Event, rediscover: Callable[[], None], grace_ms: int, goes_on: Callable[[], bool]
    ) -> Iterator[Round]:
        """Rounds as the files grow, at least one a second while there are rows, until `stop` is set, or to the end of
        what there is once nothing `goes_on`.

        `rediscover` is called between rounds; a heartbeat is no further ahead than half of `grace_ms`.
        """
        while not stop.is_set():
            if not goes_on():
                for tailer in self.tailers:
                    tailer.follow = False
                yield from self.rounds(stop.is_set)
                return
            began = monotonic()
            for current in self.rounds(stop.is_set):
                yield current
                if monotonic() - began >= PERIOD_S:
                    break
            heartbeats = Round()
            self._add_unread(heartbeats)
            for tailer in self.tailers:
                heartbeats.add(tailer, tailer.heartbeat_rows(grace_ms * 1000 // 2))
            if heartbeats.rows:
                yield heartbeats
            rediscover()
            stop.wait(max(0.0, began + PERIOD_S - monotonic()))

    def states(self, current: Round) -> dict[str, dict[str, Any]]:
        """The state of each source of a round after its rows, and of those whose older lines they are."""
        names = {*current.rows, *map(writer, current.rows)}
        named = {tailer.source.source_id: tailer for tailer in self.tailers}
        return {name: tailer.as_json() for name, tailer in named.items() if name in names}

    def committed(self, current: Round, events: pa.Table) -> None:
        """Count the rows of a round that was committed as `events`."""
        count_broken(self._broken, events)
        for source_id, rows in current.written.items():
            count_rows(self._sources[source_id], rows)

    def progress(self) -> str:
        """The progress of reading, in one line."""
        return f"{self.summary().lines()[0]}, {self.bytes / 1e6:,.0f} MB"

    def summary(self) -> IngestSummary:
        """A summary of the work so far."""
        for tailer in self.tailers:
            count_lines(self._sources[tailer.source.source_id], tailer)
            self.add_messages(tailer.messages)
            tailer.messages.clear()
        sources = list(self._sources.values())
        return IngestSummary(
            self.cluster,
            sources,
            list(self.messages),
            monotonic() - self._began,
            self._broken,
        )


def older_id(source: Source, number: int) -> str:
    """The source of lines that came after those that follow them."""
    return f"{source.source_id}{OLDER}{number}"
