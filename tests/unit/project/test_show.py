"""`hwmark show` on small lakes: what a person reads, what a program reads, and what is refused."""

import csv
import io
import json
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from lakes import at, health, loss, write
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.errors import UsageError
from pipelines.look import moment


@pytest.fixture
def lake(tmp_path):
    path = str(tmp_path / "lake")
    write(path, "partition_health", health("orders", 0), health("orders", 1), health("clicks", 0))
    return path


def show(lake, what, *options):
    done = CliRunner().invoke(app, ["show", what, "--lake", lake, *options])
    return done.exit_code, done.output.rstrip("\n")


def test_regressions_name_the_range_that_is_gone(lake):
    write(lake, "hw_regressions", loss(ts=at(45)))
    assert show(lake, "regressions") == (
        0,
        "LOST: 180 offsets in 1 partition.\n"
        "clicks-0: offsets 120..299 (180) are gone, critical, unclean election of broker 2 at 2026-09-01 12:00:45 UTC",
    )


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (
            loss(**{"class": "committed_loss", "leader_id_before": 2}),
            "clicks-0: offsets 120..299 (180) are gone, critical, broker 2 resumed leading from offset 120",
        ),
        (
            loss(**{"class": "committed_loss"}),
            "clicks-0: offsets 120..299 (180) are gone, critical, broker 2 began leading from offset 120",
        ),
        (
            loss(proof="bounded"),
            "clicks-0: offsets at least 120..299 (180) are gone, critical (bounded), unclean election of broker 2",
        ),
        (
            loss(proof="unproven", severity="warning"),
            "clicks-0: offsets 120..299 (180) may be gone, warning (unproven), unclean election of broker 2",
        ),
        (
            loss(
                **{"class": "hw_moved_back", "lost_from": None, "lost_to": None, "lost_records": None, "replica_id": 3}
            ),
            "clicks-0: HW 300 -> 120, critical, hw moved back on broker 3",
        ),
    ],
)
def test_each_verdict_is_one_sentence(lake, row, sentence):
    write(lake, "hw_regressions", row)
    assert show(lake, "regressions")[1].splitlines()[-1] == sentence + " at 2026-09-01 12:00:00 UTC"


def test_only_the_latest_revision_of_a_verdict_counts(lake):
    write(lake, "hw_regressions", loss())
    write(lake, "hw_regressions", loss(revision=2, severity="info", **{"class": "stale_leader_hw"}))
    assert show(lake, "regressions")[1] == (
        "No loss is known: no high watermark fell in a way that costs committed records.\nHarmless: 1 stale_leader_hw."
    )


def test_harmless_findings_do_not_hide_a_loss(lake):
    harmless = [
        loss(regression_id=f"i{n}", severity="info", ts=at(100 + n), **{"class": "follower_hw_lowered"})
        for n in range(50)
    ]
    write(lake, "hw_regressions", loss(ts=at(1)), *harmless)
    _, text = show(lake, "regressions", "--limit", "5")
    assert text.splitlines() == [
        "LOST: 180 offsets in 1 partition.",
        "Harmless: 50 follower_hw_lowered.",
        "clicks-0: offsets 120..299 (180) are gone, critical, unclean election of broker 2 at 2026-09-01 12:00:01 UTC",
    ]


def test_no_finding_at_all_says_so(lake):
    assert show(lake, "regressions")[1].startswith("No loss is known")


def test_health_of_a_sound_cluster_is_one_sentence(lake):
    assert show(lake, "health") == (0, "prod: 3 partitions, all in sync; last heard 2026-09-01 12:01:00 UTC")


