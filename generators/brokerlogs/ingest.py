"""Kafka's own log files to `bronze/replication_events`: once, or following them as they grow."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pyarrow as pa

from generators.brokerlogs.discovery.archives import PIPE, Archives
from generators.brokerlogs.discovery.sources import BY_BROKER, Discovery, Source, discover
from generators.brokerlogs.events.clock_offsets import unused_patterns
from generators.brokerlogs.printed import Printed
from generators.brokerlogs.tailing.checkpoints import Checkpoints
from generators.brokerlogs.tailing.coalesce import FetchRuns
from generators.brokerlogs.tailing.rounds import Round
from generators.brokerlogs.tailing.session import IngestSession, ReadOptions, TailerFactory
from generators.brokerlogs.tailing.summary import IngestSummary
from generators.brokerlogs.tailing.windows import merge_sources, same_logs
from pipelines.errors import UsageError
from pipelines.lake.bronze import append_round
from pipelines.lake.file_systems import StorageOptions
from pipelines.lake.roles import Held, RoleHeld, hold
from schemas import replication_events

__all__ = ["NothingToRead", "ReadOptions", "ingest_logs", "read_logs"]

REDISCOVER_S = 5.0
"""Seconds between searches for new logs while following."""
_TOLD_AGAIN = (
    "stored positions of {} sources ({}, ...) are damaged, or of an earlier hwmark: lines that are not known are told "
    "once more, in a new source_epoch, and no loss is proven across that"
)


class NothingToRead(UsageError):
    """None of the paths holds a log that can be read."""

    def __init__(self, paths: Sequence[str | Path], messages: Sequence[str]) -> None:
        named = ", ".join(map(str, paths)) or "no path"
        why = "; ".join(messages) or "name log files, or folders of them"
        super().__init__(f"no broker log could be read in {named}: {why}")


def ingest_logs(
    paths: Sequence[str | Path],
    *,
    cluster: str,
    lake: str,
    options: ReadOptions | None = None,
    follow: bool = False,
    on_progress: Callable[[str], None] | None = None,
    stop: threading.Event | None = None,
    storage_options: StorageOptions | None = None,
) -> IngestSummary:
    """Read broker logs into the lake, from where the last call for the same sources stopped.

    With `follow` it reads until `stop` is set, and discovers logs that appear below `paths`; the path `-` is what comes
    through standard input, until that ends. `on_progress` is called with a line of text after each round. Raises
    UsageError, NothingToRead, or RoleHeld where another process reads a source.
    """
    options, stop, archives = options or ReadOptions(), stop or threading.Event(), Archives(follow=follow)
    paths = [archives.pipe(sys.stdin.buffer, wait=not follow) if str(path) == PIPE else path for path in paths]
    found = _discover(paths, options, archives)
    with ExitStack() as roles:
        ingest = _Ingest(TailerFactory(cluster, options, follow, stop), lake, storage_options, roles, archives)
        found, missing = ingest.with_stable_names(found), len(found.missing)
        ingest.add_printed(found.printed)
        ingest.add_sources(found, found.sources)
        session = ingest.session
        rounds = (
            session.following(stop, lambda: ingest.rediscover(paths), options.grace_ms, archives.piping)
            if follow
            else session.rounds(stop.is_set)
        )
        for current in rounds:
            if current.rows:
                ingest.commit(current)
            if on_progress:
                on_progress(session.progress())
            if stop.is_set():
                break
        return replace(ingest.final_summary(paths), missing=missing)


class _Ingest:
    """One call: its sources, its lake, and the role of each source, held until `roles` is closed."""

    def __init__(
        self,
        factory: TailerFactory,
        lake: str,
        storage_options: StorageOptions | None,
        roles: ExitStack,
        archives: Archives,
    ) -> None:
        self.factory, self.lake, self.storage_options, self._roles = factory, lake, storage_options, roles
        self._archives = archives
        coalesce_ms = factory.options.coalesce_ms
        self._runs = FetchRuns(coalesce_ms) if coalesce_ms else None
        self.session = IngestSession(factory)
        self._checkpoints = Checkpoints(lake, factory.cluster, storage_options)
        self._held: dict[str, Held] = {}
        self._printed = Printed()
        self._known = False
        self._last_discovery = monotonic()

    def with_stable_names(self, found: Discovery) -> Discovery:
        """The sources under the names under which they were read before, with messages on names that changed."""
        given = self.factory.options.source is not None
        self.session.add_messages(self._checkpoints.keep_names(found.sources, given=given))
        return found

    def add_printed(self, paths: Sequence[Path]) -> None:
        """Write what Kafka's tools printed into those of these files that are new."""
        rows = self._printed.read(paths, self.factory.cluster, self.factory.options.printed_at)
        if rows is not None:
            append_round(self.lake, rows, {}, self.storage_options)

    def add_sources(self, found: Discovery, new: Sequence[Source]) -> None:
        """Read these sources of `found`, too, each from its last checkpoint.

        Raises RoleHeld, UsageError where the name of one was another broker's before.
        """
        for source in new:
            role = f"ingest:{self.factory.cluster}/{source.source_id}"
            self._held[source.source_id] = self._roles.enter_context(hold(self.lake, role, self.storage_options))
        states = self._checkpoints.load([source.source_id for source in new])
        for name, state in states.items():
            self._require_its_broker(found.brokers.get(name, ""), (state or {}).get("like", {}).get("broker_id"))
        self._known = self._known or any(states.values()) or bool(self._checkpoints.excerpts)
        again = [name for name, state in states.items() if state and "place" not in state]
        if again:
            self.session.add_messages([_TOLD_AGAIN.format(len(again), again[0])])
        tailers = self.factory.tailers(found, new, states, self._checkpoints.compared)
        for tailer in tailers:
            if tailer.settings is not None and self._runs is not None:
                self._runs.limit_by_lag(tailer.settings.events(0))
        self.session.add_tailers(tailers)
        self.session.add_messages(found.messages)

    def _require_its_broker(self, own: str, before: int | None) -> None:
        """Raise UsageError where logs that name their broker have the name of a source of another broker."""
        if before not in (None, -1) and own.startswith(BY_BROKER) and own != f"{BY_BROKER}{before}":
            raise UsageError(
                f"--source {self.factory.options.source}: these logs are of {own}, and under this name those of broker "
                f"{before} were read; give each broker's logs a name of its own"
            )

    def rediscover(self, paths: Sequence[str | Path]) -> None:
        """Add logs that were not there before; one that another process reads is left to it."""
        if monotonic() - self._last_discovery < REDISCOVER_S:
            return
        options = self.factory.options
        self._last_discovery = monotonic()
        found = _found(paths, options, self._archives)
        found = self.with_stable_names(found)
        known = len(self._printed.unread)
        self.add_printed(found.printed)
        self.session.add_messages(self._printed.unread[known:])
        for source in filter(self.session.is_new, found.sources):
            if source.series.is_empty():
                continue
            try:
                self.add_sources(found, [source])
            except (RoleHeld, UsageError) as held:
                self.session.add_messages([f"left out: {held}"])

    def commit(self, current: Round) -> None:
        """Write checkpoints durably, then the rows: the commit of the rows makes both valid."""
        for role in self._held.values():
            role.check()
        events = current.table(self._runs)
        states = self.session.states(current)
        versions = self._checkpoints.write(states)
        append_round(self.lake, events, versions, self.storage_options, self.factory.options.layout)
        self._checkpoints.mark_committed([*states])
        self.session.committed(current, events)

    def final_summary(self, paths: Sequence[str | Path]) -> IngestSummary:
        """The summary. Raises NothingToRead where nothing was ever read."""
        source_ids = [tailer.source.source_id for tailer in self.session.tailers]
        patterns = unused_patterns(self.factory.options.clock_offsets, source_ids)
        self.session.add_messages([f"clock_offsets: no source is named like {pattern!r}" for pattern in patterns])
        summary = self.session.summary()
        if (
            summary.problems
            and not (summary.line_count or summary.left_out or self._printed.stamps)
            and not self._known
        ):
            raise NothingToRead(paths, summary.problems)
        printed = self._printed
        return replace(summary, printed=printed.lines, unread_prints=printed.unread, printed_events=printed.events)


