"""Checkpoints of the ingest: per source and version the read position, parser state and numbers, written before its
rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyarrow.fs import FileType

from pipelines.lake.bronze import committed, read_events
from pipelines.lake.file_systems import StorageOptions, file_system, local_path, path_part, sync


class Checkpoints:
    """States of the sources of one cluster below `<lake>/_ingest`; the versions committed in the lake are the valid
    ones."""

    def __init__(self, lake: str, cluster: str, storage_options: StorageOptions | None = None) -> None:
        self.lake, self.cluster, self.options = lake, cluster, storage_options
        self._local = local_path(lake)
        self._fs = file_system(lake, storage_options)
        self._versions: dict[str, int] = {}

    def app_id(self, source_id: str) -> str:
        """The application id under which the lake's transaction log has the version of a source."""
        return f"ingest:{self.cluster}/{source_id}"

    def load(self, source_ids: list[str]) -> dict[str, dict[str, Any]]:
        """The state after the last rows of each source in the lake; where it is missing, a new incarnation."""
        versions = committed(self.lake, [self.app_id(name) for name in source_ids], self.options)
        states = {}
        for name in source_ids:
            version = versions[self.app_id(name)]
            self._versions[name] = -1 if version is None else version
            states[name] = {} if version is None else self._read(name, version)
        return states

    def write(self, states: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
        """Write the next version of each source, durable when this returns; returns the versions to commit with the
        rows."""
        versions = {}
        for name, state in states.items():
            versions[name] = self._versions[name] + 1
            self._write(self._path(name, versions[name]), json.dumps(state, separators=(",", ":")).encode())
        return {self.app_id(name): version for name, version in versions.items()}

    def mark_committed(self, source_ids: list[str]) -> None:
        """Mark the versions just written as committed, and delete those older than the one before."""
        for name in source_ids:
            self._versions[name] += 1
            old = self._path(name, self._versions[name] - 2)
            if self._fs.get_file_info(old).type != FileType.NotFound:
                self._fs.delete_file(old)

    def _read(self, source_id: str, version: int) -> dict[str, Any]:
        try:
            with self._fs.open_input_stream(self._path(source_id, version)) as stream:
                state: dict[str, Any] = json.loads(stream.read())
                return state
        except (FileNotFoundError, ValueError):
            return {"numbers": {"epoch": self._last_epoch(source_id) + 1}}

    def _last_epoch(self, source_id: str) -> int:
        epochs = read_events(
            self.lake,
            columns=["source_epoch"],
            cluster=self.cluster,
            source_id=source_id,
            storage_options=self.options,
        )["source_epoch"]
        return max(epochs.unique().to_pylist(), default=-1)

    def _path(self, source_id: str, version: int) -> str:
        return f"_ingest/{path_part(self.cluster)}/{path_part(source_id)}/{version}.json"

    def _write(self, path: str, content: bytes) -> None:
        folder = path.rpartition("/")[0]
        self._fs.create_dir(folder)
        with self._fs.open_output_stream(path) as stream:
            stream.write(content)
        if self._local is not None:
            sync(self._local / path)
            sync(self._local / folder)
