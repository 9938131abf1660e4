"""`hwmark show` on small lakes: what a person reads, what a program reads, and what is refused."""

import csv
import io
import json
import subprocess
import sys

import pytest
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner

from pipelines.alerting.evaluate import evaluate
from pipelines.cli import app
from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter, rows
from tests.unit.project.lakes import at, drained, health, loss, reported, sound, write

pytestmark = pytest.mark.long

JUDGED = "prod: judged up to 2026-09-01 12:01:00 UTC, 25 s ago, at level 3 (full TRACE)"
DAY = "from 2026-08-31 12:01:00 UTC to 2026-09-01 12:01:00 UTC"
NO_LOSS = f"prod: no loss is known {DAY}, at level 3 (full TRACE)"
SPARE = "one failure away: none from loss, offline or under min ISR"
ELECTION = "unclean election of broker 2 after broker 1"


@pytest.fixture(autouse=True)
def wall_clock(monkeypatch):
    """25 s after the last word of every lake."""
    monkeypatch.setattr("pipelines.commands.clock.now", lambda: at(85))


@pytest.fixture
def lake(tmp_path):
    path = str(tmp_path / "lake")
    sound(path, health("orders", 0), health("orders", 1), health("clicks", 0))
    return path


def show(lake, what, *options):
    done = CliRunner().invoke(app, ["show", what, "--lake", lake, *options])
    return done.exit_code, done.output.rstrip("\n")


def below(lake, what, *options):
    """The lines below the verdicts."""
    lines = show(lake, what, *options)[1].splitlines()
    return lines[len(show(lake, "verdict", *options)[1].splitlines()) :]


def test_regressions_name_the_range_that_is_gone(lake):
    write(lake, "hw_regressions", loss(ts=at(45)))
    assert show(lake, "regressions") == (
        0,
        f"prod: LOST: 180 offsets in 1 partition: {ELECTION} at 2026-09-01 12:00:45 UTC: "
        f"clicks-0 offsets 120..299 ({DAY})\n"
        f"{JUDGED}\n"
        "prod: OK: 3 partitions, all in sync\n"
        f"prod/clicks-0: offsets 120..299 (180) are gone, critical, {ELECTION} at 2026-09-01 12:00:45 UTC",
    )


def test_what_no_alert_tells_yet_is_pending_in_the_verdict(lake):
    write(lake, "partition_health", health("audit", 0, under_min_isr=True, under_replicated=True, isr=[1]))
    write(lake, "partition_hw", {"topic": "audit", "kind": "freeze", "isr": [1], "frozen": True, "ts": at(40)})
    state = "prod: UNDER MIN ISR: brokers 2, 3 gone: 1 of 4 partitions under min ISR"
    assert show(lake, "verdict")[1].splitlines()[0] == state
    assert evaluate(lake, now=at(85)) == []
    since = "1 partition pending since 2026-09-01 12:00:40 UTC, told from 2026-09-01 12:05:40 UTC on"
    assert show(lake, "verdict")[1].splitlines()[:2] == [state, f"prod: UNDER MIN ISR: {since}"]


def test_a_planned_downtime_that_is_open_is_in_the_verdict(lake):
    """It was on the page's incident only: in the window the verdict said that somebody would be told."""
    window = {"cluster": "prod", "begins": at(5), "until": at(500), "reason": "upgrade", "brokers": [2]}
    write(lake, "downtimes", window | {"downtime_id": "d1"}, window | {"downtime_id": "d2", "until": at(80)})
    assert "planned downtime of broker 2 until 2026-09-01 12:08:20 UTC" in show(lake, "verdict")[1]
    write(lake, "downtimes", window | {"downtime_id": "d1", "until": at(84), "written_at": at(84)})
    assert "planned" not in show(lake, "verdict")[1]


