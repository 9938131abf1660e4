"""The telemetry writers whose files lie below a list of paths, under names that are the same in every call."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from socket import gethostname

from generators.brokerlogs.discovery.archives import Archives
from generators.brokerlogs.discovery.codecs import plain_name
from generators.brokerlogs.discovery.heads import SETTINGS, is_dump, is_dump_name, is_printed, other_log, sniff_broker
from generators.brokerlogs.discovery.log_file import original
from generators.brokerlogs.discovery.log_series import Series, live_name
from generators.brokerlogs.discovery.walk import PathWalk
from pipelines.printable import file_name
from schemas.replication_events import as_int

BY_BROKER = "broker-"
"""The beginning of the ids of sources that are named by their broker."""
_SNIFFED = 8
"""Files of a log in which its broker is looked for."""


@dataclass(frozen=True)
class Source:
    """One telemetry writer: its id, its files, the broker it belongs to, that broker's settings file, why others of its
    files are not read, and a source that has lines of it."""

    source_id: str
    series: Series
    broker_id: int | None = None
    properties: Path | None = None
    unread: tuple[str, ...] = ()
    repeats: str | None = None

    def with_files_of(self, other: Source) -> Source:
        """The source with the files of another one, too."""
        return replace(
            self,
            series=replace(self.series, others=(*self.series.others, other.series, *other.series.others)),
            broker_id=self.broker_id if self.broker_id is not None else other.broker_id,
            properties=self.properties or other.properties,
            unread=tuple(dict.fromkeys([*self.unread, *other.unread])),
            repeats=self.repeats or other.repeats,
        )


@dataclass
class Discovery:
    """The sources found below a list of paths, in a fixed order, and a message on each path that is skipped."""

    sources: list[Source] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Those of the messages that say that nothing is at a path which was given."""
    printed: list[Path] = field(default_factory=list)
    """Files that Kafka's tools printed."""
    mixed: list[str] = field(default_factory=list)
    """Logs of several brokers that have one name."""
    brokers: dict[str, str] = field(default_factory=dict)
    """By source that was given a name, the one that its logs name themselves (`broker-1`, or a folder)."""


def discover(
    paths: Iterable[str | Path],
    *,
    zone: str = "UTC",
    name: str | None = None,
    archives: Archives | None = None,
    broker: int | None = None,
) -> Discovery:
    """Group files and folders into sources; only the first bytes of each file are read.

    `zone` is that of times without one, `name` stands for broker or path in the ids of the sources. What archives hold
    is read from `archives`, as long as that is kept. `broker`: whose logs they are, whatever they say themselves.
    """
    walk, found = PathWalk(paths, archives or Archives()), Discovery()
    by_id: dict[str, Source] = {}
    for folder, members in sorted(walk.folders.items()):
        duplicates = walk.duplicates.get(folder, {})
        for source in _sources_of(folder, sorted(members), folder not in walk.partly, duplicates, found):
            if broker is not None and source.broker_id != -1:
                own = file_name(f"{BY_BROKER}{broker}/{source.series.live}")
                source = replace(source, source_id=own, broker_id=broker)
            own, source_id = source.source_id.rpartition("/")[0], source.source_id
            if name:
                source_id = file_name(f"{name}/{source.series.live}")
                other = found.brokers.setdefault(source_id, own)
                if own.startswith(BY_BROKER) and other.startswith(BY_BROKER) and own != other:
                    found.mixed.append(f"{folder} is of {own}, other logs given are of {other}")
            unread, series = tuple(map(original, source.unread)), replace(source.series, zone=zone)
            source = replace(source, source_id=source_id, series=series, unread=unread)
            if first := by_id.get(source_id):
                found.messages.append(f"{folder}: read as one log with {first.series.folder}, both are {source_id}")
            by_id[source_id] = first.with_files_of(source) if first else source
    for path, reason in walk.unread.items():
        found.messages.append(reason)
        source = _nothing_but(path, original(reason))
        by_id.setdefault(source.source_id, source)
    found.missing[:] = map(original, walk.missing)
    found.messages[:] = [*found.missing, *map(original, [*walk.messages, *found.messages])]
    found.sources.extend(by_id[source_id] for source_id in sorted(by_id))
    return found


