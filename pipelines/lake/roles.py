"""One holder per role: `ingest:<source>`, `watch:<cluster>`, `run`, `check`, `alerts`, `notify`, `maintain`."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pipelines.lake.file_systems import StorageOptions, local_path, object_store, path_part
from pipelines.lake.lease import Lease, LeaseTaken, Renewal, verify


class RoleHeld(RuntimeError):
    """Another process holds the role."""

    def __init__(self, role: str, lake: str, holder: str) -> None:
        super().__init__(f"{role} of lake {lake} is held by {holder}: stop it, or wait until it is done")


class NotLockable(RuntimeError):
    """Raised if the lake's file system has no locks."""

    def __init__(self, lake: str, why: object) -> None:
        super().__init__(f"the roles of lake {lake} cannot be locked: {why}")


class Held:
    """A held role. A kernel lock stays until the process ends; a lease may be lost."""

    def __init__(self, lease: Lease | None = None) -> None:
        self._lease = lease
        self.token = lease.token if lease else None
        """The token that the holder's other processes pass to `verify_role`; None if none is needed."""

    def check(self) -> None:
        """Raise LeaseLost if another process may hold the role by now; to be called before each commit."""
        if self._lease is not None:
            self._lease.check()


@contextmanager
def hold(lake: str, role: str, storage_options: StorageOptions | None = None, *, wait_s: float = 0) -> Iterator[Held]:
    """Hold `role` of `lake` for the length of a `with` block; RoleHeld names who has it for longer than `wait_s`."""
    root = local_path(lake)
    until = time.monotonic() + wait_s
    with ExitStack() as stack:
        while True:
            holding = _leased(lake, role, storage_options or {}) if root is None else _locked(root, lake, role)
            try:
                held = stack.enter_context(holding)
                break
            except RoleHeld:
                if time.monotonic() >= until:
                    raise
                time.sleep(_ASKED_EVERY_S)
        yield held


def verify_role(lake: str, role: str, token: str | None, storage_options: StorageOptions) -> None:
    """Raise LeaseLost if the process with this `token` no longer holds the role."""
    if token is not None:
        verify(object_store(lake, storage_options), _path(role, "lease"), token)


def _path(role: str, kind: str) -> str:
    return f"_locks/{path_part(role, safe=':')}.{kind}"


@contextmanager
def _leased(lake: str, role: str, storage_options: StorageOptions) -> Iterator[Held]:
    try:
        store = object_store(lake, storage_options)
    except Exception as error:
        raise NotLockable(lake, error) from error
    lease = Lease(store, _path(role, "lease"))
    try:
        lease.acquire()
    except LeaseTaken as taken:
        raise RoleHeld(role, lake, str(taken)) from None
    renewal = Renewal(lease)
    renewal.start()
    try:
        yield Held(lease)
    finally:
        renewal.stop()
        lease.release()


@contextmanager
def _locked(root: Path, lake: str, role: str) -> Iterator[Held]:
    """Hold a kernel lock, which ends with the process in any case; the file only names the holder."""
    path = root / _path(role, "lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RoleHeld(role, lake, _holder(descriptor)) from None
        if _is_at(path, descriptor):
            _sign(descriptor)
            yield Held()
            return
    finally:
        os.close(descriptor)
    with _locked(root, lake, role) as held:  # `forget` removed the file before it was locked here
        yield held


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the path still leads to this file, so that others would lock it."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _sign(descriptor: int) -> None:
    signature = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(signature).encode(), 0)


def _doubt(pid: int, signed: datetime) -> str | None:
    """The reason why the process with this id cannot be the one that signed; None if it may be."""
    boot = time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else None
    if boot is None or not Path("/proc/self/stat").exists():
        return None
    try:
        ticks = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19]
    except OSError:
        return "which cannot be seen here any more"
    began = time.time() - boot + int(ticks) / os.sysconf("SC_CLK_TCK")
    return "whose number is another process's now" if began > signed.timestamp() + _SLACK_S else None


_ASKED_EVERY_S = 0.2
"""Seconds between attempts to get a held role."""
_SLACK_S = 5
"""The tolerance of start times: a signature has whole seconds, and clocks are slewed."""


def _holder(descriptor: int) -> str:
    try:
        who = json.loads(os.pread(descriptor, 4096, 0))
        named = f"process {int(who['pid'])} on {who['host']} since {who['started']}"
        here = who["host"] == socket.gethostname()
        if here and (doubt := _doubt(int(who["pid"]), datetime.fromisoformat(who["started"]))):
            return f"a process that has not said its name: the last to do so was {named}, {doubt}"
        return named
    except (ValueError, KeyError, TypeError):
        return "a process that has not yet said its name"
