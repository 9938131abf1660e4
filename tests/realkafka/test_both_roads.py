"""Every fault with a watcher and the brokers' logs: what samples alone say, and logs alone, within what each claims.

Two faults run by default; `--faults all`, or names, runs others (`make test-kafka-roads`).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipelines.local_kafka.versions import Version
from pipelines.replication import Facts
from tests.realkafka.faults import CALM, FAULTS, LAG_MS
from tests.realkafka.load import Place
from tests.realkafka.roads import INTERVAL_S, Roads, Row, ms, play

pytestmark = [pytest.mark.realkafka, pytest.mark.nightly]

INTERVAL_MS = INTERVAL_S * 1000
TWO_INTERVALS_MS = 2 * INTERVAL_MS


@pytest.fixture(scope="module")
def roads(fault: str, kafka: Version, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Roads]:
    for one in play(fault, kafka, tmp_path_factory.mktemp(fault)):
        print(one.name, one.actions, one.acked, "clients lost", one.gone)
        yield one


def claim(rows: list[Row]) -> str:
    """What a road says of a partition: exact, at least, not known, or safe."""
    proofs = {row["proof"] for row in rows if row["lost_from"] is not None}
    if proofs:
        return "exact" if proofs == {"proven"} else "at least"
    return "not known" if rows else "safe"


def losses(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["lost_from"] is not None]


def test_each_road_says_lost_only_where_clients_lost_something(roads: Roads) -> None:
    for facts in (roads.sampled, roads.logged):
        assert {place for place, rows in roads.falls(facts).items() if losses(rows)} <= set(roads.gone)


def test_no_road_says_safe_where_clients_lost_something(roads: Roads) -> None:
    said = {
        place: [claim(roads.falls(f).get(place, [])) for f in (roads.sampled, roads.logged)] for place in roads.gone
    }
    print("samples, logs:", said)
    assert all("safe" not in claims for claims in said.values())


def test_what_samples_claim_of_a_loss_is_part_of_what_logs_and_clients_have(roads: Roads) -> None:
    by_samples, by_logs = roads.falls(roads.sampled), roads.falls(roads.logged)
    for place, rows in by_samples.items():
        for sampled in losses(rows):
            (logged,) = losses(by_logs[place])
            assert claim(by_logs[place]) == "exact"
            assert logged["lost_from"] <= sampled["lost_from"] < sampled["lost_to"] <= logged["lost_to"]
            first, last = roads.gone[place]
            assert (logged["lost_from"], sampled["lost_from"]) == (first, first)
            assert last < logged["lost_to"]


def test_isr_changes_of_samples_are_among_those_of_logs(roads: Roads) -> None:
    seen, logged = (
        {(row["topic"], row["partition"], tuple(sorted(row["isr_after"]))) for row in facts.isr_changes.to_pylist()}
        for facts in (roads.sampled, roads.logged)
    )
    assert seen <= logged
    assert seen or roads.name in CALM


def test_hws_of_samples_were_reached_by_logs(roads: Roads) -> None:
    reached: dict[tuple[Place, int], int] = {}
    for row in roads.logged.partition_hw.to_pylist():
        hws = [hw for hw in (row["hw"], row["reported_hw"]) if hw is not None]
        reached[_term(row)] = max([reached.get(_term(row), -1), *hws])
    rows = [row for row in roads.sampled.partition_hw.to_pylist() if row["kind"] == "advance"]
    assert rows
    assert [row for row in rows if row["hw"] > reached[_term(row)]] == []
    assert "disagree" not in roads.sampled.partition_hw["agreement"].to_pylist()


def test_replicas_are_out_of_sync_not_before_kafka_says_so_and_within_two_intervals(roads: Roads) -> None:
    """Kafka's leader logs when a replica that it removes was last caught up; of one outside the ISR it logs nothing."""
    removed, found = roads.caught_up(), dict[tuple[Place, int], list[Row]]()
    for row in roads.sampled.replica_sync.sort_by("ts").to_pylist():
        if row["state"] == "out_of_sync":
            found.setdefault((_place(row), row["replica_id"]), []).append(row)
    print(
        "removed for their lag", removed, "by samples", {at: [ms(r["ts"]) for r in rows] for at, rows in found.items()}
    )
    unexplained = [row for at in found.keys() - removed.keys() for row in found[at]]
    assert [row for row in unexplained if row["replica_id"] in _isr_by_logs(roads, row)] == []
    for at, rows in found.items():
        if at not in removed:
            continue
        first, true = rows[0], min(removed[at])
        assert ms(first["last_caught_up_ts"]) >= true
        if late := roads.late(true - INTERVAL_MS, ms(first["ts"]) + INTERVAL_MS):
            pytest.skip(late)
        assert ms(first["ts"]) <= true + LAG_MS + TWO_INTERVALS_MS, first


