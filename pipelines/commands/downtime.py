"""`hwmark downtime`: windows in which brokers may be away; alerts that they alone explain send nothing."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.commands import clock
from pipelines.commands.common_options import Config, Debug, Lake, settings_of_existing_lake
from pipelines.commands.note import author
from pipelines.commands.progress import echo
from pipelines.errors import UsageError, nearest

if TYPE_CHECKING:
    from pipelines.alerting.downtime import Downtime
    from pipelines.lake.lake import Lake as Place

downtime_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@downtime_app.callback(invoke_without_command=True)
def downtime(
    ctx: typer.Context,
    cluster: Annotated[str | None, typer.Option("--cluster", metavar="NAME", help="The cluster.")] = None,
    broker: Annotated[
        list[int] | None, typer.Option("--broker", metavar="N", help="A broker that may be away; may be repeated.")
    ] = None,
    rack: Annotated[str | None, typer.Option("--rack", metavar="R", help="The brokers of this rack.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every broker of the cluster.")] = False,
    lasts: Annotated[str, typer.Option("--for", metavar="T", help="From now on, for so long: 15m, 2h.")] = "1h",
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="What for; it is shown.")] = "maintenance",
    lake: Lake = None,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Open a window, from now on, in which brokers may be away. Alerts that they alone explain are planned, and send
    no message.

    Losses, and partitions that are offline or under min ISR because of another broker, are sent as always; so is a
    broker that stays away after the end.

    \b
    Examples:
      hwmark downtime --cluster prod --broker 2 --for 2h --reason "kernel 6.12" --lake lake
      hwmark downtime --cluster prod --rack eu-1a --for 30m
      hwmark downtime list --lake lake
      hwmark downtime end 4f1c2ab09d3e --lake lake
    """
    if ctx.invoked_subcommand is not None:
        return
    if cluster is None or sum((bool(broker), rack is not None, every)) != 1:
        raise UsageError("hwmark downtime needs --cluster NAME, and --broker N, --rack R or --all")
    place = _place(lake, config)
    from pipelines.settings import duration

    if not (seconds := duration("--for", lasts)):
        raise UsageError(f"--for is {lasts!r}: write how long, such as 15m or 2h")
    echo(line_of(open_window(place, cluster, broker or None, rack, seconds, reason)))


def line_of(window: Downtime) -> str:
    """One line about a window that was opened."""
    from pipelines.verdict import words

    who = "all brokers" if window.brokers is None else words.brokers(window.brokers)
    return f"{window.downtime_id}: {who} of {window.cluster} may be away until {words.clock(window.until)}"


def open_window(
    place: Place, cluster: str, brokers: list[int] | None, rack: str | None, lasts_s: float, reason: str
) -> Downtime:
    """Write a window that begins now. Raises UsageError for a cluster, broker or rack that is not there."""
    from pipelines.alerting.downtime import Downtime
    from pipelines.lake.lags import present_brokers
    from pipelines.lake.queries import Filter
    from pipelines.verdict.known import refuse_unknown

    refuse_unknown(place, Filter(cluster=cluster))
    there = {row["broker_id"]: row["rack"] for row in present_brokers(place, cluster)}
    if rack is not None:
        brokers = [one for one, of in there.items() if of == rack]
        if not brokers:
            raise UsageError(f"{cluster} has no rack {rack!r}; {nearest(rack, {of for of in there.values() if of})}")
    if unknown := [one for one in brokers or () if one not in there]:
        raise UsageError(f"{cluster} has no broker {unknown[0]}; it has {', '.join(map(str, sorted(there)))}")
    now = clock.now()
    window = Downtime(
        uuid.uuid4().hex[:12], cluster, None if brokers is None else tuple(sorted(set(brokers))), rack, now,
        now + timedelta(seconds=lasts_s), reason, author(), now,
    )  # fmt: skip
    _write(place, window)
    return window


@downtime_app.command("end")
def end(
    downtime_id: Annotated[str, typer.Argument(metavar="ID", help="The window (`hwmark downtime list`).")],
    lake: Lake = None,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """End a window now: alerts about its brokers are sent again."""
    from pipelines.alerting.lookup import read_downtimes
    from pipelines.verdict import words

    place, now = _place(lake, config), clock.now()
    windows = {one.downtime_id: one for one in read_downtimes(place)}
    if downtime_id not in windows:
        raise UsageError(f"{place.root} has no downtime {downtime_id}; {nearest(downtime_id, windows)}")
    window = windows[downtime_id]
    if window.until <= now:
        raise UsageError(f"downtime {downtime_id} ended at {words.clock(window.until)} already")
    _write(place, replace(window, until=now, author=author(), written_at=now))
    echo(f"{downtime_id}: ended")


@downtime_app.command("list")
def list_windows(
    lake: Lake = None,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Show the windows that are open, and those of the last seven days."""
    from pipelines.alerting.lookup import read_downtimes
    from pipelines.commands.show import tables
    from pipelines.verdict import words

    place, now = _place(lake, config), clock.now()
    rows = [
        {
            "id": one.downtime_id, "state": "open" if one.until > now else "ended", "cluster": one.cluster,
            "brokers": "all" if one.brokers is None else words.brokers(one.brokers), "begins": one.begins,
            "until": one.until, "reason": one.reason, "author": one.author,
        }
        for one in read_downtimes(place)
        if one.until > now - timedelta(days=7)
    ]  # fmt: skip
    echo(tables.as_table(rows, list(rows[0])) if rows else f"{place.root} has no downtime of the last seven days.")


def _place(lake: str | None, config: Path | None) -> Place:
    return settings_of_existing_lake(config, lake={"path": lake}).tables


def _write(place: Place, window: Downtime) -> None:
    from pipelines.alerting.downtime import to_arrow
    from schemas import downtimes

    place.append(downtimes.TABLE, to_arrow([window]))