def test_what_an_alert_tells_is_said_since_when_in_the_verdict(lake):
    write(lake, "partition_health", health("audit", 0, under_min_isr=True, under_replicated=True, isr=[1]))
    told = {"alert_id": "a1", "rule": "under_min_isr", "severity": "critical", "state": "firing", "subject": "broker 2"}
    times = {"first_ts": at(40), "last_ts": at(40), "written_at": at(60)}
    labels = [("cluster", "prod"), ("topic", "audit"), ("partitions", "audit-0"), ("count", "1")]
    write(lake, "alerts", {**told, **times, "summary": "prod: ...", "labels": labels})
    since = "UNDER MIN ISR: since 2026-09-01 12:00:40 UTC, brokers 2, 3 gone:"
    assert show(lake, "verdict")[1].splitlines()[0] == f"prod: {since} 1 of 4 partitions under min ISR"
    assert since in show(lake, "verdict", "--topic", "audit")[1]
    write(lake, "partition_health", health("clicks", 7, under_min_isr=True, under_replicated=True, isr=[1]))
    of_another = show(lake, "verdict", "--topic", "clicks")[1]
    assert "UNDER MIN ISR: brokers 2, 3 gone: 1 of " in of_another, "nobody told since when its topic is"


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (
            loss(**{"class": "committed_loss", "leader_id_before": 2}),
            "offsets 120..299 (180) are gone, critical, broker 2 resumed leading from a log that ends at 120",
        ),
        (
            loss(**{"class": "committed_loss"}),
            "offsets 120..299 (180) are gone, critical, "
            "broker 2 began leading after broker 1 from a log that ends at 120",
        ),
        (
            loss(proof="bounded"),
            f"offsets at least 120..299 (180) are gone, critical (bounded), {ELECTION}",
        ),
        (
            loss(proof="unproven", severity="warning"),
            f"offsets 120..299 (180) may be gone, warning (unproven), {ELECTION}",
        ),
        (
            loss(**{"class": "hw_moved_back", "lost_from": None, "lost_to": None, "lost_records": None}),
            "HW 300 -> 120, critical, HW moved back under broker 2",
        ),
    ],
)
def test_each_finding_is_one_sentence(lake, row, sentence):
    write(lake, "hw_regressions", row)
    assert below(lake, "regressions") == [f"prod/clicks-0: {sentence} at 2026-09-01 12:00:00 UTC"]


def test_only_the_latest_revision_of_a_verdict_counts(lake):
    write(lake, "hw_regressions", loss())
    write(lake, "hw_regressions", loss(revision=2, severity="info", **{"class": "stale_leader_hw"}))
    assert show(lake, "regressions")[1].splitlines()[2:] == [NO_LOSS, "Harmless: 1 stale_leader_hw."]


def test_an_alert_withdrawn_and_restored_is_firing_though_its_event_time_is_older(lake):
    alert = {"alert_id": "a1", "rule": "loss", "severity": "critical", "subject": "clicks", "first_ts": at(0)}
    withdrawn = {"state": "resolved", "last_ts": at(50), "summary": "gone (found no more)", "written_at": at(60)}
    fires = {"state": "firing", "last_ts": at(10), "summary": "gone"}
    sound(lake)
    write(lake, "alerts", alert | fires | {"written_at": at(20)}, alert | withdrawn)
    assert rows_of(lake) == [("resolved", "gone (found no more)")]
    write(lake, "alerts", alert | fires | {"written_at": at(70)})
    assert rows_of(lake) == [("firing", "gone")]


def test_an_alert_that_fires_is_not_hidden_by_what_comes_late_of_an_earlier_time_that_it_fired(lake):
    alert = {"alert_id": "a1", "rule": "offline", "severity": "critical", "subject": "broker 1"}
    fires = {"state": "firing", "first_ts": at(100), "last_ts": at(100), "summary": "now", "written_at": at(110)}
    over = {"state": "resolved", "first_ts": at(0), "last_ts": at(50), "summary": "then", "written_at": at(120)}
    sound(lake)
    write(lake, "alerts", alert | fires, alert | over)
    assert rows_of(lake) == [("resolved", "then"), ("firing", "now")]
    assert rows_of(lake, since=at(200)) == [("firing", "now")], "since when it fires hides none that fires"


@pytest.mark.parametrize("earlier", ["without the column", "written without it"])
def test_states_that_do_not_say_when_they_were_written_follow_event_time(lake, earlier):
    """Of earlier versions; such a row is older than every one that says when."""
    alert = {"alert_id": "a1", "rule": "loss", "severity": "critical", "subject": "clicks", "first_ts": at(0)}
    firing, resolved = (
        alert | {"state": s, "last_ts": at(t), "summary": s} for s, t in (("firing", 1), ("resolved", 9))
    )
    sound(lake)
    write(lake, "alerts", resolved, firing)
    if earlier == "without the column":
        place = f"{lake}/ops/alerts"
        old = DeltaTable(place).to_pyarrow_table().drop_columns(["written_at"])
        write_deltalake(place, old, mode="overwrite", schema_mode="overwrite")
        assert rows_of(lake) == [("resolved", "resolved")]
        return
    assert rows_of(lake) == [("resolved", "resolved")]
    write(lake, "alerts", firing | {"written_at": at(0)})
    assert rows_of(lake) == [("firing", "firing")]