def test_an_isr_change_is_seen_within_two_intervals_of_its_commit(roads: Roads) -> None:
    logged = [(_isr(row), ms(row["ts"])) for row in roads.logged.isr_changes.to_pylist()]
    for row in roads.sampled.isr_changes.to_pylist():
        times = [ts for isr, ts in logged if isr == _isr(row) and ts <= ms(row["ts"])]
        assert times, row
        if late := roads.late(max(times), ms(row["ts"])):
            pytest.skip(late)
        assert ms(row["ts"]) - max(times) <= TWO_INTERVALS_MS, row


def test_a_frozen_follower_is_seen_out_of_the_isr_in_time(roads: Roads) -> None:
    """A frozen broker answers nobody: only its leader shows it, which looks every half of the lag. Where the leader
    itself took longer, two intervals count from there."""
    for broker, frozen in roads.frozen():
        found = [_removals(facts, broker, frozen) for facts in (roads.sampled, roads.logged)]
        assert all(found)
        seen, removed = (min(times) - frozen for times in found)
        print(f"broker {broker}: removed {removed} ms after it was frozen, seen after {seen}")
        if late := roads.late(frozen, frozen + seen):
            pytest.skip(late)
        assert seen <= max(1.5 * LAG_MS, removed) + TWO_INTERVALS_MS


def test_a_loss_is_known_within_two_intervals_of_the_election(roads: Roads) -> None:
    """The time of the row against when the new leader began, by its own log."""
    for place, rows in roads.falls(roads.sampled).items():
        for sampled in losses(rows):
            (logged,) = losses(roads.falls(roads.logged)[place])
            since = ms(sampled["ts"]) - ms(logged["ts"])
            print(f"loss of {place} known {since} ms after the election")
            if late := roads.late(ms(logged["ts"]), ms(sampled["ts"])):
                pytest.skip(late)
            assert -INTERVAL_MS <= since <= TWO_INTERVALS_MS


def _removals(facts: Facts, broker: int, since: int) -> list[int]:
    """When a broker was removed from an ISR, epoch ms."""
    rows = facts.isr_changes.to_pylist()
    return [ms(row["ts"]) for row in rows if broker in (row["removed"] or ()) and ms(row["ts"]) >= since]


def _isr_by_logs(roads: Roads, sampled: Row) -> list[int]:
    """The ISR of a partition when a row says that a replica was out of sync; all replicas where it had not changed."""
    rows = [row for row in roads.logged.isr_changes.sort_by("ts").to_pylist() if _place(row) == _place(sampled)]
    before = [row["isr_after"] for row in rows if row["ts"] <= sampled["ts"]]
    assignment = FAULTS[roads.name].topic.assignment[sampled["partition"]]
    return list(before[-1] if before else assignment)


def _place(row: Row) -> Place:
    return row["topic"], row["partition"]


def _term(row: Row) -> tuple[Place, int]:
    return _place(row), row["leader_epoch"]


def _isr(row: Row) -> tuple[Place, tuple[int, ...]]:
    return _place(row), tuple(sorted(row["isr_after"]))
