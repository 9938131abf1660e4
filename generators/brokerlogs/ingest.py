"""Kafka's own log files to `bronze/replication_events`: once, or following them as they grow."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

import pyarrow as pa

from generators.brokerlogs.discovery.log_series import Discovery, Source, discover
from generators.brokerlogs.events.clock_offsets import unused
from generators.brokerlogs.tailing.checkpoints import Ledger
from generators.brokerlogs.tailing.coalesce import Runs
from generators.brokerlogs.tailing.rounds import Round
from generators.brokerlogs.tailing.session import Reader, Reading
from generators.brokerlogs.tailing.summary import IngestSummary
from pipelines.lake.bronze import append_round
from pipelines.lake.file_systems import StorageOptions
from pipelines.lake.roles import Held, RoleHeld, hold
from schemas import replication_events

LOOK_ROUND_S = 5.0
"""How often a reader that follows looks for logs that were not there before."""


class NothingToRead(ValueError):
    """None of the paths holds a log that can be read."""

    def __init__(self, paths: Sequence[str | Path], words: Sequence[str]) -> None:
        named = ", ".join(map(str, paths)) or "no path"
        why = "; ".join(words) or "name log files, or folders of them"
        super().__init__(f"no broker log could be read in {named}: {why}")


def ingest_logs(
    paths: Sequence[str | Path],
    *,
    cluster: str,
    lake: str,
    follow: bool = False,
    timezone: str = "UTC",
    internal_topics: bool = True,
    clock_offsets: Mapping[str, int] | None = None,
    grace_ms: int = 10_000,
    coalesce_ms: int = 0,
    on_progress: Callable[[str], None] | None = None,
    stop: threading.Event | None = None,
    storage_options: StorageOptions | None = None,
) -> IngestSummary:
    """Read broker logs into the lake, going on where the last call for the same sources stopped.

    With `follow` it goes on until `stop` is set, and takes up logs that come to be below `paths`. No commit runs
    ahead of a source being read by more than half of `grace_ms`. Unchanged fetches of up to `coalesce_ms` become one
    row (see `coalesce`; 0: all stay). `clock_offsets` (see `clock`) are the milliseconds by which clocks are ahead, by
    broker id or pattern of a source, as the user knows them. Raises NothingToRead, or RoleHeld when a source is being
    read.
    """
    found = _discover(paths)
    stop = stop or threading.Event()
    with ExitStack() as roles:
        reader = Reader(cluster, timezone, internal_topics, follow, clock_offsets or {}, stop)
        ingest = _Ingest(reader, lake, storage_options, roles, Runs(coalesce_ms) if coalesce_ms else None)
        ingest.take_up(found, found.sources)
        reading = ingest.reading
        for going in (
            reading.following(stop, grace_ms, lambda: ingest.look_round(paths))
            if follow
            else reading.rounds(stop.is_set)
        ):
            if going.rows:
                ingest.commit(going)
            if on_progress:
                on_progress(reading.progress())
            if stop.is_set():
                break
        return ingest.checked(paths)


class _Ingest:
    """One call: what it reads, the lake it writes to, and the role of each source, held until the end of `roles`."""

    def __init__(
        self, reader: Reader, lake: str, storage_options: StorageOptions | None, roles: ExitStack, runs: Runs | None
    ) -> None:
        self.reader, self.lake, self.options, self._roles, self._runs = reader, lake, storage_options, roles, runs
        self.reading = Reading(reader.cluster)
        self._ledger = Ledger(lake, reader.cluster, storage_options)
        self._held: dict[str, Held] = {}
        self._known = False
        self._looked = monotonic()

    def take_up(self, found: Discovery, new: Sequence[Source]) -> None:
        """Read these sources of `found` too, each from where it was read to last. Raises RoleHeld."""
        for source in new:
            role = f"ingest:{self.reader.cluster}/{source.source_id}"
            self._held[source.source_id] = self._roles.enter_context(hold(self.lake, role, self.options))
        states = self._ledger.load([source.source_id for source in new])
        self._known = self._known or any(states.values())
        tails = self.reader.tails(found, new, states)
        for tail in tails:
            if tail.settings is not None and self._runs is not None:
                self._runs.heed(tail.settings.events(0))
        self.reading.take_up(tails)
        self.reading.say(found.words)

    def look_round(self, paths: Sequence[str | Path]) -> None:
        """Take up logs that were not there before; one that another process reads is left to it."""
        if monotonic() - self._looked < LOOK_ROUND_S:
            return
        self._looked, found = monotonic(), discover(paths)
        for source in filter(self.reading.lacks, found.sources):
            try:
                self.take_up(found, [source])
            except RoleHeld as held:
                self.reading.say([f"left out: {held}"])

    def commit(self, going: Round) -> None:
        """Places and numbers first, lasting; then the rows, in the one commit that makes both count."""
        for role in self._held.values():
            role.check()
        events = going.table(self._runs)
        versions = self._ledger.write(self.reading.states(going))
        append_round(self.lake, events, versions, self.options)
        self._ledger.settle(list(going.rows))
        self.reading.committed(going, events)

    def checked(self, paths: Sequence[str | Path]) -> IngestSummary:
        """The summary. Raises NothingToRead where there never was anything."""
        patterns = unused(self.reader.clock_offsets, [tail.source.source_id for tail in self.reading.tails])
        self.reading.say([f"clock_offsets: no source is named like {pattern!r}" for pattern in patterns])
        summary = self.reading.summary()
        if summary.problems and not summary.line_count and not self._known:
            raise NothingToRead(paths, summary.problems)
        return summary


def read_logs(
    paths: Sequence[str | Path],
    cluster: str,
    *,
    timezone: str = "UTC",
    internal_topics: bool = True,
    clock_offsets: Mapping[str, int] | None = None,
) -> pa.Table:
    """All events of broker logs as one table in bronze schema, merged by time; no lake is touched."""
    found, reading = _discover(paths), Reading(cluster)
    reader = Reader(cluster, timezone, internal_topics, clock_offsets=clock_offsets or {})
    reading.take_up(reader.tails(found, found.sources, {}))
    tables = [going.table() for going in reading.rounds() if going.rows]
    return pa.concat_tables(tables) if tables else replication_events.ARROW.empty_table()


def _discover(paths: Sequence[str | Path]) -> Discovery:
    found = discover(paths)
    if not any(source.series.files() for source in found.sources):
        raise NothingToRead(paths, found.words)
    return found
