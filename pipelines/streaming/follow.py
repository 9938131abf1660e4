"""A running query followed: its batches, when to stop it, and why it failed."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pipelines.lake.lake import Lake
from pipelines.lake.records import write_record
from pipelines.lake.roles import Held
from pipelines.streaming.checkpoint.offsets import began_at, begun
from pipelines.streaming.reconstruction import LAST_BATCH, LastBatch
from pipelines.streaming.source.bronze_log import last_version_read
from pipelines.streaming.spark_internals import progress_since

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("hwmark.run")

POLL_S = 0.2


class RunFailed(RuntimeError):
    """Raised if the streaming query ended by itself; the message is the innermost cause."""


class JvmEnded(RunFailed):
    """Raised if Spark's JVM ended before the streaming query did."""


@dataclass(frozen=True)
class Batch:
    """One finished micro-batch; at its end `versions_behind` commits of bronze were unread.

    `state_bytes`: the size of Spark's state store then, in memory and files.
    """

    batch_id: int
    events: int
    seconds: float
    events_per_second: float
    versions_behind: int
    state_bytes: int = 0


@dataclass(frozen=True)
class InFlight:
    """A slow micro-batch: Spark's message, and the finished tasks of its present stage.

    `events` of bronze if its source counts them; `seconds` since it began.
    """

    batch_id: int
    events: int | None
    seconds: float
    message: str
    stage: int | None = None
    tasks: int = 0
    tasks_done: int = 0


@dataclass(frozen=True)
class RunSummary:
    """Counts of one run; `stopped`: the run was asked to stop."""

    batches: int = 0
    events: int = 0
    seconds: float = 0.0
    stopped: bool = False


def follow(
    running: StreamingQuery,
    lake: Lake,
    on_batch: Callable[[Batch], None] | None,
    is_asked: Callable[[], bool],
    held: Held,
    on_slow: Callable[[InFlight], None] | None = None,
    slow_s: float = 30.0,
    upkeep: Callable[[], None] = lambda: None,
) -> RunSummary:
    """Report each batch as it ends, until the query ends; once `is_asked()` is true, stop after the batch in flight.

    `on_slow` gets a batch that takes longer than `slow_s` seconds, and again after each `slow_s`; `upkeep` is called in
    every round. Raises RunFailed, LeaseLost if the role is no longer `held`, and py4j's errors if the JVM has ended.
    """
    from pyspark.errors import StreamingQueryException

    started, summary, seen = time.monotonic(), RunSummary(), -1
    looked = started
    while True:
        held.check()
        # before the progress is read: once the query is inactive, its last batch's progress is there
        active, asked = running.isActive, is_asked()
        batches = [_batch(progress, lake) for progress in _progress(running, seen)]
        for batch in batches:
            seen = batch.batch_id
            summary = replace(summary, batches=summary.batches + 1, events=summary.events + batch.events)
            _record(lake, batch)
            (on_batch or _log_batch)(batch)
            looked = time.monotonic()
        if not active:
            break
        if time.monotonic() - looked >= slow_s:
            looked = time.monotonic()
            if (slow := _in_flight(running, lake, datetime.now(UTC))) and slow.seconds >= slow_s:
                (on_slow or _log_slow)(slow)
        if asked and (batches or not running.status["isTriggerActive"]):
            running.stop()
            return replace(summary, seconds=time.monotonic() - started, stopped=True)
        upkeep()
        # A failure is raised below, by its cause.
        with suppress(StreamingQueryException):
            running.awaitTermination(POLL_S)  # type: ignore[arg-type]  # it takes fractions
    if (failure := running.exception()) is not None:
        raise RunFailed(_cause(str(failure))) from failure
    return replace(summary, seconds=time.monotonic() - started)


def is_cut_off(error: Exception) -> bool:
    """Whether a call into the JVM failed because the JVM has ended.

    py4j reports a connection that breaks during a call as an error of the method, without exception or trace.
    """
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

    if isinstance(error, Py4JNetworkError | ConnectionError):
        return True
    return isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError) and "Trace:" not in str(error)


def _in_flight(running: StreamingQuery, lake: Lake, now: datetime) -> InFlight | None:
    """The running batch, None between two."""
    from pyspark.sql import SparkSession

    batch, session = begun(lake), SparkSession.getActiveSession()
    if batch is None or session is None:
        return None
    seconds, message = (now - batch.at).total_seconds(), running.status["message"]
    tracker = session.sparkContext.statusTracker()
    stages = [found for number in tracker.getActiveStageIds() if (found := tracker.getStageInfo(number)) is not None]
    if not stages:
        return InFlight(batch.batch_id, batch.events, seconds, message)
    stage = max(stages, key=lambda one: one.stageId)
    return InFlight(
        batch.batch_id, batch.events, seconds, message, stage.stageId, stage.numTasks, stage.numCompletedTasks
    )


def _progress(running: StreamingQuery, seen: int) -> list[dict[str, Any]]:
    """Spark's progress reports of the batches after `seen`, without those of idle times."""
    reported = [json.loads(progress) for progress in progress_since(running, seen)]
    return [p for p in reported if p["batchId"] > seen and "addBatch" in p["durationMs"]]


def _batch(progress: Mapping[str, Any], lake: Lake) -> Batch:
    events, seconds = _events(progress, lake), progress["durationMs"]["triggerExecution"] / 1000
    rate = events / seconds if seconds else 0.0
    state_bytes = sum(each["memoryUsedBytes"] for each in progress["stateOperators"])
    return Batch(progress["batchId"], events, seconds, rate, _behind(progress, lake), state_bytes)


def _record(lake: Lake, batch: Batch) -> None:
    """Record a batch for metrics."""
    try:
        write_record(lake, LAST_BATCH, LastBatch(batch.batch_id, batch.events, batch.seconds, batch.state_bytes))
    except Exception as error:  # whatever failed, on a disk or a store, no batch depends on it
        log.warning("%s was not written, so that /metrics have an earlier batch: %s", LAST_BATCH, error)


def _events(progress: Mapping[str, Any], lake: Lake) -> int:
    """The events of a batch: the arrow source hands blobs to Spark and counts events in its offsets.

    Spark does not know the offset at which a query began.
    """
    (source,) = progress["sources"]
    if "events" not in source["endOffset"]:
        return int(progress["numInputRows"])
    start = source["startOffset"] or began_at(lake) or {}
    return int(source["endOffset"]["events"]) - int(start.get("events", 0))


def _behind(progress: Mapping[str, Any], lake: Lake) -> int:
    offset = progress["sources"][0]["endOffset"]
    if "events" in offset:
        return max(0, int(lake.open("replication_events").version()) - last_version_read(offset))
    # An offset (version, index -1) means: all versions before this one are read.
    read = offset["reservoirVersion"] - (1 if offset["index"] < 0 else 0)
    return max(0, int(lake.open("replication_events").version()) - int(read))


def _log_batch(batch: Batch) -> None:
    log.info(
        "batch %d: %d events, %.0f events/s, %d commits of bronze behind",
        batch.batch_id,
        batch.events,
        batch.events_per_second,
        batch.versions_behind,
    )


def _log_slow(batch: InFlight) -> None:
    log.warning("batch %d takes %.0f s so far: %s", batch.batch_id, batch.seconds, batch.message)


def _cause(message: str) -> str:
    """The last error line of a Python worker's trace, or the first line of Spark's message."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Mismatch): ", line)]
    return (
        re.sub(r"^pipelines\.[\w.]+: ", "", errors[-1])
        if errors
        else lines[0]
        if lines
        else "the streaming query failed"
    )