def rows_of(lake, since=None):
    """The states and sentences of the view alerts."""
    return [(row["state"], row["summary"]) for row in rows(Lake(lake), "alerts", Filter(since=since), 10)[0]]


def test_a_loss_and_each_of_its_ranges_name_the_owner(lake, tmp_path):
    write(lake, "hw_regressions", loss(), loss(topic="orders", regression_id="r2"))
    (tmp_path / "hwmark.toml").write_text('[owners]\n"cl*" = { team = "data", contact = "#data" }\n')
    shown = show(lake, "loss", "--config", str(tmp_path / "hwmark.toml"))[1].splitlines()
    assert "  owner: data (#data)" in shown
    ranges = [line for line in shown if "120..299  180" in line]
    assert [line.rstrip().endswith("data (#data)") for line in ranges] == ["clicks-0" in line for line in ranges]
    assert len(ranges) == 2
    assert not any("owner" in line for line in show(lake, "loss")[1].splitlines())


def test_harmless_findings_do_not_hide_a_loss(lake):
    harmless = [
        loss(regression_id=f"i{n}", severity="info", ts=at(100 + n), **{"class": "follower_hw_lowered"})
        for n in range(50)
    ]
    write(lake, "hw_regressions", loss(ts=at(1)), *harmless)
    assert below(lake, "regressions", "--limit", "5") == [
        "Harmless: 50 follower_hw_lowered.",
        f"prod/clicks-0: offsets 120..299 (180) are gone, critical, {ELECTION} at 2026-09-01 12:00:01 UTC",
    ]


def test_the_headline_counts_the_partitions_that_are_listed(lake):
    twice = [
        loss(ts=at(n), regression_id=f"r{n}", lost_from=10 * n, lost_to=10 * n + 4, lost_records=4) for n in (1, 2)
    ]
    write(lake, "hw_regressions", *twice, loss(regression_id="other", partition=1))
    lines = show(lake, "regressions")[1].splitlines()
    assert lines[0].startswith("prod: LOST: 188 offsets in 2 partitions: ")
    assert len([line for line in lines if "are gone" in line]) == 3


def test_what_is_older_than_a_day_is_left_out_and_counted(lake):
    write(lake, "hw_regressions", loss(ts=at(-2 * 86_400)))
    text = show(lake, "verdict")[1]
    assert "prod: LOST: 180 offsets in 1 partition: " in text, "nobody was told of it"
    assert "(from 2026-08-30 12:00:00 UTC to 2026-09-01 12:01:00 UTC)" in text
    told = {"rule": "loss", "first_ts": at(-2 * 86_400), "last_ts": at(-2 * 86_400), "labels": {"cluster": "prod"}}
    write(lake, "alerts", told | {"state": "resolved", "written_at": at(0)})
    assert show(lake, "regressions")[1].splitlines()[2:] == [NO_LOSS, "(1 older; --since all shows them)"]
    text = show(lake, "regressions", "--since", "all")[1]
    assert text.startswith("prod: LOST: 180 offsets in 1 partition: ")
    assert "(from its beginning to 2026-09-01 12:01:00 UTC)" in text


def test_since_counts_from_the_present_of_each_cluster(lake):
    write(lake, "partition_health", health("orders", 0, cluster="older", last_event_ts=at(-86_400)))
    reported(lake, 1, to=-86_400, cluster="older")
    write(lake, "hw_regressions", loss(ts=at(40)), loss(ts=at(-86_420), regression_id="o", cluster="older"))
    assert len(below(lake, "regressions", "--since", "30s")) == 2
    write(lake, "hw_regressions", loss(ts=at(20), regression_id="before", partition=7))
    assert below(lake, "regressions", "--since", "30s")[-1] == "(1 older; --since all shows them)"


def not_excluded(partition, **more):
    row = {"class": "loss_not_excluded", "severity": "info", "proof": "unproven", "regression_id": f"n{partition}"}
    evidence = json.dumps({"missing": ["the HW of broker 1", 'its "log" [end]'], "start_offset": 9})
    none = dict.fromkeys(("lost_from", "lost_to", "lost_records"))
    return loss(partition=partition, evidence=evidence, ts=at(30), **row, **none, **more)


