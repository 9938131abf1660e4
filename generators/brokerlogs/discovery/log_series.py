"""Which files belong to one telemetry writer: a live log, its rotated predecessors, their order in time."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from generators.brokerlogs.discovery.log_file import Bytes
from generators.brokerlogs.discovery.walk import Walk, once
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
    """The files of one writer in one folder: `live` and what it was rotated to, but for the names in `without`."""

    folder: Path
    live: str
    given: frozenset[str] | None = None
    numbered: bool = False
    without: frozenset[str] = frozenset()

    def files(self) -> list[Path]:
        """The files there are now, oldest first; the live one is last whatever it says."""
        names = self._names()
        plain = {name for name in names if not name.endswith(".gz")}
        kept = [self.folder / name for name in names if name.removesuffix(".gz") not in plain or name in plain]
        kept = once(sorted(kept, key=lambda path: path.name != self.live))
        return sorted(kept, key=lambda path: (path.name == self.live, *_age(path)))

    def first(self) -> Path | None:
        """The oldest file to read when nothing has been read before."""
        return next((path for path in self.files() if self.given is None or path.name in self.given), None)

    def _names(self) -> list[str]:
        try:
            there = [entry.name for entry in self.folder.iterdir() if entry.name not in self.without]
        except OSError:
            return []
        if self.given is not None and self.live not in self.given:
            return [name for name in there if name in self.given]
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
    """What a list of paths came to: sources in a fixed order, and a word on each path left aside."""

    sources: list[Source] = field(default_factory=list)
    words: list[str] = field(default_factory=list)


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
    """Group files and folders into sources; nothing is read but the first bytes of each file."""
    walk, found = Walk(paths), Discovery()
    entries: list[tuple[Series, int | None, Path | None]] = []
    for folder, members in walk.folders.items():
        aside = walk.aside.get(folder, {})
        entries.extend(_sources_of(folder, sorted(members), folder not in walk.partly, aside, found.words))
    found.words[:0] = walk.words
    ids = _unique_ids([series for series, _, _ in entries])
    for (series, broker, settings), source_id in zip(entries, ids, strict=True):
        found.sources.append(Source(source_id, series, broker, settings))
    found.sources.sort(key=lambda source: source.source_id)
    return found


def _sources_of(
    folder: Path, members: list[str], whole: bool, aside: dict[str, Path], words: list[str]
) -> list[tuple[Series, int | None, Path | None]]:
    settings = folder / "server.properties"
    node = _node_id(settings)
    groups: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for name in members:
        if reason := _left_aside(name):
            words.append(f"{folder / name}: {reason}")
        elif (key := _group(folder, name, members)) is not None:
            groups[key].append(name)
        elif not whole and name != settings.name:
            groups[name, False].append(name)
    result = []
    for (live, numbered), files in sorted(groups.items()):
        # a link to the file being written, among the files that it has led to, is looked at anew whenever they are
        without = frozenset(name for name, twin in aside.items() if twin.parent != folder or twin.name not in files)
        series = Series(folder, live, None if whole else frozenset(files), numbered, without)
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


def _left_aside(name: str) -> str | None:
    if name.startswith("kafka-request"):
        return "request log, recognised and left aside: it repeats what kafka.cluster.Partition tells"
    if re.match(r"^\d{20}\.log", name):
        return "a log segment, not a log of events: left aside (print the metadata log with kafka-dump-log)"
    if "gc.log" in name or name.startswith(("log-cleaner", "kafka-authorizer")):
        return "tells nothing of replication, left aside"
    return None


def _unique_ids(series: list[Series]) -> list[str]:
    """`folder/live` per series, with as many parent folders as it takes to tell them apart; a dump goes by its name."""
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
    head = Bytes(path).read(SNIFF)
    return _is_dump_name(path.name) or b"\n| offset: " in head or head.startswith(b"Dumping ")


def _node_id(settings: Path) -> int | None:
    try:
        text = settings.read_text(errors="replace")
    except OSError:
        return None
    found = re.search(r"^\s*(?:node|broker)\.id\s*[=:]\s*(\d+)", text, re.MULTILINE)
    return int(found[1]) if found else None


def sniff_broker(path: Path) -> int | None:
    """The broker that a log speaks for, from its first lines; None where they do not say."""
    found = _BROKER.search(Bytes(path).read(SNIFF))
    return int(next(group for group in found.groups() if group)) if found else None


def written(path: Path) -> int:
    """When the file was last written (ns), 0 once it is gone."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _age(path: Path) -> tuple[float, str]:
    """First time in the file (ms, zone unknown), else the time it was last written."""
    found = _TIME.search(Bytes(path).read(SNIFF))
    if found is None:
        return written(path) / 1e6, path.name
    millis, day, time, fraction, created = found.groups()
    if day:
        moment = datetime.fromisoformat(f"{day.decode()}T{time.decode()}").replace(tzinfo=UTC)
        return moment.timestamp() * 1000 + int(fraction), path.name
    return float(millis or created), path.name
