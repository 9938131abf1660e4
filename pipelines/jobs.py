"""The jobs on a lake, started with the settings in force."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pipelines.setup import jars_dir

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.alerting.state import AlertState
    from pipelines.quality.results import CheckSummary
    from pipelines.settings import Settings
    from pipelines.streaming.follow import Batch, RunSummary


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
    )


def reconstruct(
    settings: Settings, on_batch: Callable[[Batch], None], *, once: bool, drain: bool = False, rebuild: bool = False
) -> RunSummary:
    """The streaming job: to the end of the data, or on and on."""
    from pipelines.streaming.job import run

    chosen = settings.run
    return run(
        settings.lake.path,
        settings.rules.rules(),
        once=once,
        interval=None if once else chosen.interval,
        drain=drain,
        rebuild=rebuild,
        buckets=chosen.buckets,
        master=chosen.master,
        shuffle_partitions=chosen.shuffle_partitions,
        jars_dir=jars_dir(chosen.jars_dir),
        source=chosen.source,
        max_bytes_per_trigger=chosen.max_bytes_per_trigger,
        max_rows_per_trigger=chosen.max_rows_per_trigger,
        storage_options=settings.lake.storage_options,
        spark_conf=chosen.spark_conf,
        log_file=chosen.log_file or None,
        on_batch=on_batch,
    )


def judge(settings: Settings) -> CheckSummary:
    """The quality suites over what is new; Spark is started only when something is."""
    from pipelines.quality.check import check

    return check(
        settings.lake.path,
        spark=lambda: spark_session(settings),
        quarantine_share=settings.check.quarantine_share,
        stale_after_s=settings.check.stale_after_s,
        storage_options=settings.lake.storage_options,
    )


def alerts(settings: Settings) -> Sequence[AlertState]:
    """What fires, and what this evaluation resolved."""
    from pipelines.alerting.evaluate import evaluate

    return evaluate(
        settings.lake.path,
        rules_file=settings.alerts.rules_file or None,
        storage_options=settings.lake.storage_options,
    )
