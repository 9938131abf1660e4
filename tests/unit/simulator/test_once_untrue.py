"""Small runs of which `replay` once made something else than the truth, each named after the rule that it shows."""

from __future__ import annotations

import pytest

from pipelines.settings import Simulate
from tests.unit.simulator.simulated_runs import wrong

RUNS = {
    "a joiner that is let in as its leader looks, and has far to go": Simulate(
        seed=4901, brokers=4, topics="orders:2x3:min-isr=2", version="4.0", load=["orders=steady:100,acks=1,tick=1s"],
        duration=30, lag_max_ms=30_000, fetch_max_records=5, flush_ms=5_000,
        fault=["3.837s power-off 3 for 25.12s", "12.391s kill 4 for 10.907s", "18.157s kill 1 for 15.321s"],
    ),
    "a leader does not know yet what the controller records in the same millisecond": Simulate(
        seed=30650, brokers=3, topics="orders:1x3", version="3.6", duration=15, lag_max_ms=6_000,
        lag_max_messages=100, session_timeout_ms=5_000, fetch_max_records=50, flush_ms=5_000,
        alter_partition_errors=0.3, load=["orders=steady:100,acks=0,every=6s,tick=200ms"],
        fault=["6.073s lose-disk 3 for 4.174s"],
    ),
    "a replica that is not assigned any more is out of sync no more": Simulate(
        seed=726, brokers=3, topics="orders:1x2:min-isr=2", version="3.6", duration=30, lag_max_ms=6_000,
        fetch_max_records=50, flush_ms=5_000, load=["orders=bursts:2,acks=all,every=6s,tick=1s"],
        fault=["19.558s stop 1 for 28.018s", "24.404s reassign orders-0 to 2,3"],
    ),
    "a fetch dates nothing before the append that left its replica behind": Simulate(
        seed=1008, brokers=3, topics="orders:1x3", version="3.6", duration=35, lag_max_ms=10_000,
        session_timeout_ms=20_000, fetch_max_records=5, flush_ms=5_000,
        load=["orders=bursts:100,acks=all,every=6s,tick=200ms"],
        fault=["8.215s freeze 3 for 4.388s", "11.084s freeze 1 for 23.888s"],
    ),
    "a leader back in the same epoch begins a new term": Simulate(
        seed=1087, brokers=3, topics="orders:2x3:min-isr=2", version="4.0", duration=20, lag_max_ms=2_000,
        flush_ms=60_000, metadata_ms=100, load=["orders=steady:2,acks=0,every=6s,tick=200ms"],
        fault=["1.905s power-off 3 for 734ms", "8.988s power-off 1 for 5.121s"],
    ),
    "a follower at the end of the log is in sync in a new epoch of its leader": Simulate(
        seed=4073, brokers=3, topics="orders:2x2:min-isr=2", version="4.1", duration=40, lag_max_ms=2_000,
        flush_ms=60_000, load=["orders=bursts:20,acks=all,every=6s,tick=200ms"],
        fault=["73ms freeze 2 for 26.552s", "21.563s rolling-restart", "22.054s reassign orders-1 to 1,3"],
    ),
    "a term that its leader ended lasts until then, that moment included": Simulate(
        seed=4740, brokers=5, topics="clicks-v2:1x3:min-isr=2", version="3.9", duration=40, lag_max_ms=6_000,
        session_timeout_ms=5_000, flush_ms=5_000, controller_ms=300, metadata_ms=100, alter_partition_errors=0.3,
        load=["clicks-v2=bursts:20,acks=all,every=6s,tick=200ms"],
        fault=[
            "7.785s rolling-restart", "14.436s freeze 1 for 7.211s", "15.171s freeze 3 for 22.109s",
            "26.545s reassign clicks-v2-0 to 4,5,2",
        ],
    ),
    "a leader of a deleted topic leads no more once it follows the new one": Simulate(
        seed=4150, brokers=3, topics="clicks-v2:2x3", version="4.0", duration=30, lag_max_ms=6_000,
        fetch_max_records=5, flush_ms=60_000, controller_ms=300, metadata_ms=100,
        load=["clicks-v2=bursts:20,acks=all,every=6s,tick=1s"],
        fault=["4.275s freeze 2 for 20.73s", "11.67s delete-topic clicks-v2", "13.67s create-topic clicks-v2:2x3"],
    ),
    "a leader that stood still learns late and is not ahead": Simulate(
        seed=3065, brokers=5, topics="orders:2x3:min-isr=2", version="4.1", duration=30, lag_max_ms=10_000,
        flush_ms=5_000, load=["orders=bursts:100,acks=0,every=6s,tick=1s"],
        fault=[
            "14.818s rolling-upgrade to 4.1 for 1s every 5s", "17.073s freeze 2 for 8.795s", "17.572s rolling-restart",
            "17.972s power-off 5 for 6.921s",
        ],
    ),
    "what was configured for a deleted topic counts for no other of its name": Simulate(
        seed=5994, brokers=2, topics="orders:2x2:min-isr=2", version="4.1", duration=35, lag_max_ms=10_000,
        fetch_max_records=50, flush_ms=5_000, load=["orders=bursts:20,acks=all,every=6s,tick=1s"],
        fault=[
            "12.865s cut 1-2 for 17.349s", "18.227s configure orders to min-isr=1", "19.441s delete-topic orders",
            "19.441s create-topic orders:2x2:min-isr=2",
        ],
    ),
    "who left the ISR counts as the incarnation that fetched last": Simulate(
        seed=3824, brokers=5, topics="orders:2x3:min-isr=2", version="4.1", duration=15, lag_max_ms=10_000,
        flush_ms=5_000, metadata_ms=100, load=["orders=steady:100,acks=0,every=6s,tick=200ms"],
        fault=["3.33s kill 4 for 1.694s"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", RUNS)
def test_replay_is_the_truth(rule):
    assert wrong(RUNS[rule]) == []
