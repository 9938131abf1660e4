"""`hwmark show brokers`, `racks`, `replicas` and `loss` on small lakes, and on lakes of earlier versions."""

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner

from pipelines.cli import app
from schemas import partition_health
from tests.unit.project.lakes import at, health, loss, sound, write

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def wall_clock(monkeypatch):
    """25 s after the last word of every lake."""
    monkeypatch.setattr("pipelines.commands.clock.now", lambda: at(85))


@pytest.fixture
def lake(tmp_path):
    path = str(tmp_path / "lake")
    sound(path, health("orders", 0), health("clicks", 0))
    return path


def show(lake, what, *options):
    done = CliRunner().invoke(app, ["show", what, "--lake", lake, *options])
    return done.exit_code, done.output.rstrip("\n")


def below(lake, what, *options):
    """The lines below the verdicts."""
    verdicts = show(lake, "verdict", *[o for o in options if o != "--id" and not o.startswith("r")])[1].splitlines()
    return show(lake, what, *options)[1].splitlines()[len(verdicts) :]


def as_json(lake, what, *options):
    return json.loads(show(lake, what, "--format", "json", *options)[1])


def broker(broker_id, **values):
    return {"broker_id": broker_id, "ts": at(60), "state": "unfenced", "last_reported_ts": at(60)} | values


def brokers(lake):
    write(
        lake,
        "brokers",
        broker(1, rack="a", led=2, level=3, out_of_sync=0, holds_back=0),
        broker(2, rack="b", followed=2, out_of_sync=1, holds_back=1, holds_back_of=[("1", 1)], lag_records=40),
        broker(3, followed=2, state="controlled_shutdown", restarting_since=at(50), leo_unknown=2),
    )
    lag = {"broker_id": 2, "followed": 2, "known": 2, "behind": 1, "level": 3}
    for seconds, records in ((-60, 900), (40, 60), (50, 50), (60, 40)):
        write(lake, "broker_lag", lag | {"ts": at(seconds), "lag_records": records})


def test_brokers_begin_with_the_verdict_and_end_with_an_estimate(lake):
    brokers(lake)
    status, text = show(lake, "brokers")
    assert (status, text.splitlines()[0].split(",")[0]) == (0, "prod: judged up to 2026-09-01 12:01:00 UTC")
    heading, *rows = below(lake, "brokers")
    assert heading.split()[:4] == ["cluster", "broker", "id", "rack"]
    assert [row.split()[1:4] for row in rows] == [
        ["1", "a", "unfenced"], ["2", "b", "unfenced"], ["3", "not", "known"],
    ]  # fmt: skip
    assert "in about 40 s (40 s to 40 s)" in rows[1]
    assert "controlled_shutdown  2026-09-01 12:00:50.000" in rows[2]
    assert rows[2].count("not known") == 5


def test_brokers_as_data_have_every_column_and_the_estimate(lake):
    brokers(lake)
    found = as_json(lake, "brokers")
    names = ("broker_id", "rack", "holds_back", "catch_up", "catch_up_s", "lag_per_s")
    assert [tuple(row[name] for name in names) for row in found] == [
        (1, "a", 0, "not known", None, None),
        (2, "b", 1, "in about 40 s (40 s to 40 s)", 40.0, -1.0),
        (3, None, None, "not known", None, None),
    ]
    heading, first, *_ = show(lake, "brokers", "--format", "csv")[1].splitlines()
    assert heading.split(",")[:4] == ["cluster", "broker_id", "ts", "rack"]
    assert len(heading.split(",")) == len(first.split(","))


def test_racks_add_their_brokers_up(lake):
    brokers(lake)
    assert [row.split() for row in below(lake, "racks")[1:]] == [
        ["prod", "a", "1", "2", "0", "0", "0", "0"],
        ["prod", "b", "2", "0", "2", "0", "1", "1", "1:", "1"],
        ["prod", "not", "known", "3", "0", "2", "0", "not", "known", "not", "known", "3"],
    ]
    assert [(row["rack"], row["brokers"], row["restarting"]) for row in as_json(lake, "racks")] == [
        ("a", [1], []), ("b", [2], []), (None, [3], [3]),
    ]  # fmt: skip


