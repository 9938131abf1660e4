"""The files of one telemetry writer: a live log and the files to which it was rotated, in order of time."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import merge
from math import inf
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple
from zoneinfo import ZoneInfo

from generators.brokerlogs.discovery.codecs import plain_name
from generators.brokerlogs.discovery.file_order import oldest_first, rotated_name
from generators.brokerlogs.discovery.heads import first_bytes, other_log
from generators.brokerlogs.discovery.listing import Listing
from generators.brokerlogs.discovery.log_file import is_settled
from generators.brokerlogs.discovery.walk import Identity

_ROTATED = re.compile(r"^(?P<live>.+?\.(?:log|out|dump))(?:[.\-_](?:\d{1,9}|\d{4}-?\d\d-?\d\d[\d\-T_]*))*$")
_MISNAMED = ("stage-change.log", "state-change.log")
"""Kafka 4's log4j2.yaml rotates the second to the first."""
_NUMBERED = re.compile(r"^(?P<stem>.+?)-(?:\d{1,5}|\d{4}-?\d\d-?\d\d[\d\-T_.]*)\.log$")
_TIME = re.compile(
    rb"(?:^|\n)[^\n]{0,24}?(?:(?<!\d)(\d{13})(?!\d)|(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)[,.](\d{3}))"
    rb"|CreateTime: (\d{13})"
)


class Entry(NamedTuple):
    """A file as a listing shows it.

    `key`: device and inode. `offered`: False for a file that was not named. `number`: the number in the file name, -1
    if the name has none. The live file has number 0 if the least number is the newest file, else -1.
    """

    path: Path
    key: Identity
    size: int
    mtime_ns: int
    live: bool
    offered: bool
    number: int = -1


