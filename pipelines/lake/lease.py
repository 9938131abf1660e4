"""A role held on an object store: an object that its holder renews, by conditional put, before it expires."""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from obstore.store import ObjectStore

log = logging.getLogger("hwmark.lease")

LASTS = timedelta(seconds=60)
RENEWED_EVERY = LASTS / 3
SKEW = timedelta(seconds=30)
"""So far the clocks of two hosts may be apart: a lease is taken over only when it has been over for so long."""


RESOLUTION = timedelta(seconds=1)
"""Of the times that stores give their objects."""
RELEASED = datetime(1970, 1, 1, tzinfo=UTC)
"""When a lease ended that its holder has given back."""


class Steady:
    """The time (UTC) as this machine had it at first, going on evenly however its clock is set meanwhile."""

    def __init__(self, wall: Callable[[], datetime] | None = None, steady: Callable[[], float] | None = None) -> None:
        self._steady = steady or _seconds
        self._began, self._from = (wall or _wall)(), self._steady()

    def __call__(self) -> datetime:
        return self._began + timedelta(seconds=self._steady() - self._from)


def _wall() -> datetime:
    return datetime.now(UTC)


def _seconds() -> float:
    """Seconds that go on while the machine sleeps, where the system counts them."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class LeaseTaken(RuntimeError):
    """Somebody else holds the lease; the message names them."""


class LeaseLost(RuntimeError):
    """The lease was not renewed in time, or another process has taken it over."""

    def __init__(self, path: str, whom: str) -> None:
        super().__init__(
            f"lost lease {path} to {whom}; stopped before writing; restart on a host that reaches the object store"
        )


@dataclass(frozen=True)
class Signature:
    """What the lease object records of its holder; times in UTC."""

    token: str
    host: str
    pid: int
    started: str
    expires: str

    @classmethod
    def new(cls, now: datetime) -> Signature:
        """Of this process from `now` on."""
        started = now.isoformat(timespec="seconds")
        return cls(uuid.uuid4().hex, socket.gethostname(), os.getpid(), started, "").until(now + LASTS)

    def until(self, expires: datetime) -> Signature:
        return replace(self, expires=expires.isoformat())

    def content(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @property
    def released(self) -> bool:
        """Whether the holder has given it back."""
        return self.over(RELEASED)

    def over(self, now: datetime, by: timedelta = timedelta()) -> bool:
        """Whether the lease has expired, `by` so long."""
        return now >= datetime.fromisoformat(self.expires) + by

    def words(self) -> str:
        return (
            f"process {self.pid} on {self.host} since {self.started} (its lease ends at {self.expires} if not renewed)"
        )


class Lease:
    """The lease at `path` of an object store, for this process; `now` is the time (aware), by default a Steady.

    No clock that is set makes two holders: the holder goes by a clock of its own that nobody sets, and whoever finds
    the lease expired by the wall clock asks the store, by its one clock, when it was renewed last.
    """

    def __init__(self, store: ObjectStore, path: str, now: Callable[[], datetime] | None = None) -> None:
        self.store, self.path, self._now = store, path, now or Steady()
        self._mine = Signature.new(self._now())
        self._tag: str | None = None
        self._lost: str | None = None

    @property
    def token(self) -> str:
        """Distinguishes this lease from those before and after it."""
        return self._mine.token

    def acquire(self) -> None:
        """Put the lease if there is none, or over one that has expired. Raises LeaseTaken."""
        there = read(self.store, self.path)
        if there is not None and not there[0].over(self._now(), by=SKEW):
            raise LeaseTaken(there[0].words())
        if there is not None and not there[0].released and (age := age_of(self.store, self.path)) <= LASTS + RESOLUTION:
            seconds = age.total_seconds()
            raise LeaseTaken(
                f"{there[0].words()}, and by the clock of the store it was renewed {seconds:.0f} s ago: "
                "set the clocks of both machines right"
            )
        if whom := self._put(self._mine.until(self._now() + LASTS), there[1] if there else None):
            raise LeaseTaken(whom)

    def renew(self) -> None:
        """Put the next expiry, on the condition that the object is as this process left it. Raises LeaseLost."""
        self.check()
        self._lost = self._put(self._mine.until(self._now() + LASTS), self._tag)
        self.check()

    def check(self) -> None:
        """Raises LeaseLost where another process may hold the role by now."""
        if self._lost is None and self._mine.over(self._now()):
            self._lost = f"the clock: it was not renewed before {self._mine.expires}"
        if self._lost is not None:
            raise LeaseLost(self.path, self._lost)

    def release(self) -> None:
        """Leave the lease to the next: it is over at once, with no need to wait for clocks."""
        if self._lost is None:
            self._put(self._mine.until(RELEASED), self._tag)

    def _put(self, next: Signature, tag: str | None) -> str | None:
        """Writes where the object still has `tag`, or is not there for None; else returns who was faster."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            mode: Any = "create" if tag is None else {"e_tag": tag}
            self._tag = obstore.put(self.store, self.path, next.content(), mode=mode)["e_tag"]
        except (AlreadyExistsError, PreconditionError):
            there = read(self.store, self.path)
            if there is None or there[0].token != self.token:
                return there[0].words() if there else "whoever removed it"
            next, self._tag = there  # an earlier put of ours, whose answer did not come through
        self._mine = next
        return None


class Renewal(threading.Thread):
    """Renews a lease in the background until it is stopped or the lease is lost."""

    def __init__(self, lease: Lease) -> None:
        super().__init__(name=f"lease {lease.path}", daemon=True)
        self._lease, self._stopped = lease, threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(RENEWED_EVERY.total_seconds()):
            try:
                self._lease.renew()
            except LeaseLost as lost:
                log.error("%s", lost)
                return
            except Exception as error:  # the store may be back before the lease is over
                log.warning("lease %s not renewed, trying again: %s", self._lease.path, error)

    def stop(self) -> None:
        """Ends the thread, which may be waiting for the store."""
        self._stopped.set()
        self.join()


def read(store: ObjectStore, path: str) -> tuple[Signature, str | None] | None:
    """Who signed the lease last and the object's ETag; None where there is no lease."""
    import obstore

    try:
        found = obstore.get(store, path)
    except FileNotFoundError:
        return None
    content = bytes(found.bytes())
    try:
        return Signature(**json.loads(content)), found.meta["e_tag"]
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} holds {content[:80]!r}, which is no lease: remove that object") from error


def age_of(store: ObjectStore, path: str) -> timedelta:
    """How long ago the object was put, by the clock of the store alone: that of an object put just now is asked for."""
    import obstore

    probe = f"{path}.{uuid.uuid4().hex}"
    obstore.put(store, probe, b"")
    try:
        now: datetime = obstore.head(store, probe)["last_modified"]
    finally:
        obstore.delete(store, probe)
    put: datetime = obstore.head(store, path)["last_modified"]
    return now - put


def verify(store: ObjectStore, path: str, token: str) -> None:
    """Raises LeaseLost where the lease is not, or no longer, the one of `token`: for a holder's other processes."""
    there = read(store, path)
    if there is None or there[0].token != token:
        raise LeaseLost(path, there[0].words() if there else "whoever removed it")