def test_a_loss_that_is_not_excluded_is_told_by_election_and_never_as_a_loss(lake):
    write(lake, "hw_regressions", *map(not_excluded, range(12)))
    said = (
        "broker 2 began leading after broker 1 at 2026-09-01 12:00:30 UTC in 12 partitions "
        '(clicks-0, clicks-1, clicks-2 and 9 more); missing: the HW of broker 1, its "log" [end]'
    )
    lines = show(lake, "regressions")[1].splitlines()
    assert lines[0] == f"prod: LOSS NOT EXCLUDED: {said} ({DAY})"
    assert lines[3:] == [f"prod: loss not excluded: {said}"]


def test_a_possible_loss_is_a_loss_not_excluded(lake):
    write(lake, "hw_regressions", loss(proof="unproven", severity="warning", ts=at(45)))
    assert show(lake, "regressions")[1].splitlines()[0] == (
        f"prod: LOSS NOT EXCLUDED: 180 offsets may be gone in 1 partition, unproven: {ELECTION} "
        f"at 2026-09-01 12:00:45 UTC: clicks-0 offsets 120..299 ({DAY})"
    )


def test_health_of_a_sound_cluster_is_its_verdict(lake):
    said = f"{JUDGED}\nprod: OK: 3 partitions, all in sync\n{NO_LOSS}\nprod: {SPARE}"
    assert show(lake, "health") == (0, said)


def test_a_replica_may_be_being_added_only_where_it_was_not_assigned_before(tmp_path):
    lake = str(tmp_path)
    risk = {"isr": [1, 2], "osr": [3], "under_replicated": True, "one_failure_away": "under_min_isr"}
    before, now = ({"since": at(k), "replicas": replicas} for k, replicas in enumerate(([1, 2], [1, 2, 3])))
    sound(lake, health("a", 0, assignments=[before, now], **risk), health("b", 0, assignments=[now, now], **risk))
    write(lake, "partition_health", health("c", 0, **risk))
    for topic, words in (("a", "broker 3 out of the ISR (or being added): "), ("b", "broker 3 out of the ISR: ")):
        assert f"AT RISK: {words}" in show(lake, "verdict", "--topic", topic)[1]
    assert "AT RISK: broker 3 out of the ISR: " in show(lake, "verdict", "--topic", "c")[1]


def test_health_names_the_partitions_in_trouble_and_who_holds_them_back(tmp_path):
    lake = str(tmp_path)
    sound(
        lake,
        health("orders", 0),
        health("orders", 1, isr=[1], osr=[2, 3], under_replicated=True, under_min_isr=True, one_failure_away="loss"),
        health("orders", 2, offline=True, leader_id=-1, isr=[2], one_failure_away=None),
        health("orders", 3, leader_leo=140, stalled_ms=14_000, holding_replicas=[3], out_of_sync=[3]),
        health("orders", 4, isr=[1, 2], osr=[3], under_replicated=True, one_failure_away="under_min_isr"),
    )
    write(lake, "hw_regressions", loss())
    assert [line.split(" at 2026")[0] for line in show(lake, "health")[1].splitlines()] == [
        f"prod: LOST: 180 offsets in 1 partition: {ELECTION}",
        "prod: OFFLINE: broker 2 gone: 1 of 5 partitions offline",
        "prod: UNDER MIN ISR: brokers 2, 3 gone: 1 of 5 partitions under min ISR",
        "prod: HELD BACK: broker 3 holds back 1 of 5 partitions, the longest for 14 s",
        "prod: AT RISK: broker 3 out of the ISR: 1 of 5 partitions has a replica less to count on "
        "(one more failure: 1 stops acks=all)",
        JUDGED,
        "prod/orders-2: nobody leads (epoch 4), HW 100, last ISR 2 of 1,2,3, OFFLINE",
        "prod/orders-1: broker 1 leads (epoch 4), HW 100, in sync 1 of 1,2,3, "
        "UNDER MIN ISR: writes with acks=all are refused",
        "prod/orders-3: broker 1 leads (epoch 4), HW 100 (40 below the log end), in sync 1,2,3 of 1,2,3, "
        "out of sync: 3, HW stands for 14 s, held back by 3",
        "prod/orders-4: broker 1 leads (epoch 4), HW 100, in sync 1,2 of 1,2,3",
        "prod: one failure away: 1 partition from loss, 1 from under min ISR",
    ]


