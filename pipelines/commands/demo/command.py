"""`hwmark demo`: the whole job on recorded logs of a real Kafka and on a simulated one, summed up for people."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from generators.recordings import traces
from pipelines import setup
from pipelines.commands import jobs
from pipelines.commands.progress import alert_line, batch_line, run_line
from pipelines.errors import UsageError
from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter, Row, tally
from pipelines.settings import Simulate
from pipelines.verdict import words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.alerting.state import AlertState
    from pipelines.settings import Settings
    from pipelines.verdict import Line

Echo = Callable[[str], None]

DESCRIPTIONS = {
    "slow_follower": "broker 3 is frozen for 14 s, longer than the lag allows, then broker 2 for 4 s, which it allows",
    "leader_crash": "broker 1 is killed and comes back, then broker 2 is stopped cleanly and restarted",
    "power_failure": "simulated; all brokers lose power at once, and with it what was not yet flushed to disk",
    "unclean_election": "of clicks the follower dies, the leader goes on alone and dies, the stale follower is elected",
}

SIMULATED = Simulate(
    cluster="power_failure",
    version="4.0",
    racks=3,
    topics="payments:3x3:min-isr=2",
    load=["steady:20,acks=all"],
    fault=["75s power-off 1 for 10s", "75s power-off 2 for 12s", "76s power-off 3 for 10s"],
    duration=110,
)
"""Nothing is wrongly set here: acks=all, min.insync.replicas=2, no unclean election; and yet records are lost."""

SHORT_LIVED = {
    # Half of a short job's CPU goes into compiling what then hardly runs.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.memory": "1g",
}


def new_lake(lake: str | None) -> str:
    """A folder with nothing in it: the one named, or a temporary one. Raises UsageError."""
    if lake and Path(lake).is_dir() and any(Path(lake).iterdir()):
        raise UsageError(f"--lake {lake} has something in it already: name a new folder for the demo")
    return lake or tempfile.mkdtemp(prefix="hwmark-demo-")


def demo(settings: Settings, echo: Echo) -> None:
    """Every recorded scenario and a simulated one, each its own cluster: reconstructs, checks, alerts, and sums up.

    The first demo of an environment also leaves its JVM's classes there, with which later sessions start sooner.
    """
    echo(f"The lake of this demo is {settings.lake.path}")
    if not setup.have_kernels():
        echo("Kernels are compiled, once for this version: a minute on two cores")
        setup.compile_kernels()
    echo("\n1. Logs of a real Kafka to events: hwmark ingest logs")
    clusters = [_ingest(name, settings, echo) for name in traces.scenarios()]
    echo("\n2. A simulated Kafka beside them: hwmark simulate")
    clusters.append(_simulate(settings, echo))
    echo("\n3. Events to high watermarks, ISR changes and verdicts: hwmark run --once --drain")

    def work(conf: Mapping[str, str]) -> SparkSession:
        spark = jobs.spark_session(_short_lived(settings, conf))
        try:
            _run_and_check(settings, echo)
            _sum_up(settings, clusters, echo)
        except BaseException:
            spark.stop()
            raise
        return spark

    def work_to_archive(conf: Mapping[str, str]) -> SparkSession:
        spark = work(conf)
        echo("\nThe classes of Spark's JVM are archived, once: later sessions start sooner")
        return spark

    if setup.jars_dir(settings.run.jars_dir) != str(setup.JARS) or settings.run.spark_conf or setup.have_archive():
        work({}).stop()
    else:
        setup.leaving_archive(work_to_archive)
    echo("\n" + "\n".join(_next(settings.lake.path)))


def _ingest(name: str, settings: Settings, echo: Echo) -> str:
    from generators.brokerlogs.ingest import ReadOptions, ingest_logs

    summary = ingest_logs(
        [traces.path(name)],
        cluster=name,
        lake=settings.lake.path,
        options=ReadOptions(grace_ms=settings.rules.reorder_grace_ms, coalesce_ms=settings.coalesce_ms),
    )
    echo(f"   {summary.lines()[0]}")
    return name


def _simulate(settings: Settings, echo: Echo) -> str:
    from pipelines.commands.simulate import run, sinks
    from pipelines.commands.simulate.plan import plan

    outcome = run.run(plan(SIMULATED), sinks.BronzeSink(settings.lake.path, SIMULATED.cluster), lambda _: None)
    echo(f"   {SIMULATED.cluster}: {outcome.summary} in {outcome.seconds:.1f} s; faults: {', '.join(SIMULATED.fault)}")
    return SIMULATED.cluster


def _run_and_check(settings: Settings, echo: Echo) -> None:
    from pipelines.streaming.options import RunOptions

    done = jobs.run(settings, RunOptions(drain=True), lambda batch: echo(f"   {batch_line(batch)}"))
    echo(f"   {run_line(done)}")
    echo("\n4. Quality of telemetry and results, then alerts: hwmark check")
    for line in jobs.check(settings).lines():
        echo(f"   {line.split('  e.g. ')[0]}")


def _sum_up(settings: Settings, clusters: Sequence[str], echo: Echo) -> None:
    root = settings.lake.path
    alerts = jobs.alerts(settings)
    for state in alerts:
        echo(f"   {alert_line(state)}")
    known = jobs.verdicts(settings, datetime.now(UTC))
    for cluster in clusters:
        mine = [line for line in known if line.cluster == cluster]
        echo("\n" + "\n".join(_summary(Lake(root), cluster, mine, alerts)))


def _short_lived(settings: Settings, conf: Mapping[str, str]) -> Settings:
    chosen = {**SHORT_LIVED, **conf, **settings.run.spark_conf}
    return settings.model_copy(update={"run": settings.run.model_copy(update={"spark_conf": chosen})})


def _summary(lake: Lake, cluster: str, known: Sequence[Line], alerts: Sequence[AlertState]) -> list[str]:
    """The summary of one cluster's run."""
    wanted = Filter(cluster=cluster)
    mine = sum(state.firing and state.labels.get("cluster") == cluster for state in alerts)
    return [
        f"{cluster}: {DESCRIPTIONS.get(cluster, 'a recorded scenario')}",
        f"   {_agreement(tally(lake, 'hw', wanted, 'agreement'))}",
        f"   ISR changes: {_causes(tally(lake, 'isr', wanted, 'change, cause'))}",
        *(f"   {line}" for line in known),
        f"   {words.count(mine, 'alert')} firing",
    ]


