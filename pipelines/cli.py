"""The command `hwmark`: each command reads the settings, calls one function, and prints."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from pipelines.commands.progress import echo
from pipelines.errors import UsageError
from pipelines.lake.umask import umask_restored

if TYPE_CHECKING:
    from pipelines.settings import Settings

FAILED, WRONG, FIRING, UNMET, HELD = 1, 2, 3, 4, 75
"""Exit statuses beside 0, done: failed; wrong usage or configuration; done, and alerts are firing; done, and
expectations failed; another process holds the role."""

_DEBUG = "hwmark.debug"
_lake: ContextVar[str] = ContextVar("lake", default="the lake")
"""Which one a command is at, for the words of what goes wrong."""


class Commands(TyperGroup):
    """Turns whatever goes wrong in a command into one line and an exit status."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with umask_restored():
                return super().invoke(ctx)
        except (TyperException, typer.Exit, typer.Abort):
            raise
        except Exception as error:
            echo(traceback.format_exc() if ctx.meta.get(_DEBUG) else f"hwmark: {_one_line(error)}", err=True)
            raise typer.Exit(_status(error)) from error


def _status(error: Exception) -> int:
    from pipelines.lake.roles import RoleHeld

    if isinstance(error, UsageError):
        return WRONG
    return HELD if isinstance(error, RoleHeld) else FAILED


def _one_line(error: Exception) -> str:
    from pipelines.commands.failures import words as of_the_system

    if _status(error) == FAILED and (known := of_the_system(error, _lake.get())) is not None:
        return known
    words = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, UsageError | ValueError | FileNotFoundError) or _status(error) == HELD:
        return words
    return f"{type(error).__name__}: {words[:500]} (--debug shows the trace)"


app = typer.Typer(
    name="hwmark",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Where every Kafka partition's high watermark really is, who holds it back, and what was lost.",
    epilog="Exit status: 0 done, 1 failed, 2 wrong usage or configuration, 3 done and alerts are firing "
    "(with --fail-on-alert), 4 done and expectations failed (with --fail-on-check; with both, 3 where an alert fires), "
    "75 another process holds the role. `hwmark COMMAND --help` has examples.",
)
ingest_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Bring telemetry into a lake.")
app.add_typer(ingest_app, name="ingest")


def _remember_debug(ctx: typer.Context, value: bool) -> bool:
    from pipelines.commands.progress import log_to_stderr

    ctx.meta[_DEBUG] = value
    log_to_stderr(value)
    return value


Lake = Annotated[
    str | None, typer.Option("--lake", metavar="DIR", help="The lake: a directory or an object-store URI.")
]
Config = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Instead of conf/hwmark.toml.")]
Debug = Annotated[bool, typer.Option("--debug", callback=_remember_debug, help="Show the trace of an error.")]
FailOnAlert = Annotated[bool, typer.Option("--fail-on-alert", help="Exit with 3 when an alert is firing.")]
FailOnCheck = Annotated[
    bool, typer.Option("--fail-on-check", help="Exit with 4 when an expectation failed, and no alert says 3.")
]


class What(StrEnum):
    """What `hwmark show` can show."""

    verdict = "verdict"
    hw = "hw"
    isr = "isr"
    sync = "sync"
    regressions = "regressions"
    alerts = "alerts"
    health = "health"


class Format(StrEnum):
    """How `hwmark show` prints."""

    table = "table"
    json = "json"
    csv = "csv"


class Telling(StrEnum):
    """How `hwmark simulate` tells of its cluster."""

    events = "events"
    kafka_logs = "kafka-logs"


def _settings(config: Path | None, **flags: Mapping[str, Any]) -> Settings:
    """The settings in force; what the command and its children write from here on has the modes they say."""
    from pipelines.settings import load

    settings = load(config, flags)
    os.umask(settings.lake.mask)
    _lake.set(settings.lake.path)
    return settings


