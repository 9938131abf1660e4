"""gold/brokers, gold/broker_lag and gold/replica_lag: of brokers, and of the replicas that are furthest behind."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from pipelines.replication import Reconstructor, Rules
from pipelines.replication.facts.broker_counts import count_partitions
from pipelines.replication.facts.brokers import restarts
from schemas import broker_lag, brokers, partition_health, replica_lag
from tests.unit.replication.bronze import BASE_MS, Source, controller, table

BASE = datetime.fromtimestamp(BASE_MS / 1000, UTC)


def at(ms):
    return BASE + timedelta(milliseconds=ms)


def present(*sources, rules=None):
    reconstructor = Reconstructor(rules or Rules())
    reconstructor.update(table(*sources))
    reconstructor.finish()
    return reconstructor.present()


def of(rows, *names):
    return [tuple(row[name] for name in names) for row in rows.to_pylist()]


def busy():
    """Broker 1 leads; broker 2 has caught up, broker 3 fetched once and has been silent since."""
    source = Source().leader(0, 0, 0, 0, [1, 2, 3], min_isr=2).append(10, 40).fetch(20, 3, 40).fetch(20, 2, 40)
    for ms in range(1_000, 21_000, 1_000):
        source.append(ms, 40 + ms // 100).fetch(ms + 5, 2, 40 + ms // 100)
    return source.progress(21_000)


def test_the_tables_have_their_declared_schemas():
    for made in (present(), present(busy()), present(controller().election(5, 1, 3))):
        assert [one.schema for one in made] == [
            partition_health.ARROW, brokers.ARROW, broker_lag.ARROW, replica_lag.ARROW,
        ]  # fmt: skip


def test_a_silent_follower_holds_back_the_partition_of_its_leader():
    rows = present(busy()).brokers
    columns = "broker_id", "replicas", "led", "followed", "holds_back", "holds_back_records", "holds_back_of"
    assert of(rows, *columns) == [
        (1, 1, 1, 0, 0, 0, []),
        (2, 1, 0, 1, 0, 0, []),
        (3, 1, 0, 1, 1, 200, [("1", 1)]),
    ]
    assert of(rows, "led_held_back", "level", "last_reported_ts", "leo_unknown") == [
        (1, 3, at(21_000), 0),
        (0, None, None, 0),
        (0, None, None, 0),
    ]
    assert of(rows, "ts") == [(at(21_000),)] * 3


def test_the_lag_of_brokers_and_of_the_worst_replicas():
    made = present(busy())
    assert of(made.broker_lag, "broker_id", "ts", "followed", "known", "behind", "lag_records", "lag_ms") == [
        (1, at(21_000), 0, 0, 0, None, None),
        (2, at(21_000), 1, 1, 0, 0, 0),
        (3, at(21_000), 1, 1, 1, 200, 20_980),
    ]
    assert of(made.broker_lag, "broker_id", "led_held_back") == [(1, 1), (2, 0), (3, 0)]
    columns = "replica_id", "leader_id", "state", "in_isr", "leo", "leader_leo", "lag_records", "lag_ms", "as_of"
    assert of(made.replica_lag, *columns) == [(3, 1, "lagging", True, 40, 240, 200, 20_980, at(21_000))]


def test_a_follower_that_never_fetched_in_this_term_is_worse_than_any():
    silent = Source().leader(0, 0, 100, 100, [1, 2]).append(10, 140).fetch(20, 2, 110).progress(5_000)
    assert of(present(silent).replica_lag, "replica_id", "leo", "lag_records", "lag_ms") == [
        (3, None, None, None),
        (2, 110, 30, 5_000),
    ]


def test_without_leos_nothing_is_said_of_lag():
    made = present(Source(level=0).leader(0, 0, 100, 100, [1, 2]).progress(60_000))
    assert of(made.replica_lag, "replica_id") == []
    columns = "broker_id", "leo_unknown", "outside_isr", "out_of_sync", "holds_back", "lag_records"
    assert of(made.brokers, *columns) == [
        (1, 0, 0, 0, 0, None),
        (2, 1, 0, None, None, None),
        (3, 1, 1, None, None, None),
    ]
    assert of(made.broker_lag, "broker_id", "known", "lag_records", "lag_records_sum") == [
        (2, 0, None, None), (3, 0, None, None),
    ]  # fmt: skip


def test_only_the_worst_replicas_of_each_cluster_have_a_row(monkeypatch):
    monkeypatch.setattr(replica_lag, "WORST", 3)
    sources = []
    for cluster in ("a", "b"):
        source = Source(cluster=cluster)
        for partition in range(4):
            source.on(partition=partition).leader(0, 0, 0, 0, [1, 2], replicas=[1, 2]).append(1, 100).fetch(
                2, 2, 90 + partition
            )
        sources.append(source.progress(10))
    assert of(present(*sources).replica_lag, "cluster", "partition", "lag_records") == [
        (cluster, partition, 10 - partition) for cluster in ("a", "b") for partition in range(3)
    ]


def test_racks_states_and_epochs_of_brokers():
    source = controller()
    source.event(1, "config", True, replica_id=1, detail="rack=a")
    source.event(2, "config", True, replica_id=1, detail="rack=b")
    source.broker_state(3, 1, "started", 7).broker_state(4, 1, "unfenced", 7)
    source.broker_state(5, 2, "controlled_shutdown", 6)
    columns = "broker_id", "rack", "state", "state_ts", "broker_epoch", "restarting_since", "replicas"
    expected = [(1, "b", "answers", at(4), 7, None, 0), (2, None, "stopping", at(5), 6, at(5), 0)]
    assert of(present(source).brokers, *columns) == expected


def test_a_rack_outlives_a_restart_of_the_job():
    source = controller().event(1, "config", True, replica_id=1, detail="rack=a").event(2, "progress", True)
    reconstructor = Reconstructor(Rules())
    reconstructor.update(table(source))
    again = Reconstructor.restore(reconstructor.snapshot())
    assert of(again.present().brokers, "broker_id", "rack") == [(1, "a")]


@pytest.mark.parametrize(
    ("states", "since"),
    [
        (["started", "unfenced"], None),
        (["started", "unfenced", "controlled_shutdown"], 2),
        (["started", "unfenced", "controlled_shutdown", "fenced"], 2),
        (["controlled_shutdown", "fenced", "started"], None),
        (["controlled_shutdown", "fenced", "unregistered"], None),
        (["fenced"], None),
        (["controlled_shutdown", "log_dir_offline"], 0),
    ],
)
def test_a_controlled_restart_is_under_way_until_the_broker_has_started(states, since):
    found = restarts([(ts, detail, 7, "s", 0, ts) for ts, detail in enumerate(states)])
    assert found == {"broker_epoch": 7, "restarting_since": since}


def health(partition, **values):
    row = {f.name: None for f in partition_health.ARROW}
    return row | {"cluster": "c", "topic": "t", "partition": partition, "leader_id": 1, "ar": [1, 2, 3]} | values


def test_partitions_are_counted_by_who_leads_follows_and_is_missing():
    stands = {"stalled_ms": 10_001, "holding_replicas": [1, 3], "hw": 5, "leader_leo": 25}
    rows = [
        health(0, isr=[1, 2, 3], osr=[], out_of_sync=[], under_replicated=False, under_min_isr=False, **stands),
        health(1, isr=[1], osr=[2, 3], out_of_sync=[3], under_replicated=True, one_failure_away="loss", stalled_ms=9),
        health(2, isr=[1, 2], osr=[3], under_replicated=True, under_min_isr=True, one_failure_away="under_min_isr"),
        health(3, leader_id=-1, isr=[2], osr=[1, 3]),
        health(4, leader_id=2, ar=[2, 3]),
    ]
    found = count_partitions(pa.Table.from_pylist(rows, partition_health.ARROW))
    assert found == {
        ("c", 1): {
            "replicas": 4, "led": 3, "followed": 0, "outside_isr": 1, "led_under_replicated": 2, "led_under_min_isr": 1,
            "led_held_back": 1, "sole_isr": 1, "at_min_isr": 1,
        },
        ("c", 2): {"replicas": 5, "led": 1, "followed": 3, "outside_isr": 1, "isr_unknown": 1, "at_min_isr": 1},
        ("c", 3): {
            "replicas": 5, "followed": 4, "outside_isr": 3, "isr_unknown": 1, "out_of_sync": 1, "holds_back": 1,
            "holds_back_records": 20, "holds_back_of": {"1": 1},
        },
    }  # fmt: skip
