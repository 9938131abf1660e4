"""One holder per role of a lake: `ingest:<source>`, `run`, `check`, `maintain`."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit


class RoleHeld(RuntimeError):
    """Another process holds the role."""

    def __init__(self, role: str, lake: str, holder: str) -> None:
        super().__init__(f"{role} of lake {lake} is held by {holder}: stop it, or wait until it is done")


class NotLockable(RuntimeError):
    """The lake lies where no lock can be had."""

    def __init__(self, lake: str) -> None:
        super().__init__(f"lake {lake} is on an object store, where roles cannot be locked yet: use a local path")


def local_path(lake: str) -> Path | None:
    """The folder of a lake on this machine's disks, None for an object store."""
    parts = urlsplit(lake)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None if "://" in lake else Path(lake)


@contextmanager
def hold(lake: str, role: str) -> Iterator[None]:
    """Hold `role` of `lake` for the length of a `with` block; RoleHeld names who has it already.

    The kernel frees the lock with the process, however that ends; the file only names the holder.
    """
    root = local_path(lake)
    if root is None:
        raise NotLockable(lake)
    path = root / "_locks" / f"{quote(role, safe=':')}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RoleHeld(role, lake, _holder(descriptor)) from None
        _sign(descriptor)
        yield
    finally:
        os.close(descriptor)


def _sign(descriptor: int) -> None:
    signature = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(signature).encode(), 0)


def _holder(descriptor: int) -> str:
    try:
        who = json.loads(os.pread(descriptor, 4096, 0))
        return f"process {who['pid']} on {who['host']} since {who['started']}"
    except (ValueError, KeyError, TypeError):
        return "a process that has not yet said its name"
