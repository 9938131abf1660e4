"""Which files belong to one telemetry writer: a live log, the files it was rotated to, their order in time."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from generators.brokerlogs.discovery.log_file import LogBytes
from generators.brokerlogs.discovery.walk import PathWalk, without_duplicates
from pipelines.printable import file_name

SNIFF = 1 << 16

_ROTATED = re.compile(r"^(?P<live>.+?\.(?:log|out|dump))(?:[.\-_](?:\d{1,5}|\d{4}-?\d\d-?\d\d[\d\-T_]*))*$")
_MISNAMED = ("stage-change.log", "state-change.log")
"""Kafka 4's log4j2.yaml rotates the second to the first."""
_NUMBERED = re.compile(r"^(?P<stem>.+?)-(?:\d{1,5}|\d{4}-?\d\d-?\d\d[\d\-T_.]*)\.log$")
_BROKER = re.compile(rb"broker=(\d+)\]|\[Broker id=(\d+)\]|replicaId=(\d+), leaderId|(?:Controller|Server) id=(\d+)\]")
_TIME = re.compile(
    rb"(?:^|\n)[^\n]{0,24}?(?:(?<!\d)(\d{13})(?!\d)|(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)[,.](\d{3}))"
    rb"|CreateTime: (\d{13})"
)


@dataclass(frozen=True)
class Series:
    """The files of one writer in one folder: `live` and the files it was rotated to.

    `named`: only these names, None for all. `numbered`: numbers stand before the suffix. `excluded`: names that are
    other names of files read elsewhere.
    """

    folder: Path
    live: str
    named: frozenset[str] | None = None
    numbered: bool = False
    excluded: frozenset[str] = frozenset()

    def files(self) -> list[Path]:
        """The files there are now, oldest first; the live one is last whatever its times are."""
        names = self._names()
        plain = {name for name in names if not name.endswith(".gz")}
        kept = [self.folder / name for name in names if name.removesuffix(".gz") not in plain or name in plain]
        kept = without_duplicates(sorted(kept, key=lambda path: path.name != self.live))
        return sorted(kept, key=lambda path: (path.name == self.live, *_first_time(path)))

    def oldest(self) -> Path | None:
        """The oldest file to read where nothing has been read before."""
        return next((path for path in self.files() if self.named is None or path.name in self.named), None)

    def _names(self) -> list[str]:
        try:
            there = [entry.name for entry in self.folder.iterdir() if entry.name not in self.excluded]
        except OSError:
            return []
        if self.named is not None and self.live not in self.named:
            return [name for name in there if name in self.named]
        return [name for name in there if live_name(name, self.numbered) == self.live]


@dataclass(frozen=True)
class Source:
    """One telemetry writer: its id, its files, the broker it belongs to and that broker's settings file."""

    source_id: str
    series: Series
    broker_id: int | None = None
    properties: Path | None = None


@dataclass
class Discovery:
    """The sources found below a list of paths, in a fixed order, and a message on each path that is skipped."""

    sources: list[Source] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)


def live_name(name: str, numbered: bool = True) -> str | None:
    """The live log that `name` was rotated from (itself, if it is live); None for what is no log.

    With `numbered`, `rep-1.log` and `rep-2026-11-20.log` belong to `rep.log`.
    """
    plain = name.removesuffix(".gz").replace(*_MISNAMED)
    if numbered and (found := _NUMBERED.match(plain)):
        return found["stem"] + ".log"
    found = _ROTATED.match(plain)
    return found["live"] if found else None


def discover(paths: Iterable[str | Path]) -> Discovery:
    """Group files and folders into sources; only the first bytes of each file are read."""
    walk, found = PathWalk(paths), Discovery()
    entries: list[tuple[Series, int | None, Path | None]] = []
    for folder, members in walk.folders.items():
        duplicates = walk.duplicates.get(folder, {})
        entries.extend(_sources_of(folder, sorted(members), folder not in walk.partly, duplicates, found.messages))
    found.messages[:0] = walk.messages
    ids = _unique_ids([series for series, _, _ in entries])
    for (series, broker, settings), source_id in zip(entries, ids, strict=True):
        found.sources.append(Source(source_id, series, broker, settings))
    found.sources.sort(key=lambda source: source.source_id)
    return found


