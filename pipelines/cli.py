"""The command `hwmark`: its subcommands, each from `pipelines/commands`, put together.

Whatever takes long to import stays inside the commands' functions, so that `hwmark --help` and `hwmark show` start
without Spark, numba and pandas.
"""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.commands.audit import audit
from pipelines.commands.catalog import catalog
from pipelines.commands.check import check
from pipelines.commands.common_options import set_log
from pipelines.commands.dashboard import dashboard
from pipelines.commands.demo.options import demo
from pipelines.commands.downtime import downtime_app
from pipelines.commands.exits import Commands, table
from pipelines.commands.forget.options import forget
from pipelines.commands.gate.options import gate
from pipelines.commands.ingest import ingest_logs
from pipelines.commands.ingest_disk import ingest_disk
from pipelines.commands.maintain.options import maintain
from pipelines.commands.note import note
from pipelines.commands.notify.options import notify
from pipelines.commands.progress import echo
from pipelines.commands.report import report
from pipelines.commands.rescue import rescue_app
from pipelines.commands.run import run
from pipelines.commands.schema import schema
from pipelines.commands.show.options import show
from pipelines.commands.simulate.options import simulate
from pipelines.commands.try_kafka.options import try_kafka
from pipelines.commands.watch.options import watch
from pipelines.commands.whatif import whatif


def _print(value: bool) -> None:
    if value:
        from importlib.metadata import version

        echo(f"hwmark {version('hwmark')}")
        raise typer.Exit()


Version = Annotated[bool, typer.Option("--version", callback=_print, is_eager=True, help="Print the version and exit.")]


app = typer.Typer(
    name="hwmark",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog=f"{table()}\n\n`hwmark COMMAND --help` has examples.",
)
ingest_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Bring telemetry into a lake.")
app.add_typer(ingest_app, name="ingest")
app.add_typer(rescue_app, name="rescue")
app.add_typer(downtime_app, name="downtime")
for command in (
    schema,
    watch,
    simulate,
    run,
    check,
    notify,
    note,
    show,
    dashboard,
    report,
    gate,
    audit,
    whatif,
    demo,
    maintain,
    forget,
    catalog,
):
    app.command()(command)
app.command("try")(try_kafka)
ingest_app.command("logs")(ingest_logs)
ingest_app.command("disk")(ingest_disk)


@app.callback()
def options(
    version: Version = False,
    log_format: Annotated[str | None, typer.Option(metavar="json", help="Lines on stderr: plain or json.")] = None,
    log_level: Annotated[
        str | None,
        typer.Option(metavar="info", help="Lines on stderr from debug, info, warning or error on."),
    ] = None,
) -> None:
    """Where every Kafka partition's high watermark really is, who holds it back, and what was lost."""
    set_log(log_format, log_level)
