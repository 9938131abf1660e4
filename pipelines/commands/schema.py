"""`hwmark schema`: the tables of a lake, and what their columns mean."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.commands.common_options import Debug
from pipelines.commands.progress import echo
from pipelines.errors import UsageError


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
