"""A role on an object store: one holder, renewed before it expires, taken over only long after."""

import json
from datetime import UTC, datetime, timedelta

import obstore
import pytest
from obstore.store import MemoryStore

from pipelines.lake import lease as lease_module
from pipelines.lake.lease import LASTS, SKEW, Lease, LeaseLost, LeaseTaken, Renewal, Steady, age_of, verify

PATH = "_locks/run.lease"


class Clock:
    """A wall clock that tests turn."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 21, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def on(self, by: timedelta) -> None:
        self.now += by


@pytest.fixture
def store(monkeypatch):
    """Whose own clock never says that a lease was renewed just now; a test of that takes `real_age`."""
    monkeypatch.setattr(lease_module, "age_of", lambda *_: 2 * LASTS)
    return MemoryStore()


@pytest.fixture
def clock():
    return Clock()


def taken(store, clock):
    lease = Lease(store, PATH, clock)
    lease.acquire()
    return lease


def signature(store):
    return json.loads(bytes(obstore.get(store, PATH).bytes()))


def test_the_second_holder_is_refused_with_the_name_of_the_first(store, clock):
    taken(store, clock)
    there = signature(store)
    with pytest.raises(LeaseTaken, match=f"process {there['pid']} on {there['host']} since 2026-11-21T12:00:00"):
        taken(store, clock)


def test_of_two_that_find_no_lease_one_gets_it(store, clock, monkeypatch):
    first, second = Lease(store, PATH, clock), Lease(store, PATH, clock)
    first.acquire()
    looks = iter([None, lease_module.read(store, PATH)])  # the second looked before the first put
    monkeypatch.setattr(lease_module, "read", lambda *_: next(looks))
    with pytest.raises(LeaseTaken):
        second.acquire()
    assert signature(store)["token"] == first.token


def test_of_two_that_find_an_expired_lease_one_gets_it(store, clock, monkeypatch):
    taken(store, clock)
    clock.on(LASTS + SKEW)
    stale = lease_module.read(store, PATH)
    first, second = Lease(store, PATH, clock), Lease(store, PATH, clock)
    first.acquire()
    looks = iter([stale, lease_module.read(store, PATH)])
    monkeypatch.setattr(lease_module, "read", lambda *_: next(looks))
    with pytest.raises(LeaseTaken):
        second.acquire()
    assert signature(store)["token"] == first.token


@pytest.mark.parametrize(("after", "free"), [(LASTS, False), (LASTS + SKEW, True)], ids=["expired", "long expired"])
def test_a_lease_is_taken_over_only_when_no_clock_within_the_skew_calls_it_valid(store, clock, after, free):
    taken(store, clock)
    clock.on(after)
    if free:
        taken(store, clock)
    else:
        with pytest.raises(LeaseTaken):
            taken(store, clock)


def test_a_renewed_lease_goes_on(store, clock):
    lease = taken(store, clock)
    for _ in range(5):
        clock.on(LASTS / 2)
        lease.renew()
        lease.check()
    with pytest.raises(LeaseTaken):
        taken(store, clock)


def test_a_lease_not_renewed_in_time_is_lost_though_nobody_took_it(store, clock):
    lease = taken(store, clock)
    clock.on(LASTS)
    with pytest.raises(LeaseLost, match="not renewed before 2026-11-21T12:01:00"):
        lease.check()
    with pytest.raises(LeaseLost):
        lease.renew()


def test_a_lease_that_was_taken_over_is_lost_to_the_one_who_has_it(store, clock):
    late = Clock()
    lease = taken(store, late)
    clock.on(LASTS + SKEW)
    verify(store, PATH, lease.token)
    other = taken(store, clock)
    with pytest.raises(LeaseLost, match="since 2026-11-21T12:01:30"):
        lease.renew()
    with pytest.raises(LeaseLost):
        lease.check()
    with pytest.raises(LeaseLost, match="since 2026-11-21T12:01:30"):
        verify(store, PATH, lease.token)
    lease.release()
    verify(store, PATH, other.token)


def test_a_lease_whose_object_was_removed_is_lost(store, clock):
    lease = taken(store, clock)
    obstore.delete(store, PATH)
    with pytest.raises(LeaseLost, match="whoever removed it"):
        lease.renew()
    with pytest.raises(LeaseLost, match="whoever removed it"):
        verify(store, PATH, lease.token)


def test_a_put_whose_answer_was_lost_is_known_again(store, clock, monkeypatch):
    lease = taken(store, clock)
    put = obstore.put

    def twice(*args, **kwargs):
        put(*args, **kwargs)  # came through, its answer did not, and the client puts again
        return put(*args, **kwargs)

    monkeypatch.setattr(obstore, "put", twice)
    clock.on(LASTS / 2)
    lease.renew()
    monkeypatch.setattr(obstore, "put", put)
    clock.on(LASTS / 2)
    lease.renew()
    lease.check()


def test_a_released_lease_is_free_at_once(store, clock):
    taken(store, clock).release()
    taken(store, clock)


def test_the_background_renews_until_it_is_stopped_and_outlives_an_error(store, clock, monkeypatch):
    lease, renewed = taken(store, clock), lease_module.threading.Event()
    monkeypatch.setattr(lease_module, "RENEWED_EVERY", timedelta(milliseconds=1))
    put, failures = obstore.put, iter([True, True])

    def flaky(*args, **kwargs):
        if next(failures, False):
            raise OSError("no route to the store")
        renewed.set()
        return put(*args, **kwargs)

    monkeypatch.setattr(obstore, "put", flaky)
    before = signature(store)["expires"]
    clock.on(LASTS / 2)
    renewal = Renewal(lease)
    renewal.start()
    assert renewed.wait(30)
    renewal.stop()
    assert signature(store)["expires"] > before
    lease.check()


def test_an_object_that_is_no_lease_is_named(store, clock):
    obstore.put(store, PATH, b"hello")
    with pytest.raises(ValueError, match=r"_locks/run\.lease holds b'hello', which is no lease: remove"):
        taken(store, clock)


HOURS = timedelta(hours=5)


@pytest.mark.parametrize("jump", [HOURS, -HOURS], ids=["forward", "back"])
def test_a_wall_clock_that_is_set_changes_nothing_of_the_lease_that_is_held(store, clock, jump):
    wall, seconds = Clock(), [1000.0]
    lease = Lease(store, PATH, Steady(wall, lambda: seconds[0]))
    lease.acquire()
    wall.on(jump)
    seconds[0] += 20
    clock.on(timedelta(seconds=20))
    lease.check()
    lease.renew()
    assert signature(store)["expires"] == "2026-11-21T12:01:20+00:00"
    with pytest.raises(LeaseTaken):
        taken(store, clock)
    seconds[0] += LASTS.total_seconds()
    with pytest.raises(LeaseLost):
        lease.check()


def test_a_clock_that_runs_ahead_takes_over_no_lease_that_the_store_saw_renewed(store, clock, monkeypatch):
    monkeypatch.setattr(lease_module, "age_of", age_of)
    lease = taken(store, clock)
    ahead = Clock()
    ahead.on(HOURS)
    with pytest.raises(LeaseTaken, match=r"by the clock of the store it was renewed 0 s ago: set the clocks"):
        taken(store, ahead)
    lease.check()
    lease.renew()
    assert [entry["path"] for entry in obstore.list(store).collect()] == [PATH]


def test_a_released_lease_is_free_whatever_the_clocks_say(store, clock, monkeypatch):
    monkeypatch.setattr(lease_module, "age_of", age_of)
    taken(store, clock).release()
    behind = Clock()
    behind.on(-HOURS)
    taken(store, behind)