def _sources_of(
    folder: Path, members: list[str], whole: bool, duplicates: dict[str, Path], messages: list[str]
) -> list[tuple[Series, int | None, Path | None]]:
    settings = folder / "server.properties"
    node = _node_id(settings)
    groups: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for name in members:
        if reason := _reason_to_skip(name):
            messages.append(f"{folder / name}: {reason}")
        elif (key := _group(folder, name, members)) is not None:
            groups[key].append(name)
        elif not whole and name != settings.name:
            groups[name, False].append(name)
    result = []
    for (live, numbered), files in sorted(groups.items()):
        # a link to the live file whose target is in this series is resolved anew at every listing
        excluded = frozenset(
            name for name, original in duplicates.items() if original.parent != folder or original.name not in files
        )
        series = Series(folder, live, None if whole else frozenset(files), numbered, excluded)
        broker = -1 if _is_dump(folder / files[0]) else node
        result.append((series, broker, settings if node is not None and broker != -1 else None))
    return result


def _group(folder: Path, name: str, members: list[str]) -> tuple[str, bool] | None:
    """The live name of a file, and whether its series is numbered before the suffix."""
    live = live_name(name, numbered=False)
    stem = live_name(name)
    if live is None or stem is None:
        return None
    siblings = [other for other in members if live_name(other) == stem]
    one_writer = stem in members or f"{stem}.gz" in members or len({sniff_broker(folder / s) for s in siblings}) == 1
    if len(siblings) > 1 and one_writer and any(live_name(s, numbered=False) != stem for s in siblings):
        return stem, True
    return live, False


def _reason_to_skip(name: str) -> str | None:
    if name.startswith("kafka-request"):
        return "request log, left out: kafka.cluster.Partition prints the same"
    if re.match(r"^\d{20}\.log", name):
        return "a log segment, not a log of events: left out (print the metadata log with kafka-dump-log)"
    if "gc.log" in name or name.startswith(("log-cleaner", "kafka-authorizer")):
        return "has no lines on replication, left out"
    return None


def _unique_ids(series: list[Series]) -> list[str]:
    """`folder/live` per series, with as many parent folders as make it unique; a dump has its file name."""
    ids = [file_name(one.live if _is_dump_name(one.live) else f"{one.folder.name}/{one.live}") for one in series]
    depth, deepest = 1, max((len(one.folder.parts) for one in series), default=0)
    while len(set(ids)) < len(ids) and depth < deepest:
        depth, counts = depth + 1, Counter(ids)
        ids = [
            file_name("/".join([*one.folder.parts[-depth:], one.live])) if counts[name] > 1 else name
            for one, name in zip(series, ids, strict=True)
        ]
    return ids


def _is_dump_name(name: str) -> bool:
    return name.startswith("metadata.dump")


def _is_dump(path: Path) -> bool:
    head = LogBytes(path).read(SNIFF)
    return _is_dump_name(path.name) or b"\n| offset: " in head or head.startswith(b"Dumping ")


def _node_id(settings: Path) -> int | None:
    try:
        text = settings.read_text(errors="replace")
    except OSError:
        return None
    found = re.search(r"^\s*(?:node|broker)\.id\s*[=:]\s*(\d+)", text, re.MULTILINE)
    return int(found[1]) if found else None


def sniff_broker(path: Path) -> int | None:
    """The broker whose log this is, from its first bytes; None where they do not name it."""
    found = _BROKER.search(LogBytes(path).read(SNIFF))
    return int(next(group for group in found.groups() if group)) if found else None


def last_written(path: Path) -> int:
    """When the file was last written (ns), 0 where it is gone."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _first_time(path: Path) -> tuple[float, str]:
    """First time in the file (ms, zone unknown), else the time it was last written."""
    found = _TIME.search(LogBytes(path).read(SNIFF))
    if found is None:
        return last_written(path) / 1e6, path.name
    millis, day, time, fraction, created = found.groups()
    if day:
        moment = datetime.fromisoformat(f"{day.decode()}T{time.decode()}").replace(tzinfo=UTC)
        return moment.timestamp() * 1000 + int(fraction), path.name
    return float(millis or created), path.name