def test_health_counts_what_it_lists_and_names_the_broker_first(tmp_path):
    """ "20000 partitions, all in sync" stood above 560 held back by broker 5."""
    lake, back = str(tmp_path), {"leader_leo": 140, "stalled_ms": 43_000, "holding_replicas": [5]}
    sound(lake, *(health("orders", n) for n in range(60)), *(health("orders", 60 + n, **back) for n in range(40)))
    lines = show(lake, "health")[1].splitlines()
    assert lines[0] == "prod: HELD BACK: broker 5 holds back 40 of 100 partitions, the longest for 43 s"
    assert len([line for line in lines if "held back by 5" in line]) == 30
    assert lines[-2] == "(10 more; --limit 40 shows all)"


def test_health_of_a_topic_lists_its_sound_partitions_too(lake):
    lines = show(lake, "health", "--topic", "orders")[1].splitlines()
    assert lines[1] == "prod/orders: OK: 2 partitions, all in sync"
    assert [line.split(": ")[0] for line in lines[3:]] == ["prod/orders-0", "prod/orders-1", "prod/orders"]


def test_a_drained_cluster_has_ended_and_is_not_offline(tmp_path):
    lake = str(tmp_path)
    write(lake, "partition_health", *(health("orders", n, offline=True, leader_id=-1) for n in range(6)))
    reported(lake, 1, 2, 3)
    drained(lake)
    text = show(lake, "health")[1]
    assert "prod: ended at 2026-09-01 12:01:00 UTC; then 6 partitions were offline" in text.splitlines()
    assert "OFFLINE" not in text
    assert "OFFLINE" not in show(lake, "health", "--topic", "orders")[1]
    reported(lake, 1, to=61)
    assert "prod: OFFLINE: brokers 1, 2, 3 gone: 6 of 6 partitions offline" in show(lake, "health")[1]


def test_clusters_come_with_the_worst_first(lake):
    for cluster, wrong in (("a", {"ar": [1], "isr": [1]}), ("z", {"offline": True, "leader_id": -1, "isr": [2]})):
        write(lake, "partition_health", health("orders", 0, cluster=cluster, **wrong))
        reported(lake, 1, cluster=cluster)
    clusters = [line.split(": ")[0] for line in show(lake, "verdict")[1].splitlines()]
    assert list(dict.fromkeys(clusters)) == ["z", "a", "prod"]
    assert clusters == sorted(clusters, key=["z", "a", "prod"].index)


def test_a_verdict_is_data_too(lake):
    rows = json.loads(show(lake, "verdict", "--format", "json")[1])
    assert [(row["cluster"], row["part"], row["state"]) for row in rows] == [
        ("prod", "judged", "OK"), ("prod", "present", "OK"), ("prod", "history", "OK"),
    ]  # fmt: skip
    assert f"prod: {rows[2]['text']}" == NO_LOSS
    assert show(lake, "verdict", "--format", "csv")[1].splitlines()[0] == "cluster,scope,part,state,text"


def test_a_topic_of_another_cluster_says_nothing_of_this_one(lake):
    write(lake, "partition_health", health("audit", 0, cluster="other"))
    reported(lake, 1, cluster="other")
    assert {line.split(":")[0] for line in show(lake, "health", "--topic", "audit")[1].splitlines()} == {
        "other", "other/audit", "other/audit-0",
    }  # fmt: skip


def test_hw_is_newest_last_and_says_what_is_left_out(lake):
    write(lake, "partition_hw", *({"kind": "advance", "hw": n, "ts": at(n), "isr": [1, 2]} for n in range(5)))
    _, text = show(lake, "hw", "--limit", "2")
    lines = text.splitlines()
    assert lines[:3] == show(lake, "verdict")[1].splitlines()
    lines = lines[3:]
    assert lines[0].startswith("ts ")
    assert " ".join(lines[0].split()).endswith("kind hw reported hw leader leo isr held by agreement")
    assert lines[1].split() == ["2026-09-01", "12:00:03.000", "prod", "orders-0", "advance", "3", "1,2"]
    assert lines[2].split()[5] == "4"
    assert lines[3] == "(3 more; --limit 5 shows all)"


