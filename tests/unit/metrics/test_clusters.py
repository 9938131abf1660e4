"""Metrics of clusters: what the verdict says, and nothing that it does not."""

from datetime import timedelta

import pytest

from pipelines.lake.lake import Lake
from pipelines.lake.records import write_record
from pipelines.streaming.reconstruction import LAST_BATCH, LastBatch
from pipelines.verdict import Limits
from tests.unit.metrics.scrape import exporter, only, samples, troubled
from tests.unit.project.lakes import at, committed_at, drained, health, loss, reported, sound, write


@pytest.fixture
def lake(tmp_path):
    return str(tmp_path / "lake")


def standing(found):
    return {name: n for (name,), n in only(found, "partitions", "condition").items() if n}


def test_every_partition_counts_once_as_the_worst_that_holds(lake):
    troubled(lake)
    found = samples(exporter(lake))
    assert standing(found) == {"offline": 1, "under_min_isr": 1, "held_back": 1, "under_replicated": 1, "in_sync": 1}
    states = {state for (state,), value in only(found, "cluster_state", "state").items() if value}
    assert states == {"offline", "under_min_isr", "held_back", "at_risk"}


def test_brokers_because_of_whom_partitions_stand_so(lake):
    troubled(lake)
    because = only(samples(exporter(lake)), "broker_partitions", "broker", "condition")
    assert {key for key, n in because.items() if n} == {
        ("2", "offline"), ("2", "under_min_isr"), ("3", "under_min_isr"), ("3", "held_back"), ("3", "under_replicated"),
    }  # fmt: skip
    assert because["1", "held_back"] == 0


def test_a_sound_cluster_is_ok_and_nothing_else(lake):
    sound(lake, health("orders", 0), health("orders", 1))
    found = samples(exporter(lake))
    assert standing(found) == {"in_sync": 2}
    assert {state for (state,), value in only(found, "cluster_state", "state").items() if value} == {"ok"}
    assert only(found, "judged_until_timestamp_seconds", "cluster") == {("prod",): at(60).timestamp()}


def test_the_last_batch_of_the_job_is_told_and_before_one_nothing_is(lake):
    sound(lake, health("orders", 0))
    assert only(samples(exporter(lake)), "run_batch_seconds") == {}
    write_record(Lake(lake), LAST_BATCH, LastBatch(7, 1200, 2.5, 4096))
    found = samples(exporter(lake))
    names = ("run_batch", "run_batch_events", "run_batch_seconds", "run_state_bytes")
    assert [only(found, name)[()] for name in names] == [7, 1200, 2.5, 4096]


def test_of_a_cluster_that_is_not_judged_nothing_is_said_of_its_present(lake):
    troubled(lake)
    reported(lake, 1, to=70)
    committed_at(lake, 1, at(-900))
    found = samples(exporter(lake))
    assert standing(found) == {"not_judged": 5}
    assert only(found, "broker_partitions", "broker") == {}
    assert only(found, "worst_partition_info", "partition") == {}
    assert only(found, "unread_events", "cluster") == {("prod",): 1}
    assert only(found, "unread_since_timestamp_seconds", "cluster") == {("prod",): at(-900).timestamp()}
    assert only(found, "cluster_state", "state")["not_judged",] == 1


def test_of_a_cluster_that_has_ended_nothing_is_offline(lake):
    troubled(lake)
    drained(lake)
    found = samples(exporter(lake))
    assert standing(found) == {"ended": 5}
    assert only(found, "cluster_ended", "cluster") == {("prod",): 1}
    assert only(found, "cluster_state", "state")["offline",] == 0


def test_partitions_whose_leader_is_silent_are_unknown(lake):
    sound(lake, *(health("orders", n) for n in range(3)))
    reported(lake, 2, 3, to=400)
    found = samples(exporter(lake, seconds=420))
    assert standing(found) == {"unknown": 3}
    assert only(found, "broker_partitions", "broker", "condition")["1", "unknown"] == 3
    assert only(found, "sources_silent", "broker") == {("1",): 1, ("2",): 0, ("3",): 0}
    assert only(found, "source_reported_until_timestamp_seconds", "broker")["1",] == at(60).timestamp()


def test_losses_are_those_of_the_verdict(lake):
    sound(lake, health("orders", 0))
    write(
        lake,
        "hw_regressions",
        loss(ts=at(30)),
        loss(ts=at(31), regression_id="r2", partition=1, proof="unproven", severity="warning", lost_records=7),
        loss(ts=at(-2 * 86_400), regression_id="old", partition=2),
    )
    told = {"rule": "loss", "first_ts": at(-2 * 86_400), "last_ts": at(-2 * 86_400), "labels": {"cluster": "prod"}}
    write(lake, "alerts", told | {"state": "resolved", "written_at": at(0)})
    found = samples(exporter(lake))
    assert only(found, "lost_offsets", "class", "proof") == {
        ("unclean_loss", "proven"): 180, ("unclean_loss", "unproven"): 7,
    }  # fmt: skip
    assert only(found, "partitions_with_loss", "severity") == {("critical",): 1, ("warning",): 1}
    earlier = samples(exporter(lake, limits=Limits(since=timedelta(days=3))))
    assert only(earlier, "partitions_with_loss", "severity")["critical",] == 2


def test_gaps_and_levels(lake):
    sound(lake, health("orders", 0), health("orders", 1, level=0), health("orders", 2, level=None))
    gap = {"source_id": "broker-1/server.log", "series": "source", "seq_from": 3, "seq_to": 9}
    write(lake, "telemetry_gaps", {**gap, "kind": "gap"}, {**gap, "kind": "clock"})
    found = samples(exporter(lake))
    assert only(found, "partitions_by_level", "level") == {("3",): 1, ("0",): 1, ("unknown",): 1}
    assert only(found, "telemetry_gaps", "kind") == {
        ("gap",): 1,
        ("late",): 0,
        ("reset",): 0,
        ("clock",): 1,
        ("contradiction",): 0,
    }
