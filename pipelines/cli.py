"""The command `hwmark`: its subcommands, each from `pipelines/commands`, put together.

Whatever takes long to import stays inside the commands' functions, so that `hwmark --help` and `hwmark show` start
without Spark, numba and pandas.
"""

from __future__ import annotations

import typer

from pipelines.commands.bench import bench
from pipelines.commands.check import check
from pipelines.commands.demo.options import demo
from pipelines.commands.exits import Commands
from pipelines.commands.ingest import ingest_logs
from pipelines.commands.maintain.options import maintain
from pipelines.commands.run import run
from pipelines.commands.schema import schema
from pipelines.commands.show.options import show
from pipelines.commands.simulate.options import simulate

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
for command in (schema, run, check, demo, maintain, simulate, bench, show):
    app.command()(command)
ingest_app.command("logs")(ingest_logs)


def main() -> None:
    """The console script."""
    from pipelines.setup import share_compiled_kernels

    share_compiled_kernels()
    app(prog_name="hwmark")


if __name__ == "__main__":
    main()