def test_the_worst_replicas_are_those_of_the_latest_interval(lake):
    brokers(lake)
    replica = {"topic": "orders", "replica_id": 2, "leader_id": 1, "level": 3, "state": "lagging"}
    for seconds, records in ((20, 10), (40, 20), (60, 30)):
        write(lake, "replica_lag", replica | {"ts": at(seconds), "as_of": at(seconds), "lag_records": records})
    write(lake, "replica_lag", replica | {"ts": at(60), "as_of": at(60), "replica_id": 3, "level": 2, "lag_records": 7})
    rows = below(lake, "replicas")[1:]
    assert [row.split()[3:6] for row in rows] == [["orders-0", "2", "1"], ["orders-0", "3", "1"]]
    assert ["not catching up" in rows[0], "not known" in rows[1]] == [True, True]
    assert as_json(lake, "replicas", "--topic", "clicks") == []


@pytest.mark.parametrize("what", ["brokers", "racks"])
def test_a_topic_means_nothing_to_what_is_about_brokers(lake, what):
    brokers(lake)
    status, text = show(lake, what, "--topic", "orders")
    assert (status, text.count("\n")) == (2, 0)
    assert f"show {what} is about whole brokers" in text


@pytest.mark.parametrize("what", ["brokers", "racks", "replicas"])
def test_a_lake_begun_earlier_says_when_it_will_have_them(lake, what):
    assert below(lake, what) == ["gold/brokers: not yet: written by the next `hwmark run`"]
    status, text = show(lake, what, "--format", "json")
    assert (status, text.split(": ", 1)[1]) == (2, "gold/brokers: not yet: written by the next `hwmark run`")


def test_health_of_an_earlier_version_says_that_what_is_one_failure_away_is_not_there_yet(lake):
    path = f"{lake}/{partition_health.TABLE.path}"
    rows = DeltaTable(path).to_pyarrow_table().drop_columns(["min_isr", "one_failure_away"])
    write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite")
    assert below(lake, "health") == ["one failure away: not yet: written by the next `hwmark run`"]


def lost(lake):
    write(lake, "hw_regressions", loss(ts=at(45), leader_epoch=5, leader_epoch_before=4, evidence="{}"))
    place = {"topic": "clicks", "leader_epoch": 4}
    change = {"change": "shrink", "cause": "lag", "revision": 1, "isr_after": [1], "removed": [2], "added": []}
    write(lake, "isr_changes", place | change | {"ts": at(20), "under_min_isr": False, "partition_epoch": 7})
    sync = {"state": "out_of_sync", "replica_id": 2, "ts": at(15), "last_caught_up_ts": at(5)}
    write(lake, "replica_sync", place | sync)
    for seconds, value in ((10, 100), (25, 200), (30, 300)):
        row = {"ts": at(seconds), "kind": "advance", "hw": value, "leader_leo": value}
        write(lake, "partition_hw", place | row)
    write(lake, "partition_hw", place | {"topic": "orders", "ts": at(11), "kind": "advance", "hw": 999})


