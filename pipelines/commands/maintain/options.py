"""The options of `hwmark maintain`."""

from __future__ import annotations

from pipelines.commands.common_options import Config, Debug, Lake, settings_of_existing_lake
from pipelines.commands.progress import echo, steps


def maintain(lake: Lake = None, config: Config = None, debug: Debug = False) -> None:
    """Compact small files, drop what retention has outlived, and vacuum, never passing what the job has yet to read.

    \b
    Examples:
      hwmark maintain --lake lake                 from cron, once a day
    """
    from pipelines.commands.maintain import command
    from schemas import tables

    settings = settings_of_existing_lake(config, lake={"path": lake})
    keep = settings.maintain
    with steps("maintain", len(tables())) as say:
        for line in command.maintain(
            settings.lake.path,
            vacuum_hours=keep.vacuum_hours,
            bronze_days=keep.bronze_days,
            silver_days=keep.silver_days,
            lag_days=keep.lag_days,
            storage_options=settings.lake.storage_options,
            on_table=say,
        ):
            echo(line)
