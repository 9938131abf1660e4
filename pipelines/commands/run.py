"""`hwmark run`: the streaming job on a lake."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from pipelines.commands import clock
from pipelines.commands.common_options import Config, Debug, FailOnAlert, Lake, settings_of_existing_lake
from pipelines.commands.exits import FIRING
from pipelines.commands.progress import echo
from pipelines.errors import UsageError


def run(
    lake: Lake = None,
    once: Annotated[bool, typer.Option("--once", help="To the end of the data, then stop.")] = False,
    drain: Annotated[
        bool, typer.Option("--drain", help="With --once: make final all that was reported so far.")
    ] = False,
    interval: Annotated[str | None, typer.Option(metavar="10s", help="Without --once: a batch so often.")] = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Start silver and gold anew from bronze.")] = False,
    cluster: Annotated[str | None, typer.Option(metavar="NAME", help="With --rebuild: of this cluster alone.")] = None,
    reshard: Annotated[int | None, typer.Option(metavar="N", min=1, max=4096, help="Go on with N buckets.")] = None,
    accept_removal: Annotated[
        int | None, typer.Option(metavar="VERSION", help="Read on past a commit that took rows out of bronze.")
    ] = None,
    skip_file: Annotated[
        list[str] | None, typer.Option(metavar="PATH", help="Go on without a file of bronze; again for more.")
    ] = None,
    buckets: Annotated[int | None, typer.Option(help="State shards of a new lake; --reshard changes them.")] = None,
    master: Annotated[str | None, typer.Option(metavar="URL", help="Spark master, unless spark-submit says.")] = None,
    fail_on_alert: FailOnAlert = None,
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
      hwmark run --lake lake --once --rebuild --cluster prod    to that of one cluster
      hwmark run --lake lake --once --reshard 8   to go on with eight buckets, on more cores
    """
    from pipelines.commands import jobs
    from pipelines.commands.check import firing_at_least
    from pipelines.commands.progress import batch_line, progress, run_line, slow_line, working
    from pipelines.streaming.options import RunOptions

    if drain and not once:
        raise UsageError("--drain closes what is there and needs --once")
    if once and interval:
        raise UsageError(f"--once stops at the end of the data: leave out --interval {interval}")
    if cluster and (not rebuild or not once or reshard is not None):
        raise UsageError("--cluster is for --once --rebuild, without --reshard")
    if fail_on_alert and not once:
        raise UsageError("--fail-on-alert needs --once: a job that goes on has no exit status")
    settings = settings_of_existing_lake(
        config, lake={"path": lake}, run={"interval": interval, "buckets": buckets, "master": master}
    )
    if cluster is not None:
        from pipelines.commands.forget.command import rebuild as rebuild_cluster
        from pipelines.commands.forget.options import parts

        place, run_job, refuse_unknown = parts(settings, cluster)
        for line in rebuild_cluster(place, cluster, run_job, refuse_unknown):
            echo(line)
        rebuild = False
    asked = RunOptions(
        once=once, drain=drain, rebuild=rebuild, reshard=reshard, accept_removal=accept_removal,
        skip_files=skip_file or (),
    )  # fmt: skip
    with (working if once else progress)("run") as say:
        summary = jobs.run(
            settings,
            asked,
            lambda batch: say(batch_line(batch), **asdict(batch)),
            lambda batch: say(slow_line(batch), batch_id=batch.batch_id, events=batch.events, seconds=batch.seconds),
        )
    echo(run_line(summary))
    if fail_on_alert and firing_at_least(settings, clock.now(), fail_on_alert):
        raise typer.Exit(FIRING)
