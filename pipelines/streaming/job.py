"""The streaming job: bronze in, silver and gold out, in one query that can be stopped and killed at any point."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import UsageError
from pipelines.lake.delta_log import actions
from pipelines.lake.lake import Lake
from pipelines.lake.lease import LeaseLost
from pipelines.lake.roles import Held, hold
from pipelines.replication import Rules
from pipelines.streaming import hadoop
from pipelines.streaming.checkpoint import offsets
from pipelines.streaming.checkpoint.beginning import forget
from pipelines.streaming.checkpoint.damage import explained, require_readable
from pipelines.streaming.checkpoint.manifest import resume
from pipelines.streaming.checkpoint.moved import follow_move
from pipelines.streaming.checkpoint.query import Query, open_query, record_spark, recorded
from pipelines.streaming.dataflow import packed_bronze, reconstruct, start
from pipelines.streaming.follow import POLL_S, Batch, InFlight, JvmEnded, RunFailed, RunSummary, follow, is_cut_off
from pipelines.streaming.idle import at_end, nothing_new
from pipelines.streaming.options import RunOptions
from pipelines.streaming.relayout import relaid
from pipelines.streaming.signals import stoppable
from pipelines.streaming.source.bronze_commits import removes_rows
from pipelines.streaming.source.skipped import skip_file
from pipelines.streaming.source.suitable import require_suitable
from pipelines.streaming.spark_internals import NOT_STARTED, limits_batches
from pipelines.streaming.tables import ROLE, TABLES, at_once, create_tables
from pipelines.streaming.unfinished import require_finished
from pipelines.streaming.upkeep import Upkeep
from pipelines.streaming.workers.kernels import compile_first
from schemas import replication_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("hwmark.run")

OnBatch = Callable[[Batch], None] | None
SLOW = 3
"""A batch is reported as slow after this many intervals, and again after each further so many."""
STARTS = 5


def run(
    lake: str,
    rules: Rules,
    options: RunOptions | None = None,
    *,
    on_batch: OnBatch = None,
    on_slow: Callable[[InFlight], None] | None = None,
    stop: threading.Event | None = None,
    held: Held | None = None,
    write_timeline: Callable[[Lake], None] | None = None,
) -> RunSummary:
    """Run the query with `options`; without an end, until `stop` is set or SIGTERM comes.

    `on_batch` gets each batch, `on_slow` one that takes many intervals, `write_timeline` the lake once a minute. `held`
    is the role if the caller holds it already. A session that is already running is used and left running; a run to the
    end of the data starts none if there is nothing new.
    Raises RoleHeld, LeaseLost, StateMismatch, UnsuitableSpark, RunFailed, UsageError.
    """
    asked = options or RunOptions()
    place = Lake(_absolute(lake), dict(asked.storage_options))
    stopping = stop or threading.Event()
    # These options mend a job that cannot go on; an unfinished removal waits for that job, so they are not refused.
    if held is None and not (asked.rebuild or asked.skip_files or asked.accept_removal is not None):
        require_finished(place)
    role = nullcontext(held) if held is not None else hold(place.root, ROLE, place.storage_options)
    with stoppable(stopping) as install_handlers, role as held:
        query = _prepared(place, rules, asked)
        layout = asked.reshard or query.buckets, asked.shuffle_partitions
        moves = layout != query.layout or asked.forget is not None
        if not asked.continuous and not moves and nothing_new(place, query):
            return RunSummary()
        from pipelines.streaming.session import keeps_sockets
        from pipelines.streaming.stateful.stored_state import stored_state

        compile_first()
        with _session_to_stop() as stop_later:
            spark = _session(place, asked)
            stop_later(spark)
            query = record_spark(place, query, spark.version)
            if asked.continuous and (told := keeps_sockets(spark.version)):
                log.warning("%s", told)
            install_handlers()
            upkeep = Upkeep(place, asked.gold_retention_s, write_timeline=write_timeline)
            runs = _Runs(spark, place, rules, asked, held, upkeep, on_slow)
            state, end_batch = partial(stored_state, spark, place, query), partial(runs.end_batch, query, on_batch)
            query = relaid(place, query, layout, state, end_batch, asked.forget)
            summary = runs.follow(query, asked.every_s if asked.continuous else None, on_batch, stopping)
            runs.upkeep.now()
            return summary


def _prepared(place: Lake, rules: Rules, asked: RunOptions) -> Query:
    """The query of a lake, after its tables, checkpoint and records agree and the options are recorded."""
    _ready(place)
    if not asked.rebuild and (known := recorded(place)) is not None:
        _recover(place, known)
    create_tables(place, asked.gold_retention_s, asked.log_retention_s)
    query = open_query(
        place,
        rules,
        asked.buckets,
        asked.shuffle_partitions,
        asked.source,
        rebuild=asked.rebuild,
        reshard=asked.reshard,
    )
    offsets.remember_interval(place, asked.every_s if asked.continuous else None)
    if asked.accept_removal is not None:
        _accept_removal(place, asked.accept_removal)
    for path in asked.skip_files:
        log.warning("%s", skip_file(place, path))
    if asked.drain:
        _drain(place)
    return query


def _session(place: Lake, asked: RunOptions) -> SparkSession:
    """The running session, or a new one with the settings for this lake and source."""
    from pipelines.streaming.session import PASSES_BLOBS, session

    jvm = PASSES_BLOBS if asked.source == "arrow" else {}
    of_lake = {**hadoop.settings(place.storage_options), **hadoop.local_checkpoints(place.root)}
    return session(
        master=asked.master,
        shuffle_partitions=asked.shuffle_partitions,
        jars_dir=asked.jars_dir,
        conf={**jvm, **of_lake, **asked.spark_conf},
        log_file=asked.log_file,
        lake=place.root,
        delta=asked.source == "delta",
    )


@dataclass(frozen=True)
class _Runs:
    """The queries of one lake in one session, under the `held` role."""

    spark: SparkSession
    lake: Lake
    rules: Rules
    asked: RunOptions
    held: Held
    upkeep: Upkeep
    on_slow: Callable[[InFlight], None] | None

    def end_batch(self, query: Query, done: OnBatch) -> None:
        """Let a query end its running batch, and begin no other."""
        self.follow(query, None, done, threading.Event(), only_planned=True)

    def follow(
        self, query: Query, interval: float | None, done: OnBatch, stopping: threading.Event, only_planned: bool = False
    ) -> RunSummary:
        """Follow a query to the end of the data, or until it is asked to stop; `done` gets each batch."""
        if interval is not None or only_planned or limits_batches():
            return self._follow_one(query, interval, done, stopping.is_set, only_planned)
        # Spark 4.1 takes the end of the first batch for the end of the data, and each query leaves sockets open. So one
        # query runs there until it has read all that bronze holds now.
        ends = at_end(self.lake, query)
        summary = self._follow_one(query, POLL_S, done, lambda: stopping.is_set() or ends(), False)
        return replace(summary, stopped=stopping.is_set())

    def _follow_one(
        self, query: Query, interval: float | None, done: OnBatch, asked: Callable[[], bool], only_planned: bool
    ) -> RunSummary:
        bounds, slow_s = (self.asked.max_bytes_per_trigger, self.asked.max_rows_per_trigger), SLOW * self.asked.every_s
        packed = packed_bronze(self.spark, self.lake, query, *bounds, only_planned)
        facts = reconstruct(packed, self.rules, query, self.asked.health_every_s, self.lake)
        return follow_to_end(
            lambda: start(facts, self.lake, query, interval, self.held.token),
            lambda running: follow(
                running, self.lake, done, asked, self.held, self.on_slow, slow_s, self.upkeep.when_due
            ),
            lambda message: explained(message, self.lake, query.query_id),
        )


def follow_to_end(
    begin: Callable[[], StreamingQuery],
    follow_one: Callable[[StreamingQuery], RunSummary],
    explain: Callable[[str], str],
) -> RunSummary:
    """Start the query and follow it; once more if the source's planner did not start within Spark's time limit."""
    from py4j.protocol import Py4JError

    for attempt in range(STARTS):
        try:
            running = begin()
            try:
                return follow_one(running)
            except LeaseLost:
                running.stop()
                raise
        except (Py4JError, ConnectionError) as lost:
            if not is_cut_off(lost):
                raise
            raise JvmEnded("Spark's JVM has ended, and what it was at is done by the next run") from lost
        except RunFailed as failed:
            if NOT_STARTED not in str(failed) or attempt == STARTS - 1:
                raise RunFailed(explain(str(failed))) from failed
            log.warning("%s The machine is busy: starting again", failed)
    raise AssertionError("the last attempt returns or raises")


def _recover(lake: Lake, query: Query) -> None:
    """Make checkpoint, manifests and tables of a query agree after a kill, or a move of the lake.

    Raises StateMismatch if they cannot.
    """
    at_once(partial(lake.create, kind) for kind in TABLES if lake.has_table(kind))  # a torn commit is set aside
    begins = query.follows and offsets.last(lake.files(), query.query_id, "commits") < 0
    for written_by in (query.query_id, query.follows)[: 2 if begins else 1]:
        for restored in resume(lake, written_by):
            log.warning("%s", restored)
    require_readable(lake, query.query_id)
    if follow_move(lake, query.query_id):
        log.warning("the lake was moved to %s: its state is read there", lake.root)
    forget(lake, query)


def _accept_removal(lake: Lake, version: int) -> None:
    """Record that the job may read past a commit of bronze. Raises UsageError if it removed no rows."""
    try:
        commit = actions(lake.files(replication_events.TABLE), version)
    except FileNotFoundError:
        commit = []
    if version not in offsets.accepted_removals(lake) and not removes_rows(commit):
        raise UsageError(
            f"version {version} of bronze of lake {lake.root} took no rows out, or is not in its log (its newest is "
            f"{lake.open(replication_events.TABLE).version()}): accept the version that the job's error names"
        )
    offsets.accept_removal(lake, version)


def _drain(lake: Lake) -> None:
    from pipelines.streaming.source.drain import close_sources

    close_sources(lake)


def _ready(lake: Lake) -> None:
    """Create bronze if it does not exist. Raises UnsuitableColumnsError if its writers made it with unfit columns."""
    table = lake.create(replication_events.TABLE)
    require_suitable(table.table_uri, table.schema(), table.metadata().partition_columns)


def _absolute(lake: str) -> str:
    return lake if "://" in lake else str(Path(lake).absolute())


@contextmanager
def _session_to_stop() -> Iterator[Callable[[SparkSession], None]]:
    """Stop the session at the end of the block, unless it was running before."""
    from py4j.protocol import Py4JError
    from pyspark.sql import SparkSession

    borrowed = SparkSession.getActiveSession() is not None
    mine: list[SparkSession] = []
    try:
        yield mine.append
    finally:
        for spark in mine if not borrowed else ():
            with suppress(Py4JError, OSError):  # its JVM may have ended already
                spark.stop()
