"""Checkpoints of the ingest: per source and version the read position, parser state, numbers and the digests of the
lines told, written before its rows."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from socket import gethostname
from typing import Any

import numpy as np
from msgspec import convert
from pyarrow.fs import FileSelector, FileType

from generators.brokerlogs.discovery.sources import BY_BROKER, Source
from generators.brokerlogs.tailing.line_digests import Digests
from generators.brokerlogs.tailing.told_lines import REMEMBERED, Stretch, remembered
from generators.brokerlogs.tailing.windows import Spans, merge_sources, owner, same_logs
from pipelines.lake.bronze import committed, read_events
from pipelines.lake.file_systems import StorageOptions, file_system, local_path, path_part, sync
from schemas.replication_events import OLDER, writer

VERSION = 1
"""The version of the form of checkpoints; another one is taken for a damaged one."""
_JOINED = "="
"""With it begins the id of a source among the places of others, as no name of a host does."""
_EXCERPT = "~"
"""So, too, begins that of one that is an excerpt of another."""
SEGMENT = 1 << 14
"""Digests of so many lines become a file of their own, which is written once; fewer stand in the checkpoint."""


class Checkpoints:
    """States of the sources of one cluster below `<lake>/_ingest`; the versions committed in the lake are the valid
    ones."""

    def __init__(self, lake: str, cluster: str, storage_options: StorageOptions | None = None) -> None:
        self.lake, self.cluster, self.options = lake, cluster, storage_options
        self._local = local_path(lake)
        self._fs = file_system(lake, storage_options)
        self._versions: dict[str, int] = {}
        self._segments: dict[str, list[tuple[int, int]]] = {}
        """By source the first line and the number of lines of each file of digests."""
        self._forgotten: list[str] = []
        self.compared: dict[str, tuple[int | None, Spans]] = {}
        """Brokers of the sources with which new ones were compared, and the times when these told something."""
        self.excerpts: dict[str, str] = {}
        """Sources left out by this call, with those that have their lines."""
        self._logs: dict[str, str] = {}
        """The ids under which sources are read on since a log was given that joins two."""

    def app_id(self, source_id: str) -> str:
        """The application id under which the lake's transaction log has the version of a source."""
        return f"ingest:{self.cluster}/{source_id}"

    def load(self, source_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The state after the last rows of each source in the lake, and of those for its older lines.

        Where it is damaged, or of another version, a new incarnation with the digests that are left.
        """
        states: dict[str, dict[str, Any]] = {name: {} for name in source_ids}
        names, looked_at = list(source_ids), set[str]()
        while names:
            looked_at.update(names)
            versions = committed(self.lake, [self.app_id(name) for name in names], self.options)
            known = {name: version for name in names if (version := versions[self.app_id(name)]) is not None}
            self._versions |= dict.fromkeys(names, -1) | known
            self._segments |= {name: [] for name in names}
            states |= {name: self._read(name, version) for name, version in known.items()}
            older = {
                f"{name}{OLDER}{number}"
                for name in known
                for number, _ in enumerate((states[name].get("place") or {"older": ()})["older"], 1)
            }
            states |= {name: {} for name in older - states.keys()}  # it had no rows yet
            joined = {name for name, log in self._logs.items() if log in known or log in names}
            names = sorted((older | joined | {_following(name) for name in known}) - looked_at)
        states |= {name: {**state, "log": self._logs.get(writer(name))} for name, state in states.items() if state}
        return states

    def keep_names(self, sources: list[Source], *, given: bool = False) -> list[str]:
        """Give these sources the ids under which their files were read before; return messages on ids that change.

        A source keeps an id made from its path even if its broker becomes known later. If files read as one broker now
        name another broker, they get the id of the other broker. An id that is `given`
        stays: other files may lie there now. What holds lines of another log of the same broker is read with that.
        """
        path, messages = f"_ingest/{path_part(self.cluster)}/names.json", list[str]()
        try:
            stored = convert(self._read_checked(path), dict[str, str])
            # a source that told no row yet is new, but for one that this call reads already
            known = {*stored.values()} if self._versions else self._with_rows(stored.values())
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            stored, known = {}, self._with_rows(self._read_sources())
            messages += [f"{path}: damaged or missing, logs are known by their lines"] if known else []
        self._set_joined(stored)
        names, places = dict(stored), list[str]()
        for k, source in enumerate(sources):
            places.append(f"{gethostname()}:{source.series.folder}/{source.series.live}")
            before, now = names.get(places[k], source.source_id), source.source_id
            if owner(before) != owner(now) and before.startswith(BY_BROKER) and now.startswith(BY_BROKER):
                messages.append(f"{source.series.folder}: read before as {before}, its files say {now} now")
                before = now
            if given and owner(before) != owner(now):
                messages.append(
                    f"{source.series.folder}: read before as {before}, and as {now} now: lines that were "
                    "read are told again"
                )
                before = now
            sources[k] = replace(source, source_id=before)
        compared = [source for source in sources if source.source_id not in self.excerpts]
        same = same_logs(compared, sorted(name for name in known if f"{_EXCERPT}{name}" not in names), self._told)
        ids = same.ids
        names |= {f"{_EXCERPT}{name}": log for name, log in same.excerpts.items() if name in known}
        self.excerpts |= same.excerpts
        names = {place: ids.get(name, name) for place, name in names.items()}
        names |= {f"{_JOINED}{name}": log for name, log in ids.items() if name in known and name != log}
        names |= {
            place: ids[source.source_id]
            for place, source in zip(places, sources, strict=True)
            if source.source_id not in self.excerpts
            if place in names or not source.series.is_empty()  # of which log it is shows the first line
        }
        messages += same.messages()
        sources[:] = merge_sources(sources, same._replace(excerpts=self.excerpts))
        self._set_joined(names)
        if names != stored:
            self._write_checked(path, names)
        return messages

    def _read_sources(self) -> list[str]:
        """Return the sources of which the lake has rows, those of other writers included; none at the first call."""
        selector = FileSelector(f"_ingest/{path_part(self.cluster)}", allow_not_found=True)
        if all(info.type != FileType.Directory for info in self._fs.get_file_info(selector)):
            return []
        rows = read_events(self.lake, columns=["source_id"], cluster=self.cluster, storage_options=self.options)
        names: list[str] = rows["source_id"].unique().to_pylist()
        return names

    def _with_rows(self, names: Collection[str]) -> set[str]:
        """Return those of the sources of which earlier calls told rows."""
        versions = committed(self.lake, [self.app_id(name) for name in names], self.options) if names else {}
        return {writer(name) for name in names if versions[self.app_id(name)] is not None}

    def _set_joined(self, names: Mapping[str, str]) -> None:
        self._logs = {name.removeprefix(_JOINED): log for name, log in names.items() if name.startswith(_JOINED)}

    def _told(self, source_id: str) -> list[Stretch]:
        """The lines told of a source, and of its older ones."""
        states = {name: state for name, state in self.load([source_id]).items() if "lines" in state}
        self.compared |= {
            name: (state.get("like", {}).get("broker_id"), state.get("spans", ())) for name, state in states.items()
        }
        return [state["lines"] for state in states.values()]

    def write(self, states: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
        """Write the next version of each source, durable when this returns; returns the versions to commit with the
        rows."""
        versions = {}
        for name, state in states.items():
            versions[name] = self._versions.setdefault(name, -1) + 1
            content = {**state, "lines": self._write_lines(name, state)}
            self._write_checked(self._path(name, f"{versions[name]}.json"), content)
        return {self.app_id(name): version for name, version in versions.items()}

    def mark_committed(self, source_ids: list[str]) -> None:
        """Mark the versions just written as committed, and delete the files that are no longer needed."""
        for path in self._forgotten:
            self._fs.delete_file(path)
        self._forgotten.clear()
        for name in source_ids:
            self._versions[name] += 1
            old = self._path(name, f"{self._versions[name] - 2}.json")
            if self._fs.get_file_info(old).type != FileType.NotFound:
                self._fs.delete_file(old)

    def _write_lines(self, name: str, state: Mapping[str, Any]) -> dict[str, Any]:
        """Digests of the lines told: those that are in no file yet are written to one, or returned."""
        stretch, place = state["lines"], state["place"]
        count, segments = place["count"] if place else 0, self._segments.setdefault(name, [])
        begin = sum(segments[-1]) if segments else stretch.first
        if count - begin >= SEGMENT:
            digests = stretch.lines(begin, count).tobytes()
            self._write(self._path(name, f"lines-{begin}"), digests + _sum(digests).encode())
            segments.append((begin, count - begin))
            begin = count
        while len(segments) > 1 and segments[1][0] < count - REMEMBERED:
            self._forgotten.append(self._path(name, f"lines-{segments.pop(0)[0]}"))
        stretch.forget(min(begin, count - self._remembered()))
        tail = b64encode(stretch.lines(begin, count).tobytes()).decode()
        return {"files": segments, "tail": tail, "starts": [start for start in stretch.starts if start < count]}

    def _read(self, source_id: str, version: int) -> dict[str, Any]:
        try:
            state = self._read_checked(self._path(source_id, f"{version}.json"))
            stored = state["lines"]
            segments = [(begin, count) for begin, count in stored["files"]]
            state["lines"] = self._stretch(source_id, segments, stored["tail"], stored["starts"])
            return state
        except (OSError, ValueError, KeyError, TypeError):
            return {"numbers": {"epoch": self._last_epoch(source_id) + 1}, "lines": self._what_is_left(source_id)}

    def _read_checked(self, path: str) -> dict[str, Any]:
        """Return what `_write_checked` wrote. Raises ValueError, KeyError or TypeError where that is damaged."""
        with self._fs.open_input_stream(path) as stream:
            text = bytes(stream.read())
        whole: dict[str, Any] = json.loads(text)
        if whole["version"] != VERSION or whole["sum"] != _sum(text.partition(b'"state":')[2][:-1]):
            raise ValueError("damaged, or of another version")
        state: dict[str, Any] = whole["state"]
        return state

    def _write_checked(self, path: str, state: Mapping[str, Any]) -> None:
        text = json.dumps(state, separators=(",", ":"))
        self._write(path, f'{{"version":{VERSION},"sum":"{_sum(text.encode())}","state":{text}}}'.encode())

    def _stretch(self, name: str, segments: list[tuple[int, int]], tail: str, starts: Sequence[int]) -> Stretch:
        self._segments[name] = segments
        kept = [begin for begin, count in segments if begin + count > sum(segments[-1]) - self._remembered()]
        parts = [self._read_lines(name, begin) for begin in kept]
        digests = np.concatenate([*parts, np.frombuffer(b64decode(tail), np.int64)])
        return Stretch(digests, kept[0] if kept else 0, starts)

    def _remembered(self) -> int:
        return remembered(sum(version >= 0 for version in self._versions.values()))

    def _read_lines(self, source_id: str, begin: int) -> Digests:
        with self._fs.open_input_stream(self._path(source_id, f"lines-{begin}")) as stream:
            content = bytes(stream.read())
        digests, total = content[:-_SUM_LENGTH], content[-_SUM_LENGTH:]
        if total != _sum(digests).encode():
            raise ValueError("damaged digests")
        return np.frombuffer(digests, np.int64)

    def _what_is_left(self, source_id: str) -> Stretch:
        """The digests in files of their own, as far as they are whole."""
        selector = FileSelector(self._path(source_id, ""), allow_not_found=True)
        names = [info.base_name for info in self._fs.get_file_info(selector)]
        begins = sorted(int(name[6:]) for name in names if name.startswith("lines-"))
        stretch = Stretch(first=begins[0]) if begins else Stretch()
        for begin in begins:
            try:
                if begin == stretch.count:
                    stretch.append(self._read_lines(source_id, begin))
                    self._segments[source_id].append((begin, stretch.count - begin))
            except (OSError, ValueError):
                break
        return stretch

    def _last_epoch(self, source_id: str) -> int:
        epochs = read_events(
            self.lake,
            columns=["source_epoch"],
            cluster=self.cluster,
            source_id=source_id,
            storage_options=self.options,
        )["source_epoch"]
        return max(epochs.unique().to_pylist(), default=-1)

    def _path(self, source_id: str, name: str) -> str:
        return f"_ingest/{path_part(self.cluster)}/{path_part(source_id)}/{name}"

    def _write(self, path: str, content: bytes) -> None:
        folder = path.rpartition("/")[0]
        self._fs.create_dir(folder)
        with self._fs.open_output_stream(path) as stream:
            stream.write(content)
        if self._local is not None:
            sync(self._local / path)
            sync(self._local / folder)


def _following(source_id: str) -> str:
    """The name of a source's older lines, or of those older than these."""
    base = writer(source_id)
    return f"{base}{OLDER}{int(source_id[len(base) + 1 :] or 0) + 1}"


def _sum(content: bytes) -> str:
    return blake2b(content, digest_size=_SUM_LENGTH // 2).hexdigest()


_SUM_LENGTH = 16