def test_since_leaves_out_what_is_older_and_says_when_the_newest_was(lake):
    write(lake, "partition_hw", *({"hw": n, "ts": at(n)} for n in range(5)))
    _, text = show(lake, "hw", "--since", "2026-09-01T12:00:03", "--format", "json")
    assert [row["hw"] for row in json.loads(text)] == [3, 4]
    assert below(lake, "hw", "--since", "2026-09-01T13:00:00+00:00") == [
        "Nothing since 2026-09-01 13:00:00 UTC; the newest row is of 2026-09-01 12:00:04 UTC."
    ]
    assert below(lake, "hw", "--since", "5s") == ["Nothing since then; the newest row is of 2026-09-01 12:00:04 UTC."]


def test_isr_shows_the_latest_revision_of_a_change_even_without_its_epoch(lake):
    change = {"change": "shrink", "isr_before": [1, 2], "isr_after": [1], "removed": [2]}
    write(
        lake,
        "isr_changes",
        {**change, "partition_epoch": 7, "cause": "lag", "revision": 1, "ts": at(1)},
        {**change, "partition_epoch": 7, "cause": "controller_fenced", "revision": 2, "ts": at(1)},
        {**change, "cause": "unknown", "revision": 1, "ts": at(2)},
        {**change, "cause": "lag", "revision": 1, "ts": at(3)},
        {**change, "partition_epoch": 8, "cause": "lag", "revision": 1, "ts": at(4)},
        {
            **change,
            "partition_epoch": 8,
            "cause": "unknown",
            "revision": 2,
            "ts": at(4),
            "isr_before": [1],
            "removed": [],
        },
    )
    _, text = show(lake, "isr", "--format", "json")
    assert [row["cause"] for row in json.loads(text)] == ["controller_fenced", "unknown", "lag"]


def test_sync_filters_by_partition(lake):
    write(lake, "replica_sync", *({"partition": n, "replica_id": n, "state": "in_sync"} for n in range(3)))
    _, text = show(lake, "sync", "--topic", "orders", "--partition", "2", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["partition"], row["replica_id"], row["lag_ms"]) for row in rows] == [("2", "2", "")]


def test_alerts_show_the_latest_state_of_each(lake):
    alert = {"rule": "loss", "severity": "critical", "subject": "clicks", "summary": "gone", "first_ts": at(0)}
    labels = [("cluster", "prod"), ("topic", "clicks"), ("partition", "0")]
    write(
        lake,
        "alerts",
        {**alert, "alert_id": "a", "state": "firing", "last_ts": at(1), "labels": labels},
        {**alert, "alert_id": "a", "state": "resolved", "last_ts": at(9), "labels": labels},
        {**alert, "alert_id": "b", "state": "firing", "last_ts": at(5), "labels": [("cluster", "test")]},
    )
    states = [(row["alert_id"], row["state"]) for row in json.loads(show(lake, "alerts", "--format", "json")[1])]
    assert states == [("a", "resolved"), ("b", "firing")]
    assert len(json.loads(show(lake, "alerts", "--topic", "clicks", "--format", "json")[1])) == 1


def test_maps_are_objects_in_json_and_csv(lake):
    labels = [("cluster", "prod"), ("topic", "clicks")]
    write(lake, "alerts", {"alert_id": "a", "state": "firing", "labels": labels}, {"alert_id": "b", "labels": None})
    rows = {row["alert_id"]: row for row in json.loads(show(lake, "alerts", "--format", "json")[1])}
    assert (rows["a"]["labels"], rows["b"]["labels"]) == ({"cluster": "prod", "topic": "clicks"}, None)
    of_csv = csv.DictReader(io.StringIO(show(lake, "alerts", "--format", "csv")[1]))
    assert {row["alert_id"]: row["labels"] for row in of_csv}["a"] == '{"cluster": "prod", "topic": "clicks"}'


ABOUT = {
    "one": [("topic", "orders"), ("partition", "1"), ("partitions", "orders-1")],
    "several": [("topics", "audit, clicks, orders"), ("partitions", "audit-1, clicks-2, orders-11")],
    "too many": [("topics", "a, b and 900 more"), ("partitions", "a-0, b-0 and 4000 more")],
    "a source": [("sources", "broker-1/replication.log")],
}


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--topic", "orders"], {"one", "several", "too many"}),
        (["--topic", "clicks"], {"several", "too many"}),
        (["--topic", "orders", "--partition", "1"], {"one", "too many"}),
        (["--topic", "orders", "--partition", "11"], {"several", "too many"}),
        (["--partition", "1"], {"one", "several", "too many"}),
        ([], set(ABOUT)),
    ],
    ids=lambda value: " ".join(sorted(value)),
)
def test_alerts_are_found_by_each_topic_and_partition_they_are_about(lake, options, found):
    alert = {"rule": "out_of_sync", "severity": "warning", "state": "firing", "summary": "gone", "first_ts": at(0)}
    write(lake, "partition_health", *(health(topic, n) for topic in ("orders", "clicks") for n in (1, 11)))
    rows = [{**alert, "alert_id": name, "last_ts": at(1), "labels": labels} for name, labels in ABOUT.items()]
    write(lake, "alerts", *({**row, "subject": row["alert_id"]} for row in rows))
    shown = json.loads(show(lake, "alerts", *options, "--format", "json")[1])
    assert {row["alert_id"] for row in shown} == found


