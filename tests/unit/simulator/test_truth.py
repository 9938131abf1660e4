"""What really happened comes out as worked out by hand, and the facts are held against it difference by difference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from generators.simulator.clients.acknowledged_records import lost
from generators.simulator.cluster.log import ReplicaLog, Run
from generators.simulator.cluster.settings import MS, START, Settings, Topic
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.cluster.simulation_event import SimulationEvent
from generators.simulator.cluster.versions import VERSIONS
from generators.simulator.telemetry.levels import INFO, LEAN
from generators.simulator.telemetry.rows import Telemetry
from generators.simulator.truth.falls import Falls
from generators.simulator.truth.tables import Truth, write
from pipelines.replication import Facts, replay
from schemas import truths
from tests.schema_differences import differences as schema_differences
from tests.simulated.truth_differences import differences, rules_of
from tests.unit.simulator.clusters import SCRIPTS, SETTINGS, play

pytestmark = pytest.mark.long

BY_HAND = Settings(topics=(Topic("orders", 1, 3),), automatic=False)


def truth_of(script: Callable[[Simulation], Any], settings: Settings = BY_HAND) -> dict[str, pa.Table]:
    """The truth after a script; nothing happens by itself."""
    truth = Truth(settings)
    simulation = Simulation(settings, [truth])
    truth.follow(simulation)
    simulation.start()
    simulation.settle()
    script(simulation)
    return truth.close()


def said(table: pa.Table, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.select(columns).to_pylist()]


def write_and_replicate(s: Simulation, count: int, rounds: int = 2) -> None:
    s.produce("orders", 0, count)
    for _ in range(rounds):
        s.fetch(2)
        s.fetch(3)


def test_every_hw_of_the_leader_has_a_row_from_its_first() -> None:
    truth = truth_of(lambda s: [write_and_replicate(s, 2), write_and_replicate(s, 1)])
    assert said(truth["truth_hw"], "kind", "hw", "leader_leo", "leader_id", "leader_epoch", "isr") == [
        ("term_start", 0, 0, 1, 0, [1, 2, 3]),
        ("advance", 2, 2, 1, 0, [1, 2, 3]),
        ("advance", 3, 3, 1, 0, [1, 2, 3]),
    ]


def unclean(s: Simulation) -> None:
    """Broker 3 leaves with two records; two more are committed without it, three of them by broker 1 alone."""
    write_and_replicate(s, 2)
    s.kill(3)
    s.expire(3)
    s.produce("orders", 0, 2)
    s.fetch(2)
    s.fetch(2)
    s.kill(2)
    s.expire(2)
    s.produce("orders", 0, 1)
    s.kill(1)
    s.expire(1)
    s.restart(3)
    s.settle()
    s.elect_unclean("orders", 0)
    s.settle()


OLD = Settings(topics=(Topic("orders", 1, 3),), automatic=False, version=VERSIONS["3.9"])


def test_an_election_outside_the_isr_loses_what_the_new_leader_does_not_hold() -> None:
    falls = truth_of(unclean, OLD)["truth_regressions"]
    assert said(falls, "class", "leader_id", "hw_before", "start_offset", "lost_from", "lost_to") == [
        ("unclean_loss", 3, 5, 2, 2, 5),
    ]


def test_losses_are_counted_by_record_not_by_offset() -> None:
    """The new leader writes over the lost offsets; they are lost all the same, and only once."""

    def script(s: Simulation) -> None:
        unclean(s)
        s.produce("orders", 0, 9)
        s.restart(1)
        s.settle()
        s.fetch(1)
        s.fetch(1)

    truth = truth_of(script, OLD)
    assert said(truth["truth_regressions"], "class", "lost_from", "lost_to") == [("unclean_loss", 2, 5)]
    assert said(truth["truth_records"], "acknowledged", "lost", "lost_from", "lost_to", "leo") == [
        (14, 3, [2], [5], 11)
    ]


def test_a_leader_that_lost_its_disk_and_leads_on_has_lost_what_was_committed() -> None:
    def script(s: Simulation) -> None:
        write_and_replicate(s, 4)
        s.power_off(1)
        s.restart(1)
        s.settle()

    falls = truth_of(script, OLD)["truth_regressions"]
    assert said(falls, "class", "leader_epoch", "hw_before", "hw_after", "lost_from", "lost_to") == [
        ("committed_loss", 0, 4, 0, 0, 4)
    ]


def test_a_new_leader_one_round_behind_has_only_a_stale_hw() -> None:
    def script(s: Simulation) -> None:
        write_and_replicate(s, 3)  # broker 3 fetched last, and its answer alone brought the HW that it made
        s.kill(1)
        s.expire(1)
        s.settle()

    truth = truth_of(script)
    assert said(truth["truth_regressions"], "class", "hw_before", "lost_from") == [("stale_leader_hw", 3, None)]
    assert said(truth["truth_records"], "acknowledged", "lost") == [(3, 0)]


def test_an_isr_change_has_the_cause_that_made_the_controller_change_it() -> None:
    def script(s: Simulation) -> None:
        write_and_replicate(s, 1)
        s.expire(3)
        s.settle()
        s.stop(2)
        s.settle()

    changes = truth_of(script)["truth_isr"]
    assert said(changes, "isr_before", "isr_after", "cause") == [
        ([1, 2, 3], [1, 2], "controller_fenced"),
        ([1, 2], [1], "controlled_shutdown"),
    ]


def test_a_frozen_follower_is_out_of_sync_from_the_lag_after_it_was_last_caught_up_until_it_is_again() -> None:
    truth = Truth(SETTINGS)
    play(SCRIPTS["freeze"], [truth])
    stretches = truth.close()["truth_out_of_sync"]
    of_three = stretches.filter(pc.equal(stretches["replica_id"], 3))
    assert len(of_three) > 0
    for row in of_three.to_pylist():
        begun = (row["from_ts"].timestamp() * 1_000_000 - START) / 1_000_000
        assert 5 + 4 - 0.6 < begun < 5 + 4 + 0.1
        assert row["to_ts"] > row["from_ts"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_facts_of_the_telemetry_are_the_truth(script) -> None:
    telemetry, truth = Telemetry(SETTINGS), Truth(SETTINGS)
    play(SCRIPTS[script], [telemetry, truth])
    tables = truth.close()
    assert differences(replay(telemetry.close(), rules_of(SETTINGS)), tables) == []
    assert len(tables["truth_hw"]) > 100


@pytest.mark.parametrize("script", SCRIPTS)
def test_lean_telemetry_has_every_hw_isr_change_and_loss_and_out_of_sync_late_but_never_early(script) -> None:
    telemetry, truth = Telemetry(SETTINGS, LEAN), Truth(SETTINGS)
    play(SCRIPTS[script], [telemetry, truth])
    facts, tables = replay(telemetry.close(), rules_of(SETTINGS)), truth.close()
    assert [line for line in differences(facts, tables) if not line.startswith("replica ")] == []
    true = tables["truth_out_of_sync"].to_pylist()
    for row in facts.replica_sync.filter(pc.equal(facts.replica_sync["state"], "out_of_sync")).to_pylist():
        began = [t["from_ts"] for t in true if all(t[c] == row[c] for c in SAME_REPLICA) and t["from_ts"] <= row["ts"]]
        assert (row["ts"] - max(began)).total_seconds() * 1000 <= SETTINGS.lag_max_ms


@pytest.mark.parametrize("script", SCRIPTS)
def test_stock_logs_have_every_isr_change_and_of_each_loss_no_more_than_is_lost(script) -> None:
    """Except changes to and from the empty ISR of a partition that nobody leads: no broker is there to print them."""
    telemetry, truth = Telemetry(SETTINGS, INFO), Truth(SETTINGS)
    play(SCRIPTS[script], [telemetry, truth])
    facts, tables = replay(telemetry.close(), rules_of(SETTINGS)), truth.close()
    found = differences(facts, tables)
    assert [
        line for line in found if line.startswith("ISR ") and "-> []" not in line and "true is [] ->" not in line
    ] == []
    reported, true = (losses(table) for table in (facts.hw_regressions, tables["truth_regressions"]))
    assert reported.keys() == true.keys()
    for term, (start, end) in reported.items():
        assert true[term][0] <= start < end <= true[term][1]


SAME_REPLICA = ("topic", "partition", "leader_id", "leader_epoch", "replica_id")


def losses(falls: pa.Table) -> dict[tuple[Any, ...], tuple[int, int]]:
    """The lost range of each term that lost anything."""
    return {
        (r["topic"], r["partition"], r["leader_epoch"], r["class"]): (r["lost_from"], r["lost_to"])
        for r in falls.to_pylist()
        if r["lost_from"] is not None
    }


def test_followers_of_a_deleted_topic_only_seem_to_be_out_of_sync() -> None:
    """A limit of all telemetry: no broker prints that a topic is deleted."""

    def delete(s: Simulation) -> None:
        s.freeze(3)
        s.run(1)
        s.delete_topic("orders")
        s.run(3)
        s.thaw(3)
        s.run(4)

    telemetry, truth = Telemetry(SETTINGS), Truth(SETTINGS)
    play(delete, [telemetry, truth])
    facts, tables = replay(telemetry.close(), rules_of(SETTINGS)), truth.close()
    seeming = facts.replica_sync.filter(pc.equal(facts.replica_sync["state"], "out_of_sync"))
    assert len(seeming) > len(tables["truth_out_of_sync"])
    assert differences(facts, tables) == []


@pytest.mark.parametrize("script", SCRIPTS)
def test_fetches_that_are_thinned_out_change_no_fact(script) -> None:
    full, thin = Telemetry(SETTINGS), Telemetry(SETTINGS, fetch_every_ms=1_500)
    play(SCRIPTS[script], [full, thin], pause_ms=(1_000, 6_000))
    many, few = full.close(), thin.close()
    reported, thin_fetches = replay(many, rules_of(SETTINGS)).tables(), replay(few, rules_of(SETTINGS)).tables()
    fetches, left = (sum(kind == "fetch" for kind in t["event_type"].to_pylist()) for t in (many, few))
    assert left < 0.8 * fetches
    assert [name for name in reported if name != "minute_stats" and not reported[name].equals(thin_fetches[name])] == []


def test_the_same_seed_gives_the_same_truth_and_events_to_the_byte() -> None:
    def once() -> list[pa.Table]:
        telemetry, truth = Telemetry(SETTINGS), Truth(SETTINGS)
        play(SCRIPTS["elect_outside"], [telemetry, truth])
        return [telemetry.close(), *truth.close().values()]

    assert all(a.equals(b) for a, b in zip(once(), once(), strict=True))


def test_truth_changes_nothing_of_what_it_sees() -> None:
    alone, watched = Telemetry(SETTINGS), Telemetry(SETTINGS)
    play(SCRIPTS["roll"], [alone])
    play(SCRIPTS["roll"], [Truth(SETTINGS), watched])
    assert alone.close().equals(watched.close())


def test_tables_are_written_with_their_declared_schemas(tmp_path) -> None:
    from deltalake import DeltaTable

    tables = truth_of(unclean, OLD)
    write(tmp_path, tables)
    for name, table in truths().items():
        stored = DeltaTable(str(tmp_path / name)).to_pyarrow_table()
        assert schema_differences(table.arrow(), tables[name].schema) == []
        assert stored.to_pylist() == tables[name].to_pylist()


def changed(tables: dict[str, pa.Table], table: str, **columns: Any) -> dict[str, pa.Table]:
    """The truth with some columns of a table's last row replaced."""
    rows = tables[table].to_pylist()
    rows[-1] = rows[-1] | columns
    return tables | {table: pa.Table.from_pylist(rows, schema=tables[table].schema)}


