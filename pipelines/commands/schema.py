"""`hwmark schema`: the tables of a lake, and what their columns mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.commands.common_options import Debug, settings_of_existing_lake
from pipelines.commands.progress import echo, fitted
from pipelines.errors import UsageError

if TYPE_CHECKING:
    from schemas.declaration import Table


class Form(StrEnum):
    """The output formats of `hwmark schema`."""

    text = "text"
    json = "json"
    ddl = "ddl"


def _names(incomplete: str) -> list[str]:
    """The tables for a shell's completion."""
    from schemas import MODULES, TRUTH

    return [name for name in (*MODULES, *TRUTH) if name.startswith(incomplete)]


def schema(
    table: Annotated[
        str | None,
        typer.Argument(help="One table, such as partition_hw; all when left out.", autocompletion=_names),
    ] = None,
    truth: Annotated[
        bool, typer.Option("--truth", help="Those of what really happened in a simulated cluster.")
    ] = False,
    format: Annotated[Form, typer.Option(help="Words, JSON, or CREATE TABLE of Spark's SQL.")] = Form.text,
    lake: Annotated[
        str | None, typer.Option("--lake", metavar="DIR", help="With --format ddl: name the tables of this lake.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Print the tables of a lake, or of the truth beside it, their columns and what they mean.

    \b
    Examples:
      hwmark schema
      hwmark schema hw_regressions
      hwmark schema --format json
      hwmark schema --format ddl --lake /data/lake
      hwmark schema --truth truth_regressions
    """
    from pipelines.errors import nearest
    from schemas import tables, truths

    known = truths() if truth else tables()
    if table is not None and table not in known:
        raise UsageError(f"there is no table {table}; {nearest(table, known)}")
    if lake is not None and (format is not Form.ddl or truth):
        raise UsageError(f"--lake {lake} is the place of a lake's tables: it goes with --format ddl, without --truth")
    chosen = {name: known[name] for name in ([table] if table else known)}
    for text in _printed(chosen, format) if lake is None else _named(chosen, lake):
        echo(text)


def _printed(chosen: Mapping[str, Table], form: Form) -> Iterator[str]:
    if form is Form.json:
        import json

        yield json.dumps({name: table.as_data() for name, table in chosen.items()}, indent=1)
    elif form is Form.ddl:
        yield from (f"{table.ddl()}\n" for table in chosen.values())
    else:
        yield from ("\n".join(map(fitted, table.describe().splitlines())) + "\n" for table in chosen.values())


def _named(chosen: Mapping[str, Table], lake: str) -> Iterator[str]:
    """Statements for the tables that a lake has; a local one by its absolute path, as a catalog has its own folder."""
    from pipelines.lake.file_systems import local_path
    from pipelines.lake.lake import Lake
    from pipelines.streaming.hadoop import spark_uri

    settings = settings_of_existing_lake(None, lake={"path": lake})
    folder = local_path(lake)
    place = Lake(lake if folder is None else str(folder.absolute()), settings.lake.storage_options)
    yield from (f"{table.ddl(spark_uri(place.uri(table)))}\n" for table in chosen.values() if place.has_table(table))