def read_logs(paths: Sequence[str | Path], cluster: str, options: ReadOptions | None = None) -> pa.Table:
    """All events of broker logs as one table in bronze schema, merged by time; no lake is touched."""
    options, archives = options or ReadOptions(), Archives()
    found, factory = _discover(paths, options, archives), TailerFactory(cluster, options)
    found.sources[:] = merge_sources(found.sources, same_logs(found.sources))
    session = IngestSession(factory)
    session.add_tailers(factory.tailers(found, found.sources, {}, {}))
    printed = Printed().read(found.printed, cluster, options.printed_at)
    tables = [current.table() for current in session.rounds() if current.rows]
    tables += [] if printed is None else [printed]
    return pa.concat_tables(tables) if tables else replication_events.ARROW.empty_table()


def _discover(paths: Sequence[str | Path], options: ReadOptions, archives: Archives) -> Discovery:
    found = _found(paths, options, archives)
    if not (found.sources or found.printed):
        raise NothingToRead(paths, found.messages)
    if found.mixed:
        raise UsageError(
            f"--source {options.source}: {found.mixed[0]}; give each broker's logs in a call with a name of its own"
        )
    return found


def _found(paths: Sequence[str | Path], options: ReadOptions, archives: Archives) -> Discovery:
    return discover(paths, zone=options.timezone, name=options.source, archives=archives, broker=options.broker)
