"""The sources of one call being read together: taken up one by one, given out in rounds, summed up in words."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa

from generators.brokerlogs.discovery.log_series import Discovery, Source
from generators.brokerlogs.events.clock_offsets import clock_of
from generators.brokerlogs.messages.controller_state import METADATA_LOG
from generators.brokerlogs.parsing.parser import SourceParser
from generators.brokerlogs.tailing.rounds import Round, done, step
from generators.brokerlogs.tailing.summary import IngestSummary, SourceSummary, count_broken, count_lines, count_rows
from generators.brokerlogs.tailing.tailer import CHUNK, Settings, Tail

ROUND_BYTES = 64 << 20
PERIOD_S = 1.0

States = Mapping[str, Mapping[str, Any]]
"""By source id, what `Tail.as_json` gave when it was read last."""


@dataclass(frozen=True)
class Reader:
    """How the logs of one cluster are read; `timezone` is that of times without one."""

    cluster: str
    timezone: str = "UTC"
    internal_topics: bool = True
    follow: bool = False
    clock_offsets: Mapping[str, int] = field(default_factory=dict)
    stop: threading.Event = field(default_factory=threading.Event)

    def tails(self, found: Discovery, new: Sequence[Source], states: States) -> list[Tail]:
        """Those sources of `found` that are `new`, each from where its state says."""
        settings = _settings(found.sources, self.cluster)
        return [
            Tail(
                source,
                partial(self._parser, source),
                like=self._like(source),
                settings=settings.get(source.source_id),
                state=states.get(source.source_id),
                follow=self.follow,
                chunk=CHUNK,
                stop=self.stop.is_set,
            )
            for source in new
        ]

    def _parser(self, source: Source) -> SourceParser:
        return SourceParser(
            self.cluster,
            source.source_id,
            broker_id=source.broker_id,
            timezone=self.timezone,
            internal_topics=self.internal_topics,
            clock=None if source.broker_id == METADATA_LOG else clock_of(source.source_id, self.clock_offsets),
        )

    def _like(self, source: Source) -> dict[str, Any]:
        """What every row of a source has, where its broker is known before its first."""
        same = {"cluster": self.cluster, "source_id": source.source_id, "broker_id": source.broker_id, "level": 0}
        return same if source.broker_id is not None else {}


class Reading:
    """What is being read, and the words of the summary."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.tails: list[Tail] = []
        self.words: dict[str, None] = {}
        self.commits = self.bytes = 0
        self._began = monotonic()
        self._sources: dict[str, SourceSummary] = {}
        self._broken: Counter[str] = Counter()

    def say(self, words: Sequence[str]) -> None:
        """Words for the summary, each told once."""
        self.words.update(dict.fromkeys(words))

    def take_up(self, tails: Sequence[Tail]) -> None:
        """Read these too from now on."""
        self.tails.extend(tails)
        for tail in self.tails:
            folder = tail.source.series.folder
            tail.beside = [other for other in self.tails if other is not tail and other.source.series.folder == folder]
        self._sources |= {tail.source.source_id: SourceSummary(tail.source.source_id) for tail in tails}

    def lacks(self, source: Source) -> bool:
        """Whether its live log is not being read."""
        mine = source.series.folder, source.series.live
        return all((tail.source.series.folder, tail.source.series.live) != mine for tail in self.tails)

    def rounds(self, stop: Callable[[], bool] = lambda: False) -> Iterator[Round]:
        """Rounds until everything there is was given out, or `stop` says yes; one that read much may have no rows."""
        ended = False
        while not ended:
            going, began = Round(), monotonic()
            while not ended and (going.bytes < ROUND_BYTES if going.rows else monotonic() - began < PERIOD_S):
                step(self.tails, going, stop)
                ended = done(self.tails) or stop()
            self.bytes += going.bytes
            if going.rows or going.bytes:
                yield going

    def following(self, stop: threading.Event, grace_ms: int, look_round: Callable[[], None]) -> Iterator[Round]:
        """Rounds as the files grow, one a second at least while there is anything to say, until `stop`."""
        while not stop.is_set():
            began = monotonic()
            yield from self.rounds(stop.is_set)
            beats = Round()
            for tail in self.tails:
                beats.add(tail, tail.beat(grace_ms * 1000 // 2))
            if beats.rows:
                yield beats
            look_round()
            stop.wait(max(0.0, began + PERIOD_S - monotonic()))

    def states(self, going: Round) -> dict[str, dict[str, Any]]:
        """Behind the rows of a round: where each of its sources is."""
        return {tail.source.source_id: tail.as_json() for tail in self.tails if tail.source.source_id in going.rows}

    def committed(self, going: Round, events: pa.Table) -> None:
        """Count the rows of a round that is in the lake as `events`."""
        self.commits += 1
        count_broken(self._broken, events)
        for source_id, rows in going.written.items():
            count_rows(self._sources[source_id], rows)

    def progress(self) -> str:
        """How far it has come, in one line."""
        return f"{self.summary().lines()[0]}, {self.bytes / 1e6:,.0f} MB"

    def summary(self) -> IngestSummary:
        """What was done so far."""
        for tail in self.tails:
            count_lines(self._sources[tail.source.source_id], tail)
            self.say(tail.words)
            tail.words.clear()
        sources = list(self._sources.values())
        return IngestSummary(
            self.cluster, sources, list(self.words), monotonic() - self._began, self.commits, self._broken
        )


def _settings(sources: Sequence[Source], cluster: str) -> dict[str, Settings]:
    """The source of each broker that tells the broker's settings: its replication log, else its first."""
    by_file: dict[Path, Source] = {}
    for source in sorted(sources, key=lambda one: "replication" not in one.series.live):
        if source.properties is not None:
            by_file.setdefault(source.properties, source)
    return {source.source_id: _settings_of(path, cluster, source.source_id) for path, source in by_file.items()}


def _settings_of(path: Path, cluster: str, source_id: str) -> Settings:
    from generators.brokerlogs.discovery.server_properties import server_properties_events

    text = path.read_text(errors="replace")
    events = partial(server_properties_events, text, cluster, source_id)
    return Settings(hashlib.sha256(text.encode()).hexdigest(), events)
