"""`hwmark rescue`: records that a start would cut, to a file, and from there to a topic."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.commands.common_options import Config, Debug, settings_of
from pipelines.commands.progress import echo
from pipelines.errors import UsageError

if TYPE_CHECKING:
    from generators.disks.rescue import Range

rescue_app = typer.Typer(rich_markup_mode=None, invoke_without_command=True)


@rescue_app.callback()
def rescue(
    context: typer.Context,
    source: Annotated[
        Path | None, typer.Option("--from", metavar="DIR", help="The log directory that has them.")
    ] = None,
    survivors: Annotated[
        list[Path] | None, typer.Option("--beside", metavar="DIR", help="Log directories of surviving replicas.")
    ] = None,
    topic: Annotated[str | None, typer.Option(metavar="T", help="The topic.")] = None,
    partition: Annotated[int, typer.Option(metavar="P", help="Its partition.")] = 0,
    offsets: Annotated[
        str | None, typer.Option(metavar="A..B", help="First and last offset; without: what no --beside has.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A new .parquet or .jsonl file; without: only count.")
    ] = None,
) -> None:
    """Copy records out of a stopped broker's log directory, before its start cuts them.

    Every record is written whole, with what is known of it: below the high watermark or beyond it, how its transaction
    ended, whether a surviving log has it. Directories that end in -delete or -stray and segments that end in .deleted
    are read, too. Nothing below DIR is written.

    \b
    Examples:
      hwmark rescue --from /mnt/broker-1 --beside /mnt/broker-2 --topic orders --partition 0
      hwmark rescue --from /mnt/broker-1 --topic orders --partition 0 --offsets 120..299 --out orders-0.parquet
      hwmark rescue produce orders-0.parquet --bootstrap kafka-1:9092 --topic orders-rescued
    """
    if context.invoked_subcommand is not None:
        return
    from generators.disks.directories import find_log_directories
    from generators.disks.rescue import Rescue, RescueSummary, write

    if source is None or topic is None:
        raise UsageError("which records? Name --from DIR, --topic T and --partition P")
    chosen, place = _range(offsets), (topic, partition)
    directories = [one for one in find_log_directories([source]) if any(p.place == place for p in one.partitions)]
    if len(directories) != 1:
        has = f"{len(directories)} log directories with" if directories else "no directory of"
        raise UsageError(f"{source} has {has} {topic}-{partition}: name the one to copy from")
    beside = find_log_directories(survivors) if survivors else []
    work = Rescue(directories[0], place, beside)
    wanted = chosen or work.divergence()
    summary = RescueSummary(place, wanted)
    tables = work.rows(wanted, summary)
    if out is None:
        for _ in tables:
            pass
    else:
        summary.sha256 = write(tables, out, [source, *(survivors or [])])
    echo("\n".join(summary.lines(out)))


def _range(text: str | None) -> Range | None:
    from generators.disks.rescue import Range

    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,18})\.\.(\d{1,18})", text)
    if not match or int(match[1]) > int(match[2]):
        raise UsageError(f"--offsets {text} is no range: say first..last, as 120..299")
    return Range(int(match[1]), int(match[2]) + 1)


@rescue_app.command("produce")
def produce(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `hwmark rescue --out` wrote.")],
    bootstrap: Annotated[str, typer.Option(metavar="HOST:PORT,...", help="The cluster.")],
    topic: Annotated[str, typer.Option(metavar="T", help="A new topic, not the original.")],
    write: Annotated[bool, typer.Option("--write", help="Do it; without: only say what would be written.")] = False,
    include: Annotated[
        list[str] | None, typer.Option(metavar="aborted|open", help="Write these, too; again for more.")
    ] = None,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Write rescued records to a new topic, but those that a surviving log has and those never committed.

    How they come back into use from there is for their owner. Security and passwords: [watch] of the configuration.
    """
    from generators.disks.rescue import read
    from generators.disks.write_back import LEFT_OUT, write_back
    from pipelines.commands.watch.command import watch_options

    if unknown := set(include or ()) - set(LEFT_OUT[1:]):
        raise UsageError(f"--include {min(unknown)}: say aborted or open")
    if not file.is_file():
        raise UsageError(f"there is no file {file}: name one that `hwmark rescue --out` wrote")
    settings = settings_of(config, watch={"bootstrap": bootstrap})
    security = watch_options(settings.watch, debug=debug).security
    counts = write_back(read(file), topic, bootstrap, security, included=include or (), dry_run=not write)
    lines = [f"{count:,} {words}" for words, count in sorted(counts.items())]
    echo(
        "\n".join([f"{file} to {topic}:", *(f"  {line}" for line in lines)] + ([] if write else ["  --write does it"]))
    )