def test_health_names_the_partitions_in_trouble_and_who_holds_them_back(tmp_path):
    lake = str(tmp_path)
    write(
        lake,
        "partition_health",
        health("orders", 0),
        health("orders", 1, isr=[1], osr=[2, 3], under_replicated=True, under_min_isr=True),
        health("orders", 2, offline=True, leader_id=-1, isr=[2]),
        health("orders", 3, leader_leo=140, stalled_ms=14_000, holding_replicas=[3], out_of_sync=[3]),
    )
    write(lake, "hw_regressions", loss())
    assert show(lake, "health")[1].splitlines() == [
        "prod: 4 partitions, 1 offline, 1 under min ISR, 1 under-replicated; LOST 180 offsets "
        "(hwmark show regressions); last heard 2026-09-01 12:01:00 UTC",
        "orders-1: broker 1 leads (epoch 4), HW 100, in sync 1 of 1,2,3, "
        "UNDER MIN ISR: writes with acks=all are refused",
        "orders-2: nobody leads (epoch 4), HW 100, in sync 2 of 1,2,3, OFFLINE",
        "orders-3: broker 1 leads (epoch 4), HW 100 (40 below the log end), in sync 1,2,3 of 1,2,3, out of sync: 3, "
        "HW stands for 14 s, held back by 3",
    ]


def test_health_of_a_topic_lists_its_sound_partitions_too(lake):
    assert [line.split(":")[0] for line in show(lake, "health", "--topic", "orders")[1].splitlines()] == [
        "prod",
        "orders-0",
        "orders-1",
    ]


def test_hw_is_newest_last_and_says_what_is_left_out(lake):
    write(lake, "partition_hw", *({"kind": "advance", "hw": n, "ts": at(n), "isr": [1, 2]} for n in range(5)))
    _, text = show(lake, "hw", "--limit", "2")
    lines = text.splitlines()
    assert lines[0].startswith("ts ")
    assert " ".join(lines[0].split()).endswith("kind hw reported hw leader leo isr held by agreement")
    assert lines[1].split() == ["2026-09-01", "12:00:03.000", "prod", "orders-0", "advance", "3", "1,2"]
    assert lines[2].split()[5] == "4"
    assert lines[3] == "(3 more; --limit 5 shows all)"


def test_since_leaves_out_what_is_older_and_says_when_the_newest_was(lake):
    write(lake, "partition_hw", *({"hw": n, "ts": at(n)} for n in range(5)))
    _, text = show(lake, "hw", "--since", "2026-09-01T12:00:03", "--format", "json")
    assert [row["hw"] for row in json.loads(text)] == [3, 4]
    assert show(lake, "hw", "--since", "2026-09-01T13:00:00+00:00")[1] == (
        "Nothing since 2026-09-01 13:00:00 UTC; the newest row is of 2026-09-01 12:00:04 UTC."
    )


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
        (["hw", "--since", "yesterday"], "--since yesterday is no time; say 15m, 2h, 3d or 2026-11-21T09:20:00"),
        (["alerts"], "there is no ops/alerts in"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_line(lake, options, words):
    write(lake, "partition_hw", {"hw": 1})
    code, text = show(lake, *options)
    assert code == 2
    assert words in text
    assert len(text.splitlines()) == 1


def test_a_lake_that_is_none_names_the_command_that_makes_one(tmp_path):
    assert show(f"{tmp_path}/no", "hw") == (
        2,
        f"hwmark: there is no silver/partition_hw in {tmp_path}/no yet; "
        f"`hwmark run --once --lake {tmp_path}/no` writes it",
    )


def test_a_quote_in_a_name_is_only_a_name(lake):
    write(lake, "partition_hw", {"hw": 1})
    assert show(lake, "hw", "--topic", "o'; DROP")[0] == 2


def test_moments():
    now = datetime(2026, 1, 2, tzinfo=UTC)
    assert moment("90m", now) == datetime(2026, 1, 1, 22, 30, tzinfo=UTC)
    assert moment("2026-01-01T01:00:00+01:00", now) == datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(UsageError, match="5w is no time"):
        moment("5w", now)


def test_show_starts_no_heavy_engine(lake):
    write(lake, "partition_hw", {"hw": 1})
    program = (
        "import sys; from pipelines.cli import app; app(sys.argv[1:], standalone_mode=False); "
        "print(sorted({'pyspark', 'numba', 'pandas', 'duckdb', 'great_expectations', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "show", "hw", "--lake", lake], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