@pytest.mark.parametrize(
    ("table", "columns", "words"),
    [
        ("truth_hw", {"hw": 9_999}, "true is advance to 9999"),
        ("truth_isr", {"cause": "reassignment"}, "(reassignment)"),
        ("truth_isr", {"partition_epoch": 99}, "partition epoch 99"),
        ("truth_out_of_sync", {"replica_id": 7}, "is not true"),
        ("truth_regressions", {"class": "committed_loss", "lost_to": 4_711}, "4711 lost, is missing"),
    ],
)
def test_every_kind_of_difference_is_found(table, columns, words) -> None:
    telemetry, truth = Telemetry(SETTINGS), Truth(SETTINGS)
    play(SCRIPTS["elect_outside"], [telemetry, truth])
    tables, facts = truth.close(), replay(telemetry.close(), rules_of(SETTINGS))
    if table == "truth_regressions":
        ordered = tables[table].sort_by("lost_from")
        tables[table] = ordered.filter(pc.is_valid(ordered["lost_from"]))
    found = differences(facts, changed(tables, table, **columns))
    assert any(words in line for line in found), found


@pytest.mark.parametrize(
    ("columns", "found"),
    [({}, 0), ({"proof": "proven"}, 1), ({"class": "committed_loss"}, 1), ({"hw_after": 3}, 1)],
    ids=["only feared", "proven", "of another class", "the leader reported its start"],
)
def test_an_unclean_election_whose_leader_reported_no_start_is_only_feared(columns, found) -> None:
    telemetry, truth = Telemetry(SETTINGS), Truth(SETTINGS)
    play(SCRIPTS["elect_outside"], [telemetry, truth])
    tables = replay(telemetry.close(), rules_of(SETTINGS)).tables()
    falls = tables["hw_regressions"]
    feared = {"class": "unclean_loss", "proof": "unproven", "hw_after": None, "lost_from": None, "lost_to": None}
    more = falls.to_pylist()[0] | feared | {"regression_id": "feared", "leader_epoch": 77} | columns
    rows = pa.Table.from_pylist([*falls.to_pylist(), more], schema=falls.schema)
    assert len(differences(Facts(**(tables | {"hw_regressions": rows})), truth.close())) == found


