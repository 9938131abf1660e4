"""File systems of a lake, on this machine's disks or on an object store, for files that belong to no table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from pyarrow.fs import FileSystem, LocalFileSystem, SubTreeFileSystem

if TYPE_CHECKING:
    from obstore.store import ObjectStore

StorageOptions = Mapping[str, str]

_OF_THE_CLIENT = ("allow_http", "allow_invalid_certificates", "connect_timeout", "proxy_url", "timeout", "user_agent")
_YES_OR_NO = {"allow_http", "allow_invalid_certificates"}
_OF_DELTA = ("aws_s3_allow_unsafe_rename", "allow_unsafe_rename", "aws_s3_locking_provider", "delta_dynamo")
# A conditional put needs its answer soon or not at all: by default `deltalake` retries for minutes.
_SOON = {"timeout": "10s", "connect_timeout": "5s"}
_BRIEFLY = {"max_retries": 2, "retry_timeout": timedelta(seconds=15)}


def local_path(lake: str) -> Path | None:
    """The folder of a lake on this machine's disks, None for an object store."""
    parts = urlsplit(lake)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None if "://" in lake else Path(lake)


def path_part(name: str, safe: str = "") -> str:
    """A name quoted as one part of a path; a long name is cut to the 255 bytes of file systems and gets a hash."""
    quoted = quote(name, safe=safe)
    return quoted if len(quoted) <= 200 else f"{quoted[:120]}~{sha256(name.encode()).hexdigest()}"


def file_system(uri: str, storage_options: StorageOptions | None = None) -> FileSystem:
    """A file system whose root is `uri`; on an object store with the options that `deltalake` takes."""
    path = local_path(uri)
    if path is not None:
        return SubTreeFileSystem(str(path.absolute()), LocalFileSystem())
    return _remote(uri, dict(storage_options or {}))


def _remote(uri: str, options: dict[str, str]) -> FileSystem:
    import pyarrow as pa
    from deltalake.fs import DeltaStorageHandler
    from pyarrow.fs import PyFileSystem

    class Handler(DeltaStorageHandler):  # type: ignore[misc]
        """The library's handler, with an output that takes pyarrow's buffers as well as `bytes`."""

        def open_output_stream(self, path: str, metadata: Any = None) -> pa.PythonFile:
            return pa.PythonFile(_Output(self._handler.open_output_stream(path, metadata)), mode="w")

    return PyFileSystem(Handler(uri, options))


class _Output:
    """An output stream of `deltalake` that takes buffers."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.closed = False

    def write(self, data: Any) -> int:
        self._stream.write(bytes(data))
        return len(data)

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._stream.close()


def write_durably(root: str, path: str, content: bytes, storage_options: StorageOptions | None = None) -> None:
    """Write a file below `root`, completely or not at all; on return it outlives a power failure."""
    folder = local_path(root)
    if folder is None:
        with file_system(root, storage_options).open_output_stream(path) as stream:
            stream.write(content)
        return
    target = folder / path
    make_folder(target.parent)
    draft = target.with_name(f".{target.name}.new")
    draft.write_bytes(content)
    sync(draft)
    draft.replace(target)
    sync(target.parent)


def make_folder(folder: Path) -> None:
    """Make a folder and its parents; on return they outlive a power failure."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync(folder.parent)


def sync(path: Path) -> None:
    """Sync a file's content, or a folder's names, so that they outlive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def object_store(uri: str, storage_options: StorageOptions) -> ObjectStore:
    """The object store below `uri`, for puts with conditions; the options are those that `deltalake` takes."""
    from obstore.store import from_url

    given = {name.lower(): value for name, value in storage_options.items() if not name.lower().startswith(_OF_DELTA)}
    client: dict[str, Any] = {n.removeprefix("aws_"): v for n, v in given.items() if _is_of_the_client(n)}
    for name in _YES_OR_NO & client.keys():
        client[name] = client[name].lower() in ("true", "1")
    config: Any = {name: value for name, value in given.items() if not _is_of_the_client(name)}
    options: Any = {"client_options": _SOON | client, "retry_config": _BRIEFLY}
    store: ObjectStore = from_url(uri, config=config, **options)
    return store


def _is_of_the_client(name: str) -> bool:
    return name.removeprefix("aws_") in _OF_THE_CLIENT
