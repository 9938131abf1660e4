"""Kafka's rules stand here twice, written independently: for the kernel and for the simulator. Both answer the same."""

from collections.abc import Callable
from inspect import getmembers
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generators.simulator.cluster import rules as simulated
from generators.simulator.cluster.leader_partition import LeaderPartition
from generators.simulator.cluster.peers import Peers
from generators.simulator.cluster.registration import BrokerRegistration
from generators.simulator.cluster.replica import Follower
from generators.simulator.cluster.versions import VERSIONS
from pipelines.replication.term import kafka_rules as kernel

MS = 1000
NOW_MS = 1_795_000_000_000
offsets, leos = st.integers(0, 40), st.integers(-1, 40)
counts, flags, replicas = st.integers(0, 5), st.booleans(), st.integers(0, 7)
lags = st.integers(1, 60)
times = st.integers(NOW_MS - 70, NOW_MS)
"""In milliseconds, as the simulator has them: the kernel gets microseconds."""
epochs = st.integers(0, 3)


def mask(ids: Any) -> int:
    return sum(1 << id for id in ids)


def members(mask: int) -> tuple[int, ...]:
    return tuple(k for k in range(8) if mask >> k & 1)


def simulated_maximal_isr(committed: int, joining: int) -> int:
    """One replica joins at a time."""
    isr = members(committed)
    proposal = SimpleNamespace(detail="expand", isr=(*isr, *members(joining & ~committed))) if joining else None
    return mask(LeaderPartition.maximal_isr.fget(SimpleNamespace(isr=isr, proposal=proposal)))


def simulated_start(in_isr: bool, now: int, never: int) -> int:
    """`never` is 0 there."""
    broker = SimpleNamespace(clock=SimpleNamespace(ms=now), version=VERSIONS["4.1"])
    leading = SimpleNamespace(broker=broker, _others=lambda _: [1], _new_follower=Follower)
    (follower,) = LeaderPartition._followers_of(leading, SimpleNamespace(isr=(1,) if in_isr else ()), None)
    return never if follower.caught_up == 0 else follower.caught_up


def simulated_eligible(serving: bool, registered: int, fetched: int) -> bool:
    peers = Peers(VERSIONS["4.1"])
    peers.learn(1, BrokerRegistration(registered, process=1, fenced=not serving))
    return peers.admits(Follower(1, broker_epoch=fetched))


def simulated_under_min_isr(isr: int, least: int, count: int) -> bool:
    return not simulated.may_advance(isr, least, count, strict=True)


def simulated_fetch(before: int, leo: int) -> bool:
    return Follower(1, leo=before).fetches(leo, 40, NOW_MS, None)


def simulated_expiry(caught_up: int, lag_max: int) -> int:
    """The first millisecond at which a replica that is behind is not in sync."""
    ahead = range(caught_up, caught_up + 2 * lag_max + 2)
    return next(now for now in ahead if not simulated.is_caught_up(0, 1, caught_up, now, lag_max))


PAIRS: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[st.SearchStrategy[Any], ...]]] = {
    "maximal_isr": (kernel.maximal_isr, simulated_maximal_isr, (st.integers(0, 127), replicas.map(lambda k: 1 << k))),
    "waits_for_replica": (kernel.waits_for_replica, simulated.counts, (flags, flags, flags)),
    "high_watermark": (kernel.high_watermark, simulated.high_watermark, (offsets, offsets, leos)),
    "fetch_may_advance": (kernel.fetch_may_advance, simulated_fetch, (leos, offsets)),
    "follower_high_watermark": (
        kernel.follower_high_watermark, simulated.follower_high_watermark, (offsets, offsets, offsets),
    ),
    "effective_min_isr": (kernel.effective_min_isr, simulated.effective_min_isr, (counts, counts)),
    "is_under_min_isr": (kernel.is_under_min_isr, simulated_under_min_isr, (counts, counts, counts)),
    "may_advance": (
        lambda isr, least, count, strict: kernel.may_advance(kernel.is_under_min_isr(isr, least, count), strict),
        simulated.may_advance, (counts, counts, counts, flags),
    ),
    "last_caught_up": (
        lambda before, fetched, leo, last_leo, last, now: (
            kernel.last_caught_up(before * MS, fetched, leo, last_leo, last * MS, now * MS) // MS
        ),
        simulated.last_caught_up, (times, offsets, offsets, offsets, st.just(0) | times, times),
    ),
    "caught_up_at_term_start": (
        lambda in_isr, now, never: kernel.caught_up_at_term_start(in_isr, now * MS, never * MS) // MS,
        simulated_start, (flags, times, st.just(-1)),
    ),
    "is_within_lag": (
        lambda caught_up, now, lag: kernel.is_within_lag(caught_up * MS, now * MS, lag * MS),
        lambda caught_up, now, lag: simulated.is_caught_up(0, 1, caught_up, now, lag), (times, times, lags),
    ),
    "is_caught_up": (
        lambda leo, end, caught_up, now, lag: kernel.is_caught_up(leo, end, caught_up * MS, now * MS, lag * MS),
        simulated.is_caught_up, (leos, offsets, times, times, lags),
    ),
    "lag_expires": (
        lambda caught_up, lag: kernel.lag_expires(caught_up * MS, lag * MS) // MS, simulated_expiry, (times, lags),
    ),
    "is_within_messages": (
        kernel.is_within_messages,
        lambda leo, leader_leo, most: simulated.is_in_sync_by_messages(leo, leader_leo, most, 0, 1),
        (offsets, offsets, counts),
    ),
    "is_isr_eligible": (kernel.is_isr_eligible, simulated_eligible, (flags, epochs, epochs)),
}  # fmt: skip
"""By rule of the kernel: it, its like in the simulator, and the arguments of both."""

ONLY_SIMULATED = {
    "may_join": "the kernel takes an ISR as it was committed: whether a LEO let a follower in is the leader's affair",
    "diverges": "truncations are read from the followers' logs, not decided",
}
"""Rules of the simulator that the kernel has no use for, and why."""
TWINS = {"waits_for_replica": "counts", "is_within_messages": "is_in_sync_by_messages"}
"""Rules that have another name in the simulator."""


def rules_of(module: Any, callable: Callable[[Any], bool]) -> set[str]:
    return {
        name for name, value in getmembers(module, callable)
        if getattr(value, "py_func", value).__module__ == module.__name__
    }  # fmt: skip


def test_every_rule_of_the_kernel_has_a_partner() -> None:
    assert rules_of(kernel, lambda value: hasattr(value, "py_func")) == set(PAIRS)


def test_every_rule_of_the_simulator_has_a_partner_or_a_reason_to_have_none() -> None:
    paired = {TWINS.get(name, name) for name in PAIRS}
    assert rules_of(simulated, callable) - paired == set(ONLY_SIMULATED)


@pytest.mark.parametrize("name", PAIRS)
@settings(deadline=None)
@given(data=st.data())
@pytest.mark.sampled(3)
def test_both_answer_the_same(name: str, data: st.DataObject) -> None:
    ours, theirs, arguments = PAIRS[name]
    given_both = [data.draw(argument) for argument in arguments]
    assert ours(*given_both) == theirs(*given_both), given_both