def test_acknowledged_records_are_lost_where_the_log_has_others_at_their_offsets() -> None:
    class Log:
        start = 2
        runs = (Run(2, 5, 0, 1), Run(5, 9, 1, 2))

    acknowledged = [Run(0, 4, 0, 1), Run(4, 7, 0, 1), Run(8, 9, 1, 2), Run(11, 12, 0, 1)]
    assert lost(acknowledged, Log()) == [(5, 7), (11, 12)]


def test_truth_needs_a_simulation_to_look_at() -> None:
    with pytest.raises(RuntimeError, match="call follow"):
        Truth(BY_HAND).close()


def test_a_source_is_silent_while_its_broker_is_down_or_frozen_and_goes_on_with_its_numbers() -> None:
    telemetry = Telemetry(SETTINGS)
    play(SCRIPTS["kill_and_return"], [telemetry])
    events = telemetry.close()
    mine = events.filter(pc.equal(events["source_id"], "broker-1/replication.log"))
    seconds = (mine["ts"].cast(pa.int64()).to_numpy() - START) / (1000 * MS)
    assert not ((seconds > 5.01) & (seconds < 14)).any()
    assert mine["source_seq"].to_pylist() == list(range(len(mine)))
    assert set(mine["source_epoch"].to_pylist()) == {0}


