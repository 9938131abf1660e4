"""Kafka's own log files to `bronze/replication_events`: once, or following them as they grow."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa

from generators.brokerlogs.ledger import Ledger
from generators.brokerlogs.merge import Round, done, step
from generators.brokerlogs.parser import SourceParser
from generators.brokerlogs.series import Discovery, Source, discover
from generators.brokerlogs.summary import IngestSummary, SourceSummary, count_lines, count_rows
from generators.brokerlogs.tail import CHUNK, Settings, Tail
from generators.lake import StorageOptions, append_round
from generators.lock import hold
from schemas import replication_events

ROUND_BYTES = 64 << 20
PERIOD_S = 1.0


class NothingToRead(ValueError):
    """None of the paths holds a log that can be read."""

    def __init__(self, paths: Sequence[str | Path], words: Sequence[str]) -> None:
        named = ", ".join(map(str, paths)) or "no path"
        why = "; ".join(words) or "name log files, or folders of them"
        super().__init__(f"no broker log could be read in {named}: {why}")


class Reading:
    """The sources of one call being read together, with the words of the summary."""

    def __init__(self, cluster: str, found: Discovery, tails: list[Tail]) -> None:
        self.cluster, self.tails = cluster, tails
        self.words = list(found.words)
        self.commits = 0
        self._began = monotonic()
        self._sources = {tail.source.source_id: SourceSummary(tail.source.source_id) for tail in tails}

    def rounds(self) -> Iterator[Round]:
        """Rounds of rows until everything there is was given out."""
        while True:
            going = Round()
            while going.bytes < ROUND_BYTES and not (finished := self._step(going)):
                pass
            if going.rows:
                yield going
            if finished:
                return

    def _step(self, going: Round) -> bool:
        step(self.tails, going)
        return done(self.tails)

    def committed(self, going: Round) -> None:
        """Count the rows of a round that is in the lake."""
        self.commits += 1
        for tail in self.tails:
            tables = going.rows.get(tail.source.source_id, [])
            if tables:
                count_rows(self._sources[tail.source.source_id], pa.concat_tables(tables))

    def summary(self) -> IngestSummary:
        """What was done so far."""
        for tail in self.tails:
            count_lines(self._sources[tail.source.source_id], tail)
            self.words.extend(tail.words)
            tail.words.clear()
        problems = list(dict.fromkeys(self.words))
        sources = list(self._sources.values())
        return IngestSummary(self.cluster, sources, problems, monotonic() - self._began, self.commits)


def ingest_logs(
    paths: Sequence[str | Path],
    *,
    cluster: str,
    lake: str,
    follow: bool = False,
    timezone: str = "UTC",
    internal_topics: bool = True,
    grace_ms: int = 10_000,
    on_progress: Callable[[str], None] | None = None,
    stop: threading.Event | None = None,
    storage_options: StorageOptions | None = None,
) -> IngestSummary:
    """Read broker logs into the lake, going on where the last call for the same sources stopped.

    With `follow` it goes on until `stop` is set or the process is told to end. No commit runs ahead of a source
    still to be read by more than half of `grace_ms`. Raises NothingToRead, or RoleHeld when a source is being read.
    """
    found = _discover(paths)
    parser = partial(_parser, cluster, timezone, internal_topics)
    with ExitStack() as held:
        for source in found.sources:
            held.enter_context(hold(lake, f"ingest:{cluster}/{source.source_id}"))
        ledger = Ledger(lake, cluster, storage_options)
        states = ledger.load([source.source_id for source in found.sources])
        reading = Reading(cluster, found, _tails(found, cluster, parser, states, follow))
        commit = partial(_commit, lake, ledger, reading, storage_options)
        for going in _follow(reading, stop or threading.Event(), grace_ms) if follow else reading.rounds():
            commit(going)
            if on_progress:
                on_progress(reading.summary().lines()[0])
            if stop is not None and stop.is_set():
                break
        return _checked(reading.summary(), paths, states)


def read_logs(
    paths: Sequence[str | Path],
    cluster: str,
    *,
    timezone: str = "UTC",
    internal_topics: bool = True,
) -> pa.Table:
    """All events of broker logs as one table in bronze schema, merged by time; no lake is touched."""
    found = _discover(paths)
    parser = partial(_parser, cluster, timezone, internal_topics)
    reading = Reading(cluster, found, _tails(found, cluster, parser))
    tables = [going.table() for going in reading.rounds()]
    return pa.concat_tables(tables) if tables else replication_events.ARROW.empty_table()


def _follow(reading: Reading, stop: threading.Event, grace_ms: int) -> Iterator[Round]:
    """Rounds as the files grow, one a second at least while there is anything to say, until `stop`."""
    while not stop.is_set():
        began = monotonic()
        yield from reading.rounds()
        beats = Round()
        for tail in reading.tails:
            beats.add(tail.source.source_id, tail.beat(grace_ms * 1000 // 2))
        if beats.rows:
            yield beats
        stop.wait(max(0.0, began + PERIOD_S - monotonic()))


def _checked(
    summary: IngestSummary, paths: Sequence[str | Path], states: Mapping[str, Mapping[str, Any]]
) -> IngestSummary:
    if summary.problems and not summary.line_count and not any(states.values()):
        raise NothingToRead(paths, summary.problems)
    return summary


def _commit(lake: str, ledger: Ledger, reading: Reading, storage_options: StorageOptions | None, going: Round) -> None:
    """Places and numbers first, lasting; then the rows, in the one commit that makes both count."""
    states = {tail.source.source_id: tail.as_json() for tail in reading.tails if tail.source.source_id in going.rows}
    versions = ledger.write(states)
    append_round(lake, going.table(), versions, storage_options)
    ledger.settle(list(states))
    reading.committed(going)


def _discover(paths: Sequence[str | Path]) -> Discovery:
    found = discover(paths)
    if not any(source.series.files() for source in found.sources):
        raise NothingToRead(paths, found.words)
    return found


def _tails(
    found: Discovery,
    cluster: str,
    parser: Callable[[Source], SourceParser],
    states: Mapping[str, Mapping[str, Any]] | None = None,
    follow: bool = False,
) -> list[Tail]:
    settings = _settings(found.sources, cluster)
    return [
        Tail(
            source,
            partial(parser, source),
            like=_like(cluster, source),
            settings=settings.get(source.source_id),
            state=(states or {}).get(source.source_id),
            follow=follow,
            chunk=CHUNK,
        )
        for source in found.sources
    ]


def _like(cluster: str, source: Source) -> dict[str, Any]:
    """What every row of a source has, where its broker is known before its first."""
    same = {"cluster": cluster, "source_id": source.source_id, "broker_id": source.broker_id, "level": 0}
    return same if source.broker_id is not None else {}


def _parser(cluster: str, timezone: str, internal_topics: bool, source: Source) -> SourceParser:
    return SourceParser(
        cluster, source.source_id, broker_id=source.broker_id, timezone=timezone, internal_topics=internal_topics
    )


def _settings(sources: Sequence[Source], cluster: str) -> dict[str, Settings]:
    """The source of each broker that tells the broker's settings: its replication log, else its first."""
    by_file: dict[Path, Source] = {}
    for source in sorted(sources, key=lambda one: "replication" not in one.series.live):
        if source.properties is not None:
            by_file.setdefault(source.properties, source)
    return {source.source_id: _settings_of(path, cluster, source.source_id) for path, source in by_file.items()}


def _settings_of(path: Path, cluster: str, source_id: str) -> Settings:
    from generators.brokerlogs.properties import server_properties_events

    text = path.read_text(errors="replace")
    events = partial(server_properties_events, text, cluster, source_id)
    return Settings(hashlib.sha256(text.encode()).hexdigest(), events)
