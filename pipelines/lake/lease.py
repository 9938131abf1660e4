"""A role held on an object store: its holder renews an object by conditional put before it expires."""

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
"""The largest difference between the clocks of two hosts: a lease is taken over this long after its expiry."""


RESOLUTION = timedelta(seconds=1)
"""The resolution of object stores' times."""
RELEASED = datetime(1970, 1, 1, tzinfo=UTC)
"""The expiry in a lease that its holder has released."""


class Steady:
    """A clock (UTC) that starts at this machine's time and runs steadily, even if the machine's clock is set."""

    def __init__(self, wall: Callable[[], datetime] | None = None, steady: Callable[[], float] | None = None) -> None:
        self._steady = steady or _seconds
        self._began, self._from = (wall or _wall)(), self._steady()

    def __call__(self) -> datetime:
        return self._began + timedelta(seconds=self._steady() - self._from)


def _wall() -> datetime:
    return datetime.now(UTC)


def _seconds() -> float:
    """Monotonic seconds, including those asleep if the system counts them."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class LeaseTaken(RuntimeError):
    """Raised if another process holds the lease; the message names it."""


class LeaseLost(RuntimeError):
    """Raised if the lease was not renewed in time, or was taken over."""

    def __init__(self, path: str, whom: str) -> None:
        super().__init__(
            f"lost lease {path} to {whom}; stopped before writing; restart on a host that reaches the object store"
        )


@dataclass(frozen=True)
class Signature:
    """The holder's record in the lease object; times in UTC."""

    token: str
    host: str
    pid: int
    started: str
    expires: str

    @classmethod
    def new(cls, now: datetime) -> Signature:
        """A signature of this process from `now` on."""
        started = now.isoformat(timespec="seconds")
        return cls(uuid.uuid4().hex, socket.gethostname(), os.getpid(), started, "").until(now + LASTS)

    def until(self, expires: datetime) -> Signature:
        return replace(self, expires=expires.isoformat())

    def content(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @property
    def released(self) -> bool:
        """Whether the holder has released the lease."""
        return self.over(RELEASED)

    def over(self, now: datetime, by: timedelta = timedelta()) -> bool:
        """Whether the lease expired at least `by` ago."""
        return now >= datetime.fromisoformat(self.expires) + by

    def words(self) -> str:
        return (
            f"process {self.pid} on {self.host} since {self.started} (its lease ends at {self.expires} if not renewed)"
        )


class Lease:
    """The lease at `path` of an object store, for this process; `now` is the time (aware), by default a Steady.

    A clock that is set cannot cause two holders: the holder uses a steady clock, and a process that finds the lease
    expired by its wall clock asks the store, which has one clock, when it was last renewed.
    """

    def __init__(self, store: ObjectStore, path: str, now: Callable[[], datetime] | None = None) -> None:
        self.store, self.path, self._now = store, path, now or Steady()
        self._mine = Signature.new(self._now())
        self._tag: str | None = None
        self._lost: str | None = None

    @property
    def token(self) -> str:
        """The text that identifies this lease among those before and after it."""
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
        """Raise LeaseLost if another process may hold the role by now."""
        if self._lost is None and self._mine.over(self._now()):
            self._lost = f"the clock: it was not renewed before {self._mine.expires}"
        if self._lost is not None:
            raise LeaseLost(self.path, self._lost)

    def release(self) -> None:
        """Release the lease: it ends at once, and nobody has to wait for clocks."""
        if self._lost is None:
            self._put(self._mine.until(RELEASED), self._tag)

    def _put(self, next: Signature, tag: str | None) -> str | None:
        """Write the object if it still has `tag` (None: if it does not exist); else return the faster signature."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            mode: Any = "create" if tag is None else {"e_tag": tag}
            self._tag = obstore.put(self.store, self.path, next.content(), mode=mode)["e_tag"]
        except (AlreadyExistsError, PreconditionError):
            there = read(self.store, self.path)
            if there is None or there[0].token != self.token:
                return there[0].words() if there else "whoever removed it"
            next, self._tag = there  # our own earlier put, with a lost answer
        self._mine = next
        return None


class Renewal(threading.Thread):
    """The thread that renews a lease until it is stopped or the lease is lost."""

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
            except Exception as error:  # the store may be back before the lease expires
                log.warning("lease %s not renewed, trying again: %s", self._lease.path, error)

    def stop(self) -> None:
        """End the thread, which may be waiting for the store."""
        self._stopped.set()
        self.join()


def read(store: ObjectStore, path: str) -> tuple[Signature, str | None] | None:
    """The last signature of the lease and the object's ETag; None if there is no lease."""
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
    """The age of the object by the store's clock alone, compared with an object that is put now."""
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
    """Raise LeaseLost if the lease is not the one of `token`; for a holder's other processes."""
    there = read(store, path)
    if there is None or there[0].token != token:
        raise LeaseLost(path, there[0].words() if there else "whoever removed it")