def test_running_nodes_have_progress_every_second_and_at_the_end() -> None:
    telemetry = Telemetry(SETTINGS)
    play(SCRIPTS["freeze"], [telemetry])
    events = telemetry.close()
    for source in ("broker-2/replication.log", "broker-3000/controller.log"):
        mine = events.filter(pc.equal(events["source_id"], source))
        seconds = (mine["ts"].cast(pa.int64()).to_numpy() - START) // (1000 * MS)
        assert set(range(int(seconds.min()), int(seconds.max()) + 1)) == set(seconds.tolist())
        assert mine["event_type"].to_pylist()[-1] == "progress"


def test_a_leader_that_begins_after_it_was_deposed_has_lost_nothing() -> None:
    """Broker 2 is frozen when it is elected and when broker 3 is; it learns of both at once, with nothing in its
    log."""

    def script(s: Simulation) -> None:
        s.freeze(2)
        s.produce("orders", 0, 2)
        s.fetch(3)
        for broker in (1, 2):
            s.expire(broker)
            s.settle()
        s.fetch(3)
        s.thaw(2)
        s.settle()

    truth = truth_of(script)
    assert ("term_start", 2, 1) in said(truth["truth_hw"], "kind", "leader_id", "leader_epoch")
    assert ("advance", 3, 2) in said(truth["truth_hw"], "kind", "leader_id", "hw")
    assert "committed_loss" not in truth["truth_regressions"]["class"].to_pylist()


def test_a_member_of_the_isr_without_a_log_that_begins_at_its_leaders_start_cuts_nothing() -> None:
    """It lost its disk, and what was there was deleted below 4: its log restarts at 4, up from 0."""
    before, after = ReplicaLog(), ReplicaLog(4)
    falls, committed = Falls(), ReplicaLog(4)
    committed.extend([Run(4, 6, 0, 0)])
    falls.committed.advance(committed, 6)
    event = SimulationEvent(0, 0, 1, "replication", "truncate", leo=4)
    falls.cut(event, after, before, in_sync=True)
    assert list(falls.found()) == []
    before.extend([Run(0, 5, 0, 0)])
    falls.cut(event, after, before, in_sync=True)
    assert [fall.cls for fall in falls.found()] == ["hw_moved_back"]
