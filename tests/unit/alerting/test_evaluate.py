"""Alerts of a lake on disk: written once, resolved later, followed from their beginning."""

import shutil

import pytest
from deltalake import DeltaTable, write_deltalake

from pipelines.alerting.evaluate import evaluate
from pipelines.errors import UsageError
from pipelines.lake.roles import RoleHeld, hold
from schemas import alerts, brokers, hw_regressions, partition_health, partition_hw, replication_events
from tests.unit.alerting.evidence_rows import at

pytestmark = pytest.mark.long

PLACE = {"cluster": "c", "topic": "orders", "topic_id": "T" * 22, "partition": 0}
LOSS = PLACE | {
    "ts": at(0), "leader_id": 2, "regression_id": "r", "class": "committed_loss", "severity": "critical",
    "lost_from": 5, "lost_to": 9, "lost_records": 4, "proof": "proven", "revision": 1,
}  # fmt: skip


def put(lake, module, *rows, mode="append"):
    import pyarrow as pa

    write_deltalake(f"{lake}/{module.TABLE.path}", pa.Table.from_pylist(list(rows), schema=module.ARROW), mode=mode)


def health(lake, seconds):
    row = {"ar": [1, 2], "isr": [1], "under_min_isr": True, "last_event_ts": at(seconds)}
    put(lake, partition_health, PLACE | row, mode="overwrite")


def progress(seconds, source="broker-1/replication.log", detail=None, number=0):
    return {
        "cluster": "c", "source_id": source, "source_epoch": 0, "source_seq": number, "seq": number, "ts": at(seconds),
        "broker_id": 1, "event_type": "progress", "partition": -1, "level": 3, "detail": detail,
    }  # fmt: skip


def freeze(seconds, kind="freeze"):
    return PLACE | {"ts": at(seconds), "kind": kind, "isr": [1], "frozen": kind == "freeze"}


def no_counts(cluster, broker, **values):
    """A row of gold/brokers that counts nothing."""
    counts = {column.name: 0 for column in brokers.TABLE.columns if not column.null and column.type == "bigint"}
    return {"cluster": cluster, "broker_id": broker, **counts, **values}


def version(lake):
    return DeltaTable(f"{lake}/{alerts.TABLE.path}").version()


def stored(lake):
    rows = DeltaTable(f"{lake}/{alerts.TABLE.path}").to_pyarrow_dataset(schema=alerts.ARROW).to_table().to_pylist()
    return sorted((r["rule"], r["state"], r["last_ts"]) for r in rows)


@pytest.fixture
def lake(tmp_path):
    return str(tmp_path / "lake")


def test_an_empty_lake_has_no_alerts_and_gets_no_table(lake):
    assert evaluate(lake, now=at(0)) == []
    assert not DeltaTable.is_deltatable(f"{lake}/{alerts.TABLE.path}")


def test_a_second_evaluation_with_nothing_new_writes_nothing(lake):
    put(lake, hw_regressions, LOSS)
    health(lake, 10)
    first = evaluate(lake, now=at(10))
    assert [(a.rule, a.state) for a in first] == [("loss", "firing")]
    written = version(lake)
    assert evaluate(lake, now=at(10)) == first
    assert version(lake) == written


def test_a_loss_fires_though_the_cluster_has_no_present_yet(lake):
    put(lake, hw_regressions, LOSS)
    put(lake, partition_health, PLACE | {"ar": [1, 2], "last_event_ts": None})
    assert [(a.rule, a.state) for a in evaluate(lake, now=at(10))] == [("loss", "firing")]


def test_the_same_silver_gives_the_same_rows(lake, tmp_path):
    other = str(tmp_path / "other")
    for place in (lake, other):
        put(place, partition_hw, freeze(0), freeze(400, "thaw"))
        health(place, 1000)
        evaluate(place, now=at(1000))
    assert stored(lake) == stored(other) == [("under_min_isr", "resolved", at(400))], "over before anybody looked"


def test_firing_then_resolved_over_evaluations(lake):
    put(lake, partition_hw, freeze(0))
    health(lake, 300)
    assert [a.state for a in evaluate(lake, now=at(300))] == ["firing"]
    put(lake, partition_hw, freeze(350, "thaw"))
    health(lake, 360)
    assert [a.state for a in evaluate(lake, now=at(360))] == ["resolved"]
    assert evaluate(lake, now=at(370)) == []
    assert stored(lake) == [("under_min_isr", "firing", at(300)), ("under_min_isr", "resolved", at(350))]


def test_time_passes_while_partitions_have_no_events(lake):
    """Their leader refuses every append: the brokers report the time, the partition nothing."""
    put(lake, partition_hw, freeze(0))
    health(lake, 0)
    put(lake, brokers, no_counts("c", 1, ts=at(299)))
    assert evaluate(lake, now=at(300)) == []
    put(lake, brokers, no_counts("c", 1, ts=at(301)), mode="overwrite")
    assert [(a.rule, a.state) for a in evaluate(lake, now=at(302))] == [("under_min_isr", "firing")]