def _agreement(found: Sequence[Row]) -> str:
    """A comparison of the HW changes that brokers reported with the computed ones."""
    number = {row["agreement"]: row["rows"] for row in found}
    exact, race, witness, wrong = (number.get(name, 0) for name in ("exact", "race", "only_witness", "disagree"))
    return (
        f"{exact + race + witness + wrong:,} HW changes reported by the brokers: {exact:,} computed exactly so, "
        f"{race:,} by a race of threads apart, {witness:,} on the report's word alone, {wrong:,} in disagreement"
    )


def _causes(found: Sequence[Row]) -> str:
    """`24 shrink (controlled shutdown), 12 expand (caught up)`; what was taken back is no change."""
    changes = [row for row in found if row["change"] != "retracted"]
    ordered = sorted(changes, key=lambda row: (-row["rows"], row["change"], row["cause"]))
    counts = [f"{row['rows']:,} {row['change']} ({row['cause'].replace('_', ' ')})" for row in ordered]
    if taken_back := sum(row["rows"] for row in found) - sum(row["rows"] for row in changes):
        counts.append(f"{taken_back:,} retracted")
    return ", ".join(counts) or "none"


def _next(root: str) -> list[str]:
    hwmark = sys.argv[0] if "/" in sys.argv[0] and Path(sys.argv[0]).name == "hwmark" else "hwmark"
    return [
        "Look further:",
        f"   {hwmark} show regressions --lake {root}",
        f"   {hwmark} show isr --cluster slow_follower --lake {root}",
        f"   {hwmark} show hw --cluster unclean_election --topic clicks --partition 0 --lake {root}",
        f"   {hwmark} show sync --cluster slow_follower --lake {root}",
    ]