def _sources_of(
    folder: Path, members: list[str], whole: bool, duplicates: dict[str, Path], found: Discovery
) -> list[Source]:
    groups, others = _groups(folder, members, whole, found)
    if others:
        few = ", ".join(others[:4]) + (f" and {len(others) - 4:,} more" if len(others) > 4 else "")
        found.messages.append(f"{folder}: {len(others):,} files that are no logs, left out: {few}")
    settings = next((folder / name for name in SETTINGS if _node_id(folder / name) is not None), None)
    node = _node_id(settings) if settings else None
    named = {key: _named_broker(folder, files) for key, files in groups.items()}
    all_named = {broker for broker in named.values() if broker is not None}
    by_folder = as_int(folder.name.removeprefix(BY_BROKER)) if folder.name.startswith(BY_BROKER) else None
    only = all_named.pop() if len(all_named) == 1 else None
    result = []
    for (live, numbered), files in sorted(groups.items()):
        # a link to the live file whose target is in this series is resolved anew at every listing
        excluded = frozenset(
            name for name, original in duplicates.items() if original.parent != folder or original.name not in files
        )
        series = Series(folder, live, None if whole else frozenset(files), numbered, excluded)
        dumped = is_dump(folder / files[0])
        lines = named[live, numbered] if named[live, numbered] is not None else only
        own = node if node is not None or lines is None else lines if by_folder is None else by_folder
        properties = settings if settings and settings.name == SETTINGS[0] and not dumped else None
        result.append(Source(_source_id(series, own, dumped=dumped), series, -1 if dumped else node, properties))
    return result


def _nothing_but(path: Path, reason: str) -> Source:
    """The source that tells that a file was not read."""
    series = Series(path.parent, path.name, frozenset([path.name]), excluded=frozenset([path.name]))
    return Source(_source_id(series, None, dumped=False), series, unread=(reason,))


def _groups(
    folder: Path, members: list[str], whole: bool, found: Discovery
) -> tuple[dict[tuple[str, bool], list[str]], list[str]]:
    """Return files grouped by live name, and names that are no logs.

    A group's key is the live name and True if numbers stand before the suffix. Reasons to skip files, and prints of
    tools, are appended to `found`.
    """
    groups: dict[tuple[str, bool], list[str]] = defaultdict(list)
    others = list[str]()
    stems = {name: live_name(name) for name in members}
    by_stem: dict[str | None, list[str]] = defaultdict(list)
    for name, stem in stems.items():
        by_stem[stem].append(name)
    numbered = {
        stem
        for stem, names in by_stem.items()
        if stem and len(names) > 1 and any(live_name(name, numbered=False) != stem for name in names)
        if stem in map(plain_name, stems) or len({sniff_broker(folder / name) for name in names}) == 1
    }
    for name in members:
        stem, live = stems[name], live_name(name, numbered=False)
        if reason := _reason_to_skip(name):
            found.messages.append(f"{folder / name}: {reason}")
        elif (live is None or not whole) and is_printed(folder / name):
            found.printed.append(folder / name)
        elif live is not None and stem is not None:
            groups[(stem, True) if stem in numbered else (live, False)].append(name)
        elif name in SETTINGS:
            continue
        elif (live := other_log(folder, name)) or not whole:
            groups[live or name, False].append(name)
        else:
            others.append(name)
    return groups, others


def _named_broker(folder: Path, files: list[str]) -> int | None:
    """The broker that the first lines of these files name; the live one's change with each rotation, so all count."""
    named = (sniff_broker(folder / name) for name in files[:_SNIFFED])
    return next((broker for broker in named if broker is not None), None)


def _source_id(series: Series, broker: int | None, *, dumped: bool) -> str:
    """Return a source id that is the same in every call: from the broker if it is known, else from host and path."""
    if dumped and is_dump_name(series.live):
        return file_name(series.live)
    if broker is not None:
        return file_name(f"{BY_BROKER}{broker}/{series.live}")
    return file_name(f"{gethostname()}{original(str(series.folder))}/{series.live}")


def _reason_to_skip(name: str) -> str | None:
    if name.startswith("kafka-request"):
        return "request log, left out: kafka.cluster.Partition prints the same"
    if re.match(r"^\d{20}\.log", name):
        return "a log segment, not a log of events: left out (print the metadata log with kafka-dump-log)"
    if "gc.log" in name or name.startswith(("log-cleaner", "kafka-authorizer")):
        return "has no lines on replication, left out"
    return None


def _node_id(settings: Path) -> int | None:
    try:
        text = settings.read_text(errors="replace")
    except OSError:
        return None
    found = re.search(r"^\s*(?:node|broker)\.id\s*[=:]\s*(\d+)", text, re.MULTILINE)
    return int(found[1]) if found else None