@dataclass(frozen=True)
class Series:
    """The files of one writer in one folder: `live` and the files it was rotated to.

    `named`: only these names, None for all; others show the order. `numbered`: numbers stand before the suffix.
    `excluded`: names that are other names of files read elsewhere. `zone`: of times without one. `others`: folders with
    more files of that writer.
    """

    folder: Path
    live: str
    named: frozenset[str] | None = None
    numbered: bool = False
    excluded: frozenset[str] = frozenset()
    zone: str = "UTC"
    others: tuple[Series, ...] = ()
    _times: dict[tuple[Identity, int], tuple[bool, float]] = field(default_factory=dict, compare=False, repr=False)
    """First times by key and time of the last writing, and False for those that hold for one listing only."""
    listing: Listing = field(default_factory=Listing, compare=False, repr=False)

    def entries(self) -> list[Entry]:
        """The files there are now, oldest first, live ones last. Raises OSError where a folder cannot be listed."""
        by_key: dict[Identity, Entry] = {}
        for series in (self, *self.others):
            for entry in sorted(series._listed(), key=lambda entry: not entry.live):
                by_key.setdefault(entry.key, entry)
        rotated, live = ([entry for entry in by_key.values() if entry.live is is_live] for is_live in (False, True))
        there = {(entry.key, entry.mtime_ns) for entry in by_key.values()}
        times = {key: time for key, time in self._times.items() if key in there and time[0]}
        self._times.clear()
        self._times.update(times)
        names = [rotated_name(plain_name(entry.path.name), self.live) for entry in rotated]
        order = oldest_first(names, lambda k: self._first_time(rotated[k]), lambda: self._last_time(rotated, live))
        numbers = [names[k].number if not names[k].date else -1 for k in order]
        last = (
            0 if (numbers and numbers == sorted(numbers, reverse=True) and len(numbers) > 1) or numbers == [1] else -1
        )
        ordered = [rotated[k]._replace(number=number) for k, number in zip(order, numbers, strict=True)]
        distinct = len({*names})
        if distinct < len(names):  # files of one name in several folders: copies, or parts of a time of their own
            begun = {(name, self._first_time(entry)) for name, entry in zip(names, rotated, strict=True)}
            if len(begun) > distinct:
                return self._folder_by_folder([*ordered, *(entry._replace(number=last) for entry in live)])
        past = self._past(ordered, live) if len(live) > 1 else []
        for at, _, entry in sorted(past, reverse=True):
            ordered.insert(at, entry)
        return ordered + [entry._replace(number=last) for entry in live if entry not in ordered]

    def _last_time(self, rotated: Sequence[Entry], live: Sequence[Entry]) -> float:
        """First time of the live file, infinite if there are only copies of it as it was before it was rotated."""
        return max({*map(self._first_time, live)}.difference(map(self._first_time, rotated)), default=inf)

    def _past(self, rotated: Sequence[Entry], live: Sequence[Entry]) -> list[tuple[int, float, Entry]]:
        """Copy of the live file as it was before: behind so many rotated files, first times, and the copies."""
        times = [*map(self._first_time, rotated)]
        now = max(map(self._first_time, live), key=lambda time: (time not in times, time))
        past = []
        for time, entry in ((self._first_time(entry), entry) for entry in live):
            later = next((k for k, other in enumerate(times) if other > time), len(times))
            if time != now:
                past.append((times.index(time) + 1 if time in times else later, time, entry))
        return past

    def _folder_by_folder(self, entries: Sequence[Entry]) -> list[Entry]:
        """These files by their first times, those of one folder in the order that they have."""
        parts = defaultdict[Path, list[Entry]](list)
        for entry in entries:
            parts[entry.path.parent].append(entry)
        return [*merge(*parts.values(), key=self._first_time)]

    def is_empty(self) -> bool:
        """Whether there is no byte in its files yet."""
        try:
            return not any(entry.size for entry in self.entries())
        except OSError:
            return False

    def has_live(self) -> bool:
        """Whether a file is given that was not rotated: what follows a rotated one is in another file."""
        try:
            listed = [(one.live, entry) for one in (self, *self.others) for entry in one._listed()]
        except OSError:
            return False
        return any(entry.offered and plain_name(entry.path.name) == live for live, entry in listed)

    def written(self) -> float:
        """When (s) the live file, or its folder, was written last; 0 where neither is there."""
        there = [path for path in (self.folder / self.live, self.folder) if path.exists()]
        return there[0].stat().st_mtime if there else 0.0

    def _first_time(self, entry: Entry) -> float:
        key = entry.key, entry.mtime_ns
        if key not in self._times:
            self._times[key] = is_settled(entry.mtime_ns), _first_time(entry, ZoneInfo(self.zone))
        return self._times[key][1]

    def _listed(self) -> list[Entry]:
        there = [name for name in os.listdir(self.folder) if name not in self.excluded]
        names = {name for name in there if self._is_mine(name)}
        found = []
        for name in sorted(name for name in names if plain_name(name) == name or plain_name(name) not in names):
            path = self.folder / name
            try:
                stat = path.stat()
            except FileNotFoundError:
                continue
            if not S_ISREG(stat.st_mode):  # a pipe would never end to be opened
                continue
            offered = self.named is None or name in self.named
            key = stat.st_dev, stat.st_ino
            found.append(Entry(path, key, stat.st_size, stat.st_mtime_ns, name == self.live, offered))
        return found

    def _is_mine(self, name: str) -> bool:
        live = live_name(name, self.numbered)
        is_given = self.named is not None and name in self.named
        return is_given or live == self.live or (live is None and other_log(self.folder, name) == self.live)


def live_name(name: str, numbered: bool = True) -> str | None:
    """The live log that `name` was rotated from (itself, if it is live); None for what is no log.

    With `numbered`, `rep-1.log` and `rep-2026-11-20.log` belong to `rep.log`.
    """
    plain = plain_name(name).replace(*_MISNAMED)
    if numbered and (found := _NUMBERED.match(plain)):
        return found["stem"] + ".log"
    found = _ROTATED.match(plain)
    return found["live"] if found else None


def _first_time(entry: Entry, zone: ZoneInfo) -> float:
    """First time in the file (ms), else the time it was last written."""
    found = _TIME.search(first_bytes(entry.path))
    if found is None:
        return entry.mtime_ns / 1e6
    millis, day, time, fraction, created = found.groups()
    if day:
        moment = datetime.fromisoformat(f"{day.decode()}T{time.decode()}").replace(tzinfo=zone)
        return moment.timestamp() * 1000 + int(fraction)
    return float(millis or created)
