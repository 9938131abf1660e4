"""The jobs on a lake, started with the settings in force."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pipelines.setup import jars_dir

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.alerting.owners import Owners
    from pipelines.alerting.state import AlertState
    from pipelines.lake.roles import Held
    from pipelines.metrics.exporter import Exporter
    from pipelines.quality.results import CheckSummary
    from pipelines.settings import Settings
    from pipelines.streaming.follow import Batch, InFlight, RunSummary
    from pipelines.streaming.options import RunOptions
    from pipelines.verdict import Limits, Line
    from pipelines.verdict.since import Since

DAY = timedelta(days=1)
"""How far back of each cluster's present its history is shown, unless asked otherwise."""


def spark_session(settings: Settings) -> SparkSession:
    """The running session, or a new one as `[run]` wants it."""
    from pipelines.streaming import hadoop
    from pipelines.streaming.session import session

    return session(
        master=settings.run.master,
        shuffle_partitions=settings.run.shuffle_partitions,
        jars_dir=jars_dir(settings.run.jars_dir),
        conf={**hadoop.settings(settings.lake.storage_options), **settings.run.spark_conf},
        log_file=settings.run.log_file or None,
        lake=settings.lake.path,
        delta=settings.run.source == "delta",
    )


def run(
    settings: Settings,
    asked: RunOptions,
    on_batch: Callable[[Batch], None],
    on_slow: Callable[[InFlight], None] | None = None,
    *,
    held: Held | None = None,
) -> RunSummary:
    """Run the streaming job with `asked` of it beside `[run]`; in the role `held` where the caller has it."""
    from pipelines.streaming import job
    from pipelines.timeline.writing import write_timeline

    chosen = settings.run
    options = replace(
        asked,
        interval=None if asked.once else chosen.interval,
        buckets=chosen.buckets,
        master=chosen.master,
        shuffle_partitions=chosen.shuffle_partitions,
        jars_dir=jars_dir(chosen.jars_dir),
        source=chosen.source,
        max_bytes_per_trigger=chosen.max_bytes_per_trigger,
        max_rows_per_trigger=chosen.max_rows_per_trigger,
        gold_retention_s=chosen.gold_retention,
        log_retention_s=chosen.log_retention,
        storage_options=settings.lake.storage_options,
        spark_conf=chosen.spark_conf,
        log_file=chosen.log_file or None,
    )
    return job.run(
        settings.lake.path, settings.rules.rules(), options, on_batch=on_batch, on_slow=on_slow, held=held,
        write_timeline=write_timeline,
    )  # fmt: skip


def check(
    settings: Settings, now: datetime | None = None, on_suite: Callable[[str], None] | None = None
) -> CheckSummary:
    """The quality suites over what is new at `now` of the wall clock; `on_suite` gets what is judged next."""
    from pipelines.quality import check as quality

    return quality.check(
        settings.lake.path,
        now=now,
        quarantine_share=settings.check.quarantine_share,
        stale_after_s=settings.check.stale_after_s,
        storage_options=settings.lake.storage_options,
        on_suite=on_suite,
        own=settings.check.suites,
        project=settings.check.gx or None,
    )


def exporter(settings: Settings, now: Callable[[], datetime]) -> Exporter:
    """The exporter behind `/metrics` and `/healthz`; `now` is the wall clock."""
    from pipelines.alerting.rules import load
    from pipelines.metrics.exporter import Exporter

    rules = load(settings.alerts.rules_file or None).settings
    return Exporter(
        settings.tables,
        lambda: limits(settings),
        {name: rule.severity for name, rule in rules.items() if rule.enabled},
        now,
        settings.metrics.worst_partitions,
    )


def owners(settings: Settings) -> Owners:
    """Owners of topics by their patterns, as the settings have them."""
    from pipelines.alerting.owners import Owner

    return {pattern: Owner(one.team, one.contact) for pattern, one in settings.owners.items()}


def limits(settings: Settings, since: Since = DAY) -> Limits:
    """When sources are silent and the job is behind, as the alert rules have it, and since when history is shown."""
    from pipelines.alerting.behind import JOB_BEHIND
    from pipelines.alerting.rules import load
    from pipelines.alerting.silence import STALE_SOURCE
    from pipelines.streaming.checkpoint.offsets import interval
    from pipelines.verdict import Limits

    rules = load(settings.alerts.rules_file or None)
    every = max(settings.run.interval, interval(settings.tables) or 0)
    silent_s, behind_s = rules.of(STALE_SOURCE).stale_after_s, rules.of(JOB_BEHIND).limit_s(every)
    return Limits(silent_s, behind_s, since, max(60.0, 2 * settings.watch.interval))


def verdicts(settings: Settings, now: datetime) -> list[Line]:
    """The verdict lines of every cluster of the lake, the worst first; `now` is the wall clock."""
    from pipelines.lake.queries import Filter
    from pipelines.verdict import lines, verdict
    from pipelines.verdict.collect import survey

    place, bounds = settings.tables, limits(settings)
    return lines(verdict(record, bounds, now) for record in survey(place, Filter(), bounds.since, bounds, now).records)


def clock_off(settings: Settings, now: datetime) -> str | None:
    """That the clock of this host cannot be right, as far as the lake shows."""
    from pipelines.verdict.host_clock import clock_off as found

    return found(settings.tables, now)


def alerts(settings: Settings, now: datetime | None = None, *, write: bool = True) -> Sequence[AlertState]:
    """Return what fires and was resolved at `now` of the wall clock; without `write` the lake stays as it is."""
    from pipelines.alerting.evaluate import evaluate

    return evaluate(
        settings.lake.path,
        rules_file=settings.alerts.rules_file or None,
        now=now,
        interval_s=settings.run.interval,
        storage_options=settings.lake.storage_options,
        write=write,
    )