@app.command()
def schema(
    table: Annotated[str | None, typer.Argument(help="One table, such as partition_hw; all when left out.")] = None,
    truth: Annotated[
        bool, typer.Option("--truth", help="Those of what really happened in a simulated cluster.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Print the tables of a lake, or of the truth beside it, their columns and what they mean.

    \b
    Examples:
      hwmark schema
      hwmark schema hw_regressions
      hwmark schema --truth
      hwmark schema --truth truth_regressions
    """
    from pipelines.errors import nearest
    from schemas import tables, truths

    known = truths() if truth else tables()
    if table is not None and table not in known:
        raise UsageError(f"there is no table {table}; {nearest(table, known)}")
    for name in [table] if table else known:
        echo(known[name].describe() + "\n")


@ingest_app.command("logs")
def ingest_logs(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Log files, or directories of brokers.")],
    cluster: Annotated[str, typer.Option(metavar="NAME", help="The cluster they belong to.")],
    lake: Lake = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on reading as the files grow and rotate.")] = False,
    timezone: Annotated[str | None, typer.Option(metavar="ZONE", help="Of times without one (stock pattern).")] = None,
    internal_topics: Annotated[bool | None, typer.Option(help="Include __consumer_offsets and the like.")] = None,
    coalesce: Annotated[bool | None, typer.Option(help="Unchanged fetches of a replica become one row.")] = None,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Turn Kafka broker logs (plain, .gz, rotated) into events of a lake.

    \b
    Examples:
      hwmark ingest logs /var/log/kafka --cluster prod --lake lake
      hwmark ingest logs broker-1/ broker-2/ broker-3/ --cluster prod --lake lake
      hwmark ingest logs /var/log/kafka --cluster prod --lake lake --follow
    """
    from generators.brokerlogs.ingest import ReadOptions
    from generators.brokerlogs.ingest import ingest_logs as ingest
    from pipelines.commands.progress import progress

    given = {"timezone": timezone, "internal_topics": internal_topics, "coalesce": coalesce}
    settings = _settings(config, lake={"path": lake}, ingest=given)
    with progress("ingest") as say:
        summary = ingest(
            paths,
            cluster=cluster,
            lake=settings.lake.path,
            follow=follow,
            options=ReadOptions(
                timezone=settings.ingest.timezone,
                internal_topics=settings.ingest.internal_topics,
                clock_offsets=settings.ingest.clock_offsets,
                grace_ms=settings.rules.reorder_grace_ms,
                coalesce_ms=settings.coalesce_ms,
            ),
            on_progress=say,
            stop=_until_told(),
            storage_options=settings.lake.storage_options,
        )
    echo("\n".join(summary.lines()))


def _until_told() -> threading.Event:
    """An event that SIGTERM and the first Ctrl-C set; a second Ctrl-C interrupts at once."""
    stop = threading.Event()

    def on_signal(number: int, _frame: object) -> None:
        stop.set()
        signal.signal(number, signal.default_int_handler)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, on_signal)
    return stop


@app.command()
def run(
    lake: Lake = None,
    once: Annotated[bool, typer.Option("--once", help="To the end of the data, then stop.")] = False,
    drain: Annotated[bool, typer.Option("--drain", help="With --once: make final all that was told so far.")] = False,
    interval: Annotated[str | None, typer.Option(metavar="10s", help="Without --once: a batch so often.")] = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Start silver and gold anew from bronze.")] = False,
    accept_removal: Annotated[
        int | None, typer.Option(metavar="VERSION", help="Read on past a commit that took rows out of bronze.")
    ] = None,
    skip_file: Annotated[
        list[str] | None, typer.Option(metavar="PATH", help="Go on without a file of bronze; again for more.")
    ] = None,
    buckets: Annotated[int | None, typer.Option(help="State shards; fixed for the life of a checkpoint.")] = None,
    master: Annotated[str | None, typer.Option(metavar="URL", help="Spark master, unless spark-submit says.")] = None,
    fail_on_alert: FailOnAlert = False,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Reconstruct high watermarks from the events of a lake (the streaming job).

    \b
    Examples:
      hwmark run --lake lake --once               from cron, every minute or so
      hwmark run --lake lake --interval 10s       as a service, until SIGTERM
      hwmark run --lake lake --once --drain       after the last log of an incident
      hwmark run --lake lake --once --rebuild     to apply a changed rule to history, too
    """
    from pipelines.commands import jobs
    from pipelines.commands.progress import batch_line, progress, run_line, slow_line

    if drain and not once:
        raise UsageError("--drain closes what is there and needs --once")
    if once and interval:
        raise UsageError(f"--once stops at the end of the data: leave out --interval {interval}")
    if fail_on_alert and not once:
        raise UsageError("--fail-on-alert needs --once: a job that goes on has no exit status")
    settings = jobs.existing_lake(
        _settings(config, lake={"path": lake}, run={"interval": interval, "buckets": buckets, "master": master})
    )
    with progress("run") as say:
        summary = jobs.reconstruct(
            settings,
            lambda batch: say(batch_line(batch)),
            lambda batch: say(slow_line(batch)),
            once=once,
            drain=drain,
            rebuild=rebuild,
            accept_removal=accept_removal,
            skip_files=skip_file or (),
        )
    echo(run_line(summary))
    if fail_on_alert and _alerts(settings, _now()):
        raise typer.Exit(FIRING)


def _now() -> datetime:
    """The wall clock."""
    return datetime.now(UTC)


@app.command()
def check(
    lake: Lake = None,
    fail_on_alert: FailOnAlert = False,
    fail_on_check: FailOnCheck = False,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Say what is known of each cluster, judge what is new in a lake (quality suites), then evaluate the alert rules.

    \b
    Examples:
      hwmark check --lake lake
      hwmark check --lake lake --fail-on-alert || page-somebody
      hwmark check --lake lake --fail-on-alert --fail-on-check
    """
    from pipelines.commands import jobs

    settings = jobs.existing_lake(_settings(config, lake={"path": lake}))
    now = _now()
    for line in jobs.verdicts(settings, now):
        echo(str(line))
    summary = jobs.judge(settings, now)
    echo("\n".join(summary.lines()))
    firing = _alerts(settings, now)
    if summary.failed and not fail_on_check:
        echo("Expectations failed: --fail-on-check makes that exit status 4.")
    if fail_on_alert and firing:
        raise typer.Exit(FIRING)
    if fail_on_check and summary.failed:
        raise typer.Exit(UNMET)


def _alerts(settings: Settings, now: datetime) -> bool:
    """Evaluates and prints the alerts; whether one is firing."""
    from pipelines.commands import jobs
    from pipelines.commands.progress import alert_line

    states = jobs.alerts(settings, now)
    for state in states:
        echo(alert_line(state))
    if not states:
        echo("No alert is firing.")
    return any(state.firing for state in states)


@app.command()
def demo(
    lake: Annotated[str | None, typer.Option("--lake", metavar="DIR", help="A new one; else a temporary one.")] = None,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Run the whole job on recorded logs of a real Kafka under faults and a simulated one, and sum up what it found.

    \b
    Examples:
      hwmark demo
      hwmark demo --lake demo-lake
    """
    from pipelines.commands.demo import demo as run_demo
    from pipelines.commands.demo import new_lake

    settings = _settings(config, lake={"path": new_lake(lake)})
    run_demo(settings, echo)


@app.command()
def maintain(lake: Lake = None, config: Config = None, debug: Debug = False) -> None:
    """Compact small files, drop what retention has outlived, and vacuum, never passing what the job has yet to read.

    \b
    Examples:
      hwmark maintain --lake lake                 from cron, once a day
    """
    from pipelines.commands import jobs
    from pipelines.commands.maintain import maintain as run_maintenance

    settings = jobs.existing_lake(_settings(config, lake={"path": lake}))
    keep = settings.maintain
    for line in run_maintenance(
        settings.lake.path,
        vacuum_hours=keep.vacuum_hours,
        bronze_days=keep.bronze_days,
        silver_days=keep.silver_days,
        storage_options=settings.lake.storage_options,
    ):
        echo(line)


@app.command()
def simulate(
    seed: Annotated[int | None, typer.Option(metavar="N", help="The same seed, the same bytes.")] = None,
    lake: Lake = None,
    cluster: Annotated[str | None, typer.Option(metavar="NAME", help="What to call it.")] = None,
    brokers: Annotated[int | None, typer.Option(metavar="N", help="How many brokers: 1, 2, 3, ...")] = None,
    topics: Annotated[
        str | None, typer.Option(metavar="SPEC", help="NAME:PARTITIONSxREPLICAS[:min-isr=N][:unclean],...")
    ] = None,
    partitions: Annotated[int | None, typer.Option(metavar="N", help="Instead of --topics: one topic, orders.")] = None,
    duration: Annotated[str | None, typer.Option(metavar="60s", help="How long it runs, in its own time.")] = None,
    version: Annotated[str | None, typer.Option(metavar="4.1", help="Of Kafka, whose rules it follows.")] = None,
    load: Annotated[
        list[str] | None, typer.Option(metavar="SPEC", help="[TOPIC=]SHAPE:RATE[,KEY=VALUE...]; again for more.")
    ] = None,
    faults: Annotated[str | None, typer.Option(metavar="FILE", help="A TOML file of faults and rates.")] = None,
    fault: Annotated[
        list[str] | None, typer.Option(metavar="LINE", help='"12s freeze 3 for 20s"; again for more.')
    ] = None,
    rate: Annotated[
        list[str] | None, typer.Option(metavar="KIND=N", help="Faults by chance, so many a minute; again for more.")
    ] = None,
    spoil: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND=SHARE", help="Telemetry lost, late, ... on its way; again for more."),
    ] = None,
    level: Annotated[int | None, typer.Option(metavar="3|2|0", help="What its telemetry tells.")] = None,
    fetch_every_ms: Annotated[
        int | None, typer.Option(metavar="N", help="Tell of fetches that change nothing only so often; 0: of each.")
    ] = None,
    truth: Annotated[Path | None, typer.Option(metavar="DIR", help="What really happened, as Delta tables.")] = None,
    format: Annotated[
        Telling, typer.Option(help="Events into the lake, or broker log files into --out.")
    ] = Telling.events,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where log files go.")] = None,
    fleet: Annotated[
        bool | None, typer.Option("--fleet/--no-fleet", help="Many partitions in compiled rounds; above 500 it is so.")
    ] = None,
    scenario: Annotated[str | None, typer.Option(metavar="NAME", help="Play this one, without all of that.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Tell the scenario step by step.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="Name the scenarios, faults and loads there are.")] = False,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Run a simulated Kafka cluster and bring its telemetry into a lake, or play a scenario that shows a rule at work.

    \b
    Examples:
      hwmark simulate --scenario two-rounds --explain
      hwmark simulate --seed 7 --lake lake --fault "12s freeze 3 for 40s" --duration 90s
      hwmark simulate --seed 8 --cluster rough --lake lake --rate kill=1 --rate cut=2 --truth truth
      hwmark simulate --brokers 6 --topics orders:12x3:min-isr=2,clicks:4x2:unclean --load wave:500,hot=1.1 --lake lake
      hwmark simulate --brokers 60 --partitions 100000 --load steady:100000 --cluster large --lake lake
      hwmark simulate --lake lake --load bursts:500,acks=all,producers=3,by=key,hot=1.1 --fault "20s kill 1 for 9s"
      hwmark simulate --lake lake --partitions 400 --fetch-every-ms 10000 --fault "9s kill 1 for 9s"
      hwmark simulate --format kafka-logs --out logs --rate freeze=2
      HWMARK_SIMULATE__CLOCK_SKEW_MS=5000 hwmark simulate --lake lake --fault "9s rolling-restart"
      hwmark simulate --list

    Everything else that a cluster can be set to has a key under [simulate] in conf/hwmark.toml: the lag and session
    times, skew and drift of clocks, retention, delays and refusals of the controller.
    """
    from pipelines.commands.simulate import command

    given = {
        "seed": seed, "cluster": cluster, "brokers": brokers, "topics": topics, "partitions": partitions,
        "duration": duration, "version": version, "load": load, "faults": faults, "fault": fault,
        "rates": command.numbers("rate", rate), "spoil": command.numbers("spoil", spoil), "level": level,
        "fetch_every_ms": fetch_every_ms,
    }  # fmt: skip
    way = command.Way(format.value, out, lake is not None, truth, fleet)
    settings = _settings(config, lake={"path": lake}, simulate=given)
    if list_:
        command.show_list(echo)
    elif scenario:
        command.play(settings, scenario, given, explain, way, echo)
    elif explain:
        raise UsageError("--explain tells a scenario step by step and needs --scenario; --list names them")
    else:
        command.simulate(settings, given, way, echo)


@app.command()
def bench(
    events: Annotated[
        int | None, typer.Option(min=1000, help="Replication events of each comparison; 2 million, with --full 4.")
    ] = None,
    partitions: Annotated[
        list[int] | None, typer.Option(min=1, metavar="N", help="Of so many partitions; several, one after the other.")
    ] = None,
    sparse: Annotated[bool, typer.Option("--sparse", help="An HW per 21 events at 1 s, not per 3.")] = False,
    resolution: Annotated[str, typer.Option(metavar="1s", help="How fine the HWs are; 0: every change.")] = "1s",
    live: Annotated[
        int | None, typer.Option(min=3, metavar="RATE", help="So many events a second, appended while the job runs.")
    ] = None,
    for_: Annotated[str, typer.Option("--for", metavar="2m", help="How long the live part counts.")] = "1m",
    full: Annotated[bool, typer.Option("--full", help="Every part: 20 minutes on an idle machine.")] = False,
    readme: Annotated[bool, typer.Option("--readme", help="Also write it into README.md, with a plot.")] = False,
    debug: Debug = False,
) -> None:
    """Measure events a second of `replay` and of the Spark job beside other engines that answer the same questions.

    \b
    Examples:
      hwmark bench
      hwmark bench --events 1000000 --partitions 2000 --partitions 200000
      hwmark bench --sparse --resolution 0
      hwmark bench --live 300000 --for 10m
      hwmark bench --full --for 10m --readme
    """
    from importlib import import_module

    from pipelines.settings import duration

    if full and (partitions or sparse or live or resolution != "1s"):
        raise UsageError("--full has its own sizes, densities and rates: leave out what chooses one of them")
    if live and (partitions or sparse or resolution != "1s"):
        raise UsageError("--live has one partition per three events a second at 1 s: leave out what chooses others")
    import_module("pipelines.bench").main(
        events or (4_000_000 if full else 2_000_000),
        partitions=partitions or (),
        sparse=sparse,
        resolution_s=duration("--resolution", resolution),
        full=full,
        rate=live,
        live_s=duration("--for", for_),
        readme=readme,
    )


@app.command()
def show(
    what: Annotated[What, typer.Argument(help="What to look at.")],
    lake: Lake = None,
    topic: Annotated[str | None, typer.Option(metavar="T", help="Only this topic.")] = None,
    partition: Annotated[int | None, typer.Option(metavar="P", help="Only this partition.")] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="15m, 2h, 3d before the cluster's present, an ISO time (UTC), or all."),
    ] = None,
    cluster: Annotated[str | None, typer.Option(metavar="NAME", help="Only this cluster.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many rows, the newest.")] = 30,
    format: Annotated[Format, typer.Option(help="How to print.")] = Format.table,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Look into a lake without Spark: what is known of each cluster, then rows, newest last, the latest revision only.

    History is told of the last 24 hours of each cluster, unless --since says otherwise. Times are in UTC.

    \b
    Examples:
      hwmark show verdict --lake lake
      hwmark show health --lake lake
      hwmark show regressions --lake lake
      hwmark show hw --topic orders --partition 3 --since 15m
      hwmark show isr --since 2026-11-21T09:20:00 --format json
    """
    from pipelines.commands import jobs
    from pipelines.commands.show import command as shown
    from pipelines.lake import queries
    from pipelines.verdict.since import since_of

    asked = since_of(since) if since else None
    settings = jobs.existing_lake(_settings(config, lake={"path": lake}))
    limits = jobs.limits(settings, asked if since else jobs.DAY)
    wanted = queries.Filter(cluster, topic, partition)
    question = shown.Question(what.value, wanted, limits, asked, limit, format.value)
    echo(shown.show(queries.Lake(settings.lake.path, settings.lake.storage_options), question, _now()))


def main() -> None:
    """The console script."""
    from pipelines.setup import share_compiled_kernels

    share_compiled_kernels()
    app(prog_name="hwmark")


if __name__ == "__main__":
    main()
