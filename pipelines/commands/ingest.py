"""`hwmark ingest logs`: Kafka's log files to events of a lake."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipelines.commands.common_options import Config, Debug, Lake, settings_of
from pipelines.commands.exits import NOT_UNDERSTOOD
from pipelines.commands.progress import echo
from pipelines.commands.stopping import until_stopped


def ingest_logs(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Log files, folders, archives, or - for a pipe.", readable=False),
    ],
    cluster: Annotated[str, typer.Option(metavar="NAME", help="The cluster they belong to.")],
    lake: Lake = None,
    source: Annotated[
        str | None, typer.Option(metavar="NAME", help="Names the sources, where neither broker nor path shall.")
    ] = None,
    broker: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Whose logs they are, where their lines do not say.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on reading as the files grow and rotate.")] = False,
    timezone: Annotated[str | None, typer.Option(metavar="ZONE", help="Of times without one (stock pattern).")] = None,
    pattern: Annotated[
        str | None, typer.Option(metavar="LAYOUT", help="log4j PatternLayout, if a layout is not found by itself.")
    ] = None,
    printed_at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="When Kafka's tools printed what is given of theirs (UTC)."),
    ] = None,
    internal_topics: Annotated[bool | None, typer.Option(help="Include __consumer_offsets and the like.")] = None,
    coalesce: Annotated[bool | None, typer.Option(help="Unchanged fetches of a replica become one row.")] = None,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Turn Kafka broker logs (any layout, envelope, compression or archive, rotated) into events of a lake.

    \b
    Examples:
      hwmark ingest logs /var/log/kafka --cluster prod --lake lake
      hwmark ingest logs broker-1/ broker-2/ broker-3/ --cluster prod --lake lake
      hwmark ingest logs /var/log/kafka --cluster prod --lake lake --follow
      kubectl logs kafka-0 | hwmark ingest logs - --cluster prod --lake lake
      hwmark ingest logs describe.txt offsets.txt --printed-at 2026-11-28T03:00Z --cluster prod --lake lake
    """
    from generators.brokerlogs.ingest import ReadOptions
    from generators.brokerlogs.ingest import ingest_logs as ingest
    from pipelines.commands.progress import progress, working
    from pipelines.verdict.since import moment_of

    given = {"pattern": pattern, "timezone": timezone, "internal_topics": internal_topics, "coalesce": coalesce}
    settings = settings_of(config, lake={"path": lake}, ingest=given)
    with (progress if follow else working)("ingest") as say:
        summary = ingest(
            paths,
            cluster=cluster,
            lake=settings.lake.path,
            follow=follow,
            options=ReadOptions(
                **settings.ingest.model_dump(exclude={"coalesce"}),
                grace_ms=settings.rules.reorder_grace_ms,
                coalesce_ms=settings.coalesce_ms,
                source=source,
                broker=broker,
                printed_at=moment_of("--printed-at", printed_at) if printed_at else None,
            ),
            on_progress=say,
            stop=until_stopped(),
            storage_options=settings.lake.storage_options,
        )
    echo("\n".join(summary.lines()))
    if summary.unread() or summary.left_out or summary.missing:
        raise typer.Exit(NOT_UNDERSTOOD)