def test_a_loss_is_a_chain_from_its_first_cause_on(lake):
    lost(lake)
    assert show(lake, "loss")[1].startswith("prod: LOST: 180 offsets in 1 partition: ")
    assert below(lake, "loss") == [
        "prod/clicks-0, loss r1:",
        "  2026-09-01 12:00:20 UTC  follower gone: broker 2 left the ISR (lag), "
        "last caught up at 2026-09-01 12:00:05 UTC",
        "  2026-09-01 12:00:20 UTC  leader alone: broker 1 alone in the ISR",
        "  2026-09-01 12:00:45 UTC  elected: unclean election of broker 2 after broker 1, leader epoch 5",
        "  2026-09-01 12:00:45 UTC  lost: 180 offsets, 120..299",
        "  2026-09-01 12:00:25 UTC  written: the HW passed the lost offsets from 2026-09-01 12:00:25 UTC until "
        "2026-09-01 12:00:30 UTC",
        "  time not known           acknowledged: brokers do not know which writes were acknowledged; by the "
        "producers' settings:",
        "  time not known           acks=all: every lost offset was below the HW: these writes were acknowledged, and "
        "consumers could read them",
        "  time not known           acks=1: the same, acknowledged earlier; nothing is known to have stood above "
        "the HW",
        "  time not known           min ISR: it held at the last ISR change: no write with acks=all was refused for it "
        "then",
        "  time not known           judged: proven at an unknown level",
    ]
    steps = as_json(lake, "loss", "--id", "r1")
    assert [step["step"] for step in steps][:3] == ["follower gone", "leader alone", "elected"]
    assert steps[0]["ts"] == "2026-09-01T12:00:20.000000+00:00"
    heading = "cluster,topic,partition,regression_id,step,ts,text"
    assert show(lake, "loss", "--format", "csv")[1].splitlines()[0] == heading


def test_of_several_losses_the_newest_is_explained_and_the_others_counted(lake):
    lost(lake)
    write(lake, "hw_regressions", loss(ts=at(50), regression_id="r2", partition=3))
    said = below(lake, "loss")
    assert said[0] == "prod/clicks-3, loss r2:"
    assert said[-4].startswith("2 partitions lost 360 offsets by it, committed from 2026-09-01 12:00:25 UTC to ")
    assert below(lake, "loss", "--id", "r1")[0] == "prod/clicks-0, loss r1:"
    status, text = show(lake, "loss", "--id", "x")
    assert (status, "no loss has an id that begins with x" in text) == (2, True)


def test_losses_by_one_change_of_leader_are_told_together_in_order_of_time(lake):
    lost(lake)
    for partition, seconds in ((3, 46), (2, 47), (9, 300)):
        write(lake, "hw_regressions", loss(ts=at(seconds), regression_id=f"r{partition}", partition=partition,
                                           leader_epoch_before=4, proof="bounded"))  # fmt: skip
    row = {"topic": "clicks", "partition": 3, "leader_epoch": 4, "kind": "advance", "leader_leo": 300}
    write(lake, "partition_hw", row | {"ts": at(12), "hw": 121}, row | {"ts": at(40), "hw": 300})
    said = below(lake, "loss", "--id", "r2")
    at_ = said.index("3 partitions lost at least 540 offsets by it, committed from 2026-09-01 12:00:12 UTC to "
                     "2026-09-01 12:00:47 UTC, in order of time:")  # fmt: skip
    assert [" ".join(line.split()) for line in said[at_ + 1 :]] == [
        "ts partition lost offsets committed from committed to id",
        "2026-09-01 12:00:45.000 clicks-0 120..299 180 2026-09-01 12:00:25.000 2026-09-01 12:00:30.000 r1",
        "2026-09-01 12:00:46.000 clicks-3 120..299 180 2026-09-01 12:00:12.000 2026-09-01 12:00:40.000 r3",
        "2026-09-01 12:00:47.000 clicks-2 120..299 180 r2",
    ]
    rows = as_json(lake, "loss", "--id", "r2")
    assert {row["regression_id"] for row in rows} == {"r1", "r2", "r3"}
    assert "the HW passed the lost offsets from 2026-09-01 12:00:12 UTC" in str([row["text"] for row in rows])


def test_without_a_loss_there_is_no_chain(lake):
    write(lake, "hw_regressions", loss(severity="info"))
    assert below(lake, "loss") == ["No loss is known there."]
    assert as_json(lake, "loss") == []


def test_nothing_is_written_by_looking(lake):
    brokers(lake)
    lost(lake)
    before = sorted(Path(lake).rglob("*"))
    for what in ("brokers", "racks", "replicas", "loss", "health"):
        assert show(lake, what)[0] == 0
    assert sorted(Path(lake).rglob("*")) == before
