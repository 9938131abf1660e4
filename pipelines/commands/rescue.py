"""`hwmark rescue`: records that a start would cut, to a file, and from there to a topic."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.commands.common_options import Config, Debug, Lake, settings_of, settings_of_existing_lake
from pipelines.commands.exits import RESCUE_NOT_WHOLE
from pipelines.commands.progress import echo, working
from pipelines.errors import UsageError

if TYPE_CHECKING:
    from generators.disks.checkpoints import Place
    from generators.disks.directories import LogDirectory
    from generators.disks.rescue import Range
    from pipelines.settings import Settings

_BY_NAME = "name --topic, --partition and --beside instead"
rescue_app = typer.Typer(rich_markup_mode=None, invoke_without_command=True)


@rescue_app.callback()
def rescue(
    context: typer.Context,
    source: Annotated[
        Path | None, typer.Option("--from", metavar="DIR", help="The log directory to copy from.")
    ] = None,
    survivors: Annotated[
        list[Path] | None, typer.Option("--beside", metavar="DIR", help="Log directories of surviving replicas.")
    ] = None,
    topic: Annotated[str | None, typer.Option(metavar="T", help="The topic.")] = None,
    partition: Annotated[int | None, typer.Option(metavar="P", help="Its partition, if it has several.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All losses of --lake that this disk has.")] = False,
    cluster: Annotated[str | None, typer.Option(metavar="NAME", help="With --all: whose losses.")] = None,
    lake: Lake = None,
    offsets: Annotated[
        str | None, typer.Option(metavar="A..B", help="First and last offset; without: all that no --beside has.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A new .parquet or .jsonl file, a folder with --all; without: only count."),
    ] = None,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Copy records out of a stopped broker's log directory before a start cuts them.

    Every record is written whole, with what is known of it: below the high watermark or beyond it, how its transaction
    ended, whether a surviving log has it. Directories that end in -delete, -stray or -future and segments that end in
    .deleted are read, too. Nothing below DIR is written. Exit status 4: something could not be read
    and was left out.

    \b
    Examples:
      hwmark rescue --from /mnt/broker-1 --beside /mnt/broker-2 --topic orders --partition 0
      hwmark rescue --from /mnt/broker-1 --topic orders --partition 0 --offsets 120..299 --out orders-0.parquet
      hwmark rescue --from /mnt/broker-1 --all --cluster prod --lake lake --out rescued/
      hwmark rescue produce orders-0.parquet --bootstrap kafka-1:9092 --topic orders-rescued
    """
    if context.invoked_subcommand is not None:
        return
    from generators.disks.directories import find_log_directories, require_one_cluster

    if source is None or every == (topic is not None):
        raise UsageError("which records? Name --from DIR, and --topic T and --partition P, or --all with --lake")
    found, beside = find_log_directories([source]), find_log_directories(survivors or []) if survivors else []
    require_one_cluster([*found, *beside])
    inside = [source, *(survivors or [])]
    if not every:
        assert topic is not None
        place = topic, _only_partition(found, topic) if partition is None else partition
        lines, whole = _rescue(found, place, _range(offsets), beside, out, inside)
        echo("\n".join(lines))
        if not whole:
            raise typer.Exit(RESCUE_NOT_WHOLE)
        return
    if cluster is None:
        raise UsageError("whose losses? Name the cluster with --cluster")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    settings = settings_of_existing_lake(config, lake={"path": lake})
    losses, without = losses_with_range(settings, cluster)
    every_whole = True
    with working("rescue", each=False) as say:
        for lines, whole in _rescue_all(found, losses, beside, out, inside, say):
            every_whole = every_whole and whole
            for line in lines:
                echo(line)
    if without:
        echo(f"{without:,} losses have no range of offsets: {_BY_NAME}")
    if not every_whole:
        raise typer.Exit(RESCUE_NOT_WHOLE)


def _only_partition(directories: Sequence[LogDirectory], topic: str) -> int:
    """The partition of a topic that these directories have. Raises UsageError if they have several."""
    places = (partition.place for one in directories for partition in one.partitions)
    here = sorted({number for name, number in places if name == topic})
    if len(here) > 1:
        several = ", ".join(map(str, here[:8])) + (", …" if len(here) > 8 else "")
        raise UsageError(f"which partition of {topic}? There are {several}: name it with --partition")
    return here[0] if here else 0