def test_an_alert_is_about_what_its_latest_state_says(lake):
    alert = {"alert_id": "a", "rule": "offline", "severity": "critical", "subject": "x", "summary": "gone"}
    write(lake, "partition_health", health("orders", 0), health("clicks", 0))
    for seconds, topics in ((1, ("topics", "clicks, orders")), (2, ("topic", "clicks"))):
        state = {"state": "firing", "first_ts": at(0), "last_ts": at(seconds), "labels": [topics]}
        write(lake, "alerts", {**alert, **state})
    assert json.loads(show(lake, "alerts", "--topic", "orders", "--format", "json")[1]) == []
    assert len(json.loads(show(lake, "alerts", "--topic", "clicks", "--format", "json")[1])) == 1


def test_json_keeps_unknown_apart_from_zero_and_csv_keeps_arrays(lake):
    write(lake, "partition_hw", {"hw": 0, "isr": [1, 2]})
    row = json.loads(show(lake, "hw", "--format", "json")[1])[0]
    assert (row["hw"], row["reported_hw"], row["ts"]) == (0, None, "2026-09-01T12:00:00.000000+00:00")
    assert next(csv.DictReader(io.StringIO(show(lake, "hw", "--format", "csv")[1])))["isr"] == "[1, 2]"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["hw", "--topic", "order"], "knows no topic order; did you mean orders?"),
        (["hw", "--cluster", "prd"], "knows no cluster prd; did you mean prod?"),
        (["hw", "--since", "yesterday"], "--since yesterday is no time; say 15m, 2h, 3d, 2026-11-21T09:20:00 or all"),
        (["hw", "--topic", "orders", "--partition", "99"], "knows no partition 99 of orders; did you mean orders-1?"),
        (["hw", "--partition", "99"], "knows no partition 99; did you mean 1?"),
        (["health", "--topic", "order"], "knows no topic order; did you mean orders?"),
        (["health", "--topic", "clicks", "--partition", "7"], "knows no partition 7 of clicks; did you mean clicks-0?"),
        (["regressions", "--cluster", "prd"], "knows no cluster prd; did you mean prod?"),
        (["isr", "--partition", "5", "--format", "json"], "knows no partition 5; did you mean 1?"),
        (["hw", "--partition", "5", "--format", "json"], "knows no partition 5; did you mean 1?"),
        (["alerts"], "there is no ops/alerts in"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_line(lake, options, words):
    write(lake, "partition_hw", {"hw": 1})
    code, text = show(lake, *options)
    assert code == 2
    assert words in text
    assert len(text.splitlines()) == 1


def test_a_quote_in_a_name_is_only_a_name(lake):
    write(lake, "partition_hw", {"hw": 1})
    assert show(lake, "hw", "--topic", "o'; DROP")[0] == 2


def test_show_starts_no_heavy_engine(lake):
    write(lake, "partition_hw", {"hw": 1})
    program = (
        "import sys; from pipelines.cli import app; app(sys.argv[1:], standalone_mode=False); "
        "print(sorted({'pyspark', 'numba', 'pandas', 'duckdb', 'great_expectations', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "show", "health", "--lake", lake], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1+1", "@sum", "\t=1", "\r=1"])
def test_a_cell_that_a_spreadsheet_would_run_is_text(text):
    from pipelines.commands.show.tables import as_csv

    found = as_csv([{"summary": text, "lag": -3, "isr": [-1], "name": "a=b-c"}], ["summary", "lag", "isr", "name"])
    (row,) = csv.DictReader(io.StringIO(found))
    assert row.pop("summary").startswith("'")
    assert row == {"lag": "-3", "isr": "[-1]", "name": "a=b-c"}