def test_an_alert_is_followed_from_its_beginning_however_old(lake):
    month = 30 * 86_400
    put(lake, partition_hw, freeze(0))
    health(lake, 300)
    evaluate(lake, now=at(300))
    written = version(lake)
    health(lake, month)
    assert [a.first_ts for a in evaluate(lake, now=at(month))] == [at(0)]
    assert version(lake) == written


def test_a_revised_verdict_withdraws_its_alert(lake):
    put(lake, hw_regressions, LOSS)
    health(lake, 10)
    evaluate(lake, now=at(10))
    put(lake, hw_regressions, LOSS | {"revision": 2, "class": "stale_leader_hw", "severity": "info"})
    (alert,) = evaluate(lake, now=at(20))
    assert (alert.state, alert.summary.endswith("(found no more)")) == ("resolved", True)


def test_a_source_that_reports_again_is_well(lake):
    put(lake, replication_events, progress(0))
    assert evaluate(lake, now=at(300)) == []
    assert [(a.rule, a.state) for a in evaluate(lake, now=at(301))] == [("stale_source", "firing")]
    put(lake, replication_events, progress(302))
    (alert,) = evaluate(lake, now=at(303))
    assert (alert.state, alert.summary.endswith("(reports again, or unregistered)")) == ("resolved", True)
    assert (alert.first_ts, alert.last_ts) == (at(0), at(303)), "a message said: From T to T"


@pytest.mark.parametrize("source", ["broker-1/server.log", "watcher/1"])
def test_a_drain_alone_ends_no_silence_that_fires(lake, source):
    """It keeps one from beginning: a recording that is drained as it is read has no silent source."""
    put(lake, replication_events, progress(0, source))
    (fires,) = evaluate(lake, now=at(400))
    put(lake, replication_events, progress(0, "hwmark/drain", "closed"))
    assert [(a.episode, a.state) for a in evaluate(lake, now=at(401))] == [(fires.episode, "firing")]
    arrived = DeltaTable(f"{lake}/{replication_events.TABLE.path}").history()[0]["timestamp"] / 1000 - at(0).timestamp()
    (alert,) = (a for a in evaluate(lake, now=at(arrived + 86_400 + 1)) if a.rule != "job_behind")
    assert (alert.episode, alert.state, alert.labels["end"]) == (fires.episode, "resolved", "recording ended")
    assert "recording ended, then: " in alert.summary
    assert [a.rule for a in evaluate(lake, now=at(arrived + 86_400 + 2))] == ["job_behind"]


def test_a_drain_closes_no_source_of_a_cluster_that_goes_on(lake):
    put(lake, replication_events, progress(0), progress(0, "broker-2/server.log"))
    put(lake, replication_events, progress(0, "hwmark/drain", "closed"))
    assert evaluate(lake, now=at(400)) == []
    put(lake, replication_events, progress(450, "broker-2/server.log"))
    (alert,) = evaluate(lake, now=at(500))
    assert (alert.rule, alert.names) == ("stale_source", {"broker-1/replication.log"})


def test_rules_come_from_a_file(lake, tmp_path):
    put(lake, hw_regressions, LOSS)
    rules = tmp_path / "alerts.toml"
    rules.write_text("[loss]\nenabled = false\n")
    assert evaluate(lake, rules_file=rules, now=at(10)) == []
    rules.write_text("[los]\n")
    with pytest.raises(UsageError, match="did you mean loss"):
        evaluate(lake, rules_file=rules, now=at(10))


def test_one_process_judges_a_lake(lake):
    with hold(lake, "alerts"), pytest.raises(RoleHeld):
        evaluate(lake, now=at(0), wait_s=0)


def test_alerts_of_an_earlier_version_go_on(lake):
    """Their rows do not say when they were written."""
    put(lake, hw_regressions, LOSS)
    health(lake, 10)
    evaluate(lake, now=at(10))
    table = DeltaTable(f"{lake}/{alerts.TABLE.path}").to_pyarrow_table().drop_columns(["written_at"])
    shutil.rmtree(f"{lake}/{alerts.TABLE.path}")
    shutil.rmtree(f"{lake}/_alerts")
    write_deltalake(f"{lake}/{alerts.TABLE.path}", table)
    assert [a.state for a in evaluate(lake, now=at(20))] == ["resolved"], "told, nobody knows when"
    assert stored(lake) == [("loss", "firing", at(0)), ("loss", "resolved", at(0))]


def test_a_loss_whose_rows_are_gone_is_not_withdrawn(lake):
    """An older copy of the table, rows taken out of it, one made anew: none of these says that nothing is lost."""
    put(lake, hw_regressions, LOSS)
    health(lake, 10)
    evaluate(lake, now=at(10))
    put(lake, hw_regressions, LOSS | {"regression_id": "of another", "ts": at(-7200)}, mode="overwrite")
    alerts = {a.rule: a for a in evaluate(lake, now=at(20)) if "not known since" in a.summary}
    assert [(a.rule, a.state) for a in alerts.values()] == [("loss", "firing")]
    assert "silver has no row of it any more" in alerts["loss"].summary