def losses_with_range(settings: Settings, cluster: str) -> tuple[list[dict[str, Any]], int]:
    """The losses of a cluster with a known range, each partition's ranges joined, and the number of those without.

    Raises UsageError if there are none with a range.
    """
    from pipelines.lake.queries import Filter, rows
    from pipelines.verdict.known import refuse_unknown

    place = settings.tables
    found, _ = rows(place, "serious", Filter(cluster), 1_000_000)
    if not found:
        refuse_unknown(place, Filter(cluster))
    ranges: dict[tuple[Any, ...], dict[str, Any]] = {}
    known = [row for row in found if row["lost_from"] is not None and row["lost_to"] is not None]
    for row in known:
        one = ranges.setdefault((row["topic"], row["partition"], row["topic_id"]), dict(row))
        one["lost_from"] = min(one["lost_from"], row["lost_from"])
        one["lost_to"] = max(one["lost_to"], row["lost_to"])
    if not found:
        raise UsageError(f"the lake has no loss of {cluster}: let `hwmark run --once --drain` find it, or {_BY_NAME}")
    if not ranges:
        raise UsageError(f"no loss of {cluster} has a range of offsets: {_BY_NAME}")
    return [ranges[key] for key in sorted(ranges, key=str)], len(found) - len(known)


def _rescue_all(
    directories: Sequence[LogDirectory], losses: Sequence[dict[str, Any]], beside: Sequence[LogDirectory],
    out: Path | None, inside: Sequence[Path], say: Callable[[str], None],
) -> Iterator[tuple[list[str], bool]]:  # fmt: skip
    """Rescue each loss: its summary, and whether all was read; at last, the number of losses not on this disk."""
    from generators.disks.files import Unreadable
    from generators.disks.rescue import Range

    absent = 0
    for k, loss in enumerate(losses, 1):
        place, wanted = (loss["topic"], loss["partition"]), Range(loss["lost_from"], loss["lost_to"])
        say(f"{k:,} of {len(losses):,} losses")
        here = [one for one in directories if _has(one, place, loss["topic_id"])]
        absent += not here
        name = f"{place[0]}-{place[1]}.{wanted.start}-{wanted.end - 1}.parquet"
        try:
            if here:
                yield _rescue(here, place, wanted, beside, out / name if out else None, inside, loss["topic_id"])
        except (UsageError, Unreadable, OSError) as error:  # as a file that an earlier call wrote: the others follow
            yield [f"{place[0]}-{place[1]}: {error}"], False
    if absent:
        yield [f"{absent:,} losses are of partitions, or of earlier topics, that this disk does not have"], True


def _has(directory: LogDirectory, place: Place, topic_id: str | None) -> bool:
    """Whether a directory has a log of a partition that is, or may be, of the topic with this id."""
    from generators.disks.files import Unreadable

    try:
        ids = {one.topic_id for one in directory.partitions if one.place == place}
    except Unreadable:
        return True
    return bool(ids) and (topic_id is None or bool(ids & {topic_id, None}))


def _rescue(
    directories: Sequence[LogDirectory], place: Place, offsets: Range | None, beside: Sequence[LogDirectory],
    out: Path | None, inside: Sequence[Path], topic_id: str | None = None,
) -> tuple[list[str], bool]:  # fmt: skip
    """Rescue one partition; its summary, line by line, and whether all of it was read.

    Raises UsageError if not exactly one directory has it.
    """
    from generators.disks.rescue import Rescue, RescueSummary
    from generators.disks.rescue_files import write

    here = [one for one in directories if any(partition.place == place for partition in one.partitions)]
    if len(here) != 1:
        has = f"{len(here)} log directories have" if here else "no directory has"
        paths = ", ".join(str(one.path) for one in here or directories)
        raise UsageError(f"{has} {place[0]}-{place[1]} ({paths}): name the one to copy from")
    summary = RescueSummary(place, offsets)
    tables = Rescue(here[0], place, beside, topic_id).rows(offsets, summary)
    if out is None:
        for _ in tables:
            pass
    else:
        summary.sha256 = write(tables, out, inside)
    return summary.lines(out), not summary.damaged


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
        list[str] | None, typer.Option(metavar="aborted|open|unknown", help="Write these, too; again for more.")
    ] = None,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Write rescued records to a new topic, except those in a surviving log and those of uncommitted transactions.

    Their owner decides how they come back into use. Security and passwords: [watch] of the configuration.
    """
    from generators.disks.rescue_files import read
    from generators.disks.write_back import LEFT_OUT, write_back
    from pipelines.commands.watch.command import watch_options

    if unknown := set(include or ()) - set(LEFT_OUT[1:]):
        raise UsageError(f"--include {min(unknown)}: say aborted, open or unknown")
    if not file.is_file():
        raise UsageError(f"there is no file {file}: name one that `hwmark rescue --out` wrote")
    settings = settings_of(config, watch={"bootstrap": bootstrap})
    security = watch_options(settings.watch, debug=debug).security
    counts = write_back(lambda: read(file), topic, bootstrap, security, included=include or (), dry_run=not write)
    lines = [f"  {count:,} {words}" for words, count in sorted(counts.items())]
    echo("\n".join([f"{file} to {topic}:", *lines, *(["  --write does it"] if counts["to write"] else [])]))
