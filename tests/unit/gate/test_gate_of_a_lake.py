"""`hwmark gate` on small lakes: statuses, lines, waiting."""

import json

import pytest
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.commands.gate import command
from pipelines.gate.facts import Facts, PartitionFacts
from tests.unit.project.lakes import at, drained, health, reported, sound, write

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def wall_clock(monkeypatch, tmp_path):
    """25 s after the last word of every lake."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pipelines.commands.clock.now", lambda: at(85))


def broker(broker_id, **values):
    given = {"broker_id": broker_id, "ts": at(60), "state": "unfenced", "last_reported_ts": at(60), "rack": "a"}
    return given | values


THREE = (broker(1), broker(2, rack="b"), broker(3, rack="c"))


@pytest.fixture
def lake(tmp_path):
    def make(*partitions, brokers=THREE):
        path = str(tmp_path / "lake")
        sound(path, *partitions)
        write(path, "brokers", *brokers)
        return path

    return make


def gate(lake, *options, apart=True):
    known = ["--controllers-apart"] if apart else []
    done = CliRunner().invoke(app, ["gate", "--lake", lake, *known, *options])
    return done.exit_code, done.output.rstrip("\n").splitlines()


def as_json(lake, *options):
    done = CliRunner().invoke(app, ["gate", "--lake", lake, "--controllers-apart", "--format", "json", *options])
    return done.exit_code, json.loads(done.stdout)


def test_yes_is_status_0_and_says_that_the_quorum_was_not_looked_at(lake):
    status, lines = gate(lake(health("orders", 0), health("orders", 1, leader_id=2)), "--broker", "1")
    assert (status, lines[:2]) == (
        0,
        [
            "prod: YES: broker 1 may be stopped now: its 2 partitions keep min ISR and a caught-up leader "
            "(from gold as of 2026-09-01 12:01:00 UTC, 25 s ago)",
            "quorum not looked at",
        ],
    )


def test_whether_brokers_vote_in_the_quorum_is_not_known_of_a_lake(lake):
    status, lines = gate(lake(health("orders", 0)), "--broker", "1", apart=False)
    assert status == 4
    assert "--controllers-apart says that they do not" in lines[0]


def test_no_is_status_3_with_the_partitions_that_would_break(lake):
    path = lake(health("orders", 0, isr=[1, 2]), health("orders", 1))
    status, lines = gate(path, "--broker", "1")
    assert status == 3
    assert "NO: broker 1 must not be stopped now: 1 of 2 partitions would not keep min ISR" in lines[0]
    assert lines[1].split() == ["partition", "effect", "isr", "isr", "then", "min", "isr", "no", "leader", "why"]
    assert lines[2].split() == ["orders-0", "breaks", "1,2", "2", "2", "under", "min", "ISR", "then"]
    assert gate(path, "--broker", "3")[0] == 0


def test_a_replica_that_is_out_of_sync_holds_the_hw_back_or_is_fenced_does_not_count(lake):
    path = lake(
        health("late", 0, out_of_sync=[2]),
        health("stalled", 0, stalled_ms=10_001, holding_replicas=[3]),
        health("fine", 0, stalled_ms=9_000, holding_replicas=[3]),
    )
    status, found = as_json(path, "--broker", "1")
    assert (status, [(p["topic"], p["isr_then"]) for p in found["partitions"]]) == (
        3,
        [("late", [3]), ("stalled", [2])],
    )


def test_a_follower_that_hung_for_9_s_does_not_count_though_it_is_in_sync_by_the_lag(lake):
    """Of 900 records it has none: as the leader stops, whoever has them is alone (17)."""
    hung = {"stalled_ms": 9_000, "holding_replicas": [2], "lag_records": 900}
    path = lake(health("orders", 0, **hung, behind=[2]), health("before", 0, **hung))
    status, found = as_json(path, "--broker", "1")
    assert (status, [(p["topic"], p["isr_then"]) for p in found["partitions"]]) == (3, [("orders", [3])])


def test_a_fenced_broker_in_the_isr_does_not_count(lake):
    path = lake(health("orders", 0), brokers=(broker(1), broker(2, state="fenced"), broker(3)))
    assert gate(path, "--broker", "1")[0] == 3
    assert gate(path, "--broker", "2")[0] == 0


@pytest.mark.parametrize("state", ["no_answer", "down"])
def test_a_broker_that_does_not_answer_is_none_to_count_on(lake, state):
    """Stopped beside another one it leaves min ISR to nobody."""
    path = lake(health("orders", 0, min_isr=2), brokers=(broker(1), broker(2, state=state), broker(3)))
    assert gate(path, "--broker", "3")[0] == 3
    leads = lake(health("orders", 0, min_isr=2, leader_id=2), brokers=(broker(1), broker(2, state=state), broker(3)))
    assert gate(leads, "--broker", "3")[0] == 3


def test_who_is_in_the_isr_is_not_known_as_its_leader_is_fenced(lake):
    """The controller tells that at once, and the new ISR is not counted before a leader tells it, or for a grace."""
    path = lake(health("orders", 0, min_isr=1), brokers=(broker(1, state="fenced"), broker(2), broker(3)))
    status, lines = gate(path, "--broker", "3")
    assert status == 4
    assert any("its leader, broker 1, is down or stopping" in line for line in lines)


def test_a_broker_of_which_only_a_deposed_controller_tells_is_not_known(lake):
    doubted = broker(2, state="unknown", witness="log", reason="told by a controller that another one had replaced")
    status, lines = gate(lake(health("orders", 0, min_isr=2), brokers=(broker(1), doubted, broker(3))), "--broker", "3")
    assert status == 4
    assert any(line.endswith("  whether broker 2 is caught up") for line in lines)


def test_at_level_0_who_is_caught_up_is_not_known(lake):
    status, lines = gate(lake(health("orders", 0, level=0)), "--broker", "1")
    assert status == 4
    assert "NOT KNOWN whether broker 1 may be stopped now: 1 of 1 partition cannot be judged (at level 0" in lines[0]
    assert "--bootstrap HOST:PORT asks the cluster itself" in lines[0]


def test_of_samples_who_is_caught_up_is_known_while_every_replica_answers(lake):
    assert gate(lake(health("orders", 0, level=1, out_of_sync=[])), "--broker", "1")[0] == 0


def test_of_samples_who_does_not_answer_is_not_known(lake):
    status, lines = gate(lake(health("orders", 0, level=1, out_of_sync=None)), "--broker", "1")
    assert (status, "not every replica in its ISR answers" in lines[0]) == (4, True)


def test_where_not_every_members_end_is_known_nobody_says_yes(lake):
    """The log begins inside the term, or has a gap: gold/partition_health has no list of who is behind."""
    status, lines = gate(lake(health("orders", 0, behind=None)), "--broker", "1")
    assert (status, "not everyone's end is known" in lines[0]) == (4, True)


def test_older_than_max_age_is_not_known(lake):
    path = lake(health("orders", 0))
    status, lines = gate(path, "--broker", "1", "--max-age", "20s")
    assert (status, len(lines)) == (4, 3)
    assert "what is known is 25 s old, and --max-age allows 20 s" in lines[0]


def test_a_silent_leader_leaves_its_partitions_unknown(lake):
    path = lake(health("orders", 0, leader_id=2), brokers=(broker(1), broker(2, last_reported_ts=at(0)), broker(3)))
    status, found = as_json(path, "--broker", "1")
    assert status == 4
    assert found["partitions"][0]["why"] == "its leader, broker 2, has reported nothing since 2026-09-01 12:00:00 UTC"


def test_telemetry_that_has_ended_is_not_known(lake):
    path = lake(health("orders", 0))
    drained(path)
    status, lines = gate(path, "--broker", "1")
    assert status == 4
    assert "its telemetry ended at 2026-09-01 12:01:00 UTC" in lines[0]


def test_not_judged_is_not_known(lake, monkeypatch):
    path = lake(health("orders", 0))
    reported(path, 1, to=61)
    monkeypatch.setattr("pipelines.commands.clock.now", lambda: at(400 * 86_400))
    status, lines = gate(path, "--broker", "1", "--max-age", "100000h")
    assert status == 4
    assert "NOT JUDGED: `hwmark run` has not read what bronze got" in lines[0]


def test_a_lake_that_no_job_has_read_is_not_known(tmp_path, monkeypatch):
    path = str(tmp_path / "unread")
    reported(path, 1)
    monkeypatch.setattr("pipelines.commands.clock.now", lambda: at(400 * 86_400))
    status, lines = gate(path, "--broker", "1")
    assert status == 4
    assert "NOT JUDGED: nothing of it is reconstructed" in lines[0]


def test_a_job_that_never_wrote_brokers_is_not_known(tmp_path):
    path = str(tmp_path / "earlier")
    sound(path, health("orders", 0))
    status, lines = gate(path, "--broker", "1")
    assert status == 4
    assert "gold/brokers: not yet: written by the next `hwmark run`" in lines[0]


def test_brokers_that_an_earlier_version_wrote_are_read(tmp_path):
    path = str(tmp_path / "earlier")
    sound(path, health("orders", 0))
    write(path, "brokers", *THREE)
    rows = DeltaTable(f"{path}/gold/brokers").to_pyarrow_table().drop_columns(["witness"])
    write_deltalake(f"{path}/gold/brokers", rows, mode="overwrite", schema_mode="overwrite")
    status, lines = gate(path, "--broker", "1")
    assert (status, lines[0].partition(" (")[0]) == (
        0,
        "prod: YES: broker 1 may be stopped now: its 1 partition keeps min ISR and a caught-up leader",
    )


def test_partitions_that_stop_anyway_need_to_be_accepted(lake):
    path = lake(health("single", 0, ar=[1], isr=[1], min_isr=1), health("orders", 0))
    status, lines = gate(path, "--broker", "1")
    assert status == 3
    assert "1 of 2 partitions will stop anyway" in lines[0]
    assert any("--accept-unavailable accepts that" in line for line in lines)
    status, lines = gate(path, "--broker", "1", "--accept-unavailable")
    assert status == 0
    assert "1 of 2 partitions keep min ISR and a caught-up leader, 1 will stop, as accepted" in lines[0]


def test_a_rack_is_all_its_brokers(lake):
    status, found = as_json(lake(health("orders", 0)), "--rack", "b")
    assert (status, found["brokers"], found["answer"]) == (0, [2], "yes")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--broker", "9"], "hwmark: there is no broker 9; known: 1, 2, 3"),
        (["--rack", "z"], "hwmark: there is no rack z; known: a, b, c"),
        (["--broker", "1", "--cluster", "prd"], "knows no cluster prd; did you mean prod?"),
        ([], "hwmark: which brokers? Name them with --broker N"),
        (["--broker", "1", "--rack", "a"], "hwmark: which brokers?"),
        (["--broker", "1", "--max-age", "soon"], "hwmark: --max-age is 'soon'"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(lake, options, said):
    status, lines = gate(lake(health("orders", 0)), *options)
    assert (status, len(lines)) == (2, 1), lines
    assert said in lines[0]


def test_of_several_clusters_one_is_named(lake):
    path = lake(health("orders", 0), health("orders", 0, cluster="test"))
    write(path, "brokers", broker(1, cluster="test"))
    status, lines = gate(path, "--broker", "1")
    assert (status, lines[0].split(";")[0].partition(" has ")[2]) == (2, "2 clusters: name one with --cluster")
    assert gate(path, "--broker", "1", "--cluster", "prod")[0] == 0


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self):
        self.now = 0.0

    def sleep(self, seconds):
        self.now += seconds

    def monotonic(self):
        return self.now


def facts(*isr, **more):
    one = PartitionFacts("orders", 0, frozenset({1, 2, 3}), frozenset(isr), 1, 2)
    return Facts("prod", frozenset({1}), (one,), at(80), "gold", controllers_apart=True, **more)


def waited(answers, wait_s, **printing):
    time, left = Clock(), list(answers)
    source = lambda: left.pop(0) if len(left) > 1 else left[0]  # noqa: E731
    status = command.gate(source, command.Printing(**printing), wait_s, sleep=time.sleep, monotonic=time.monotonic)
    return status, time.now


def test_waiting_ends_with_the_first_yes_and_says_a_line_every_ten_seconds(capsys):
    status, seconds = waited([facts(1, 2)] * 8 + [facts(1, 2, 3)], 600)
    assert (status, seconds) == (0, 16)
    assert capsys.readouterr().err.count("gate: prod: NO: broker 1 must not be stopped now") == 2


def test_waiting_ends_in_time_with_the_last_answer():
    assert waited([facts(1, 2)], 5) == (3, 5)
    assert waited([facts(1, 2, 3, unknown=("a right",))], 5) == (4, 5)


def test_what_stops_anyway_is_not_waited_for():
    one = PartitionFacts("single", 0, frozenset({1}), frozenset({1}), 1, 1)
    assert waited([Facts("prod", frozenset({1}), (one,), at(80), "gold")], 600) == (3, 0)


def shown(lake, *options):
    done = CliRunner().invoke(app, ["show", "timeline", "--lake", lake, "--since", "all", *options])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_answer_of_a_gate_stands_in_the_timeline(lake):
    path = lake(health("orders", 0), health("orders", 1, leader_id=2, isr=[1, 2], min_isr=2))
    assert [gate(path, "--broker", str(one))[0] for one in (3, 1)] == [0, 3]
    rows = json.loads(shown(path, "--format", "json"))
    answers = sorted((row["kind"], row["cluster"], row["summary"].partition(":")[0]) for row in rows)
    assert answers == [("gate", "prod", "NO"), ("gate", "prod", "YES")]
    table = shown(path)
    assert "NO: broker 1 must not be stopped now" in table
    assert [line.split()[3:5] for line in table.splitlines()[-2:]] == [["gate", "info"]] * 2


def test_an_answer_that_cannot_be_written_down_holds(lake, monkeypatch):
    def refuse(*_):
        raise PermissionError("read-only file system")

    path = lake(health("orders", 0))
    monkeypatch.setattr("pipelines.lake.lake.Lake.append", refuse)
    assert gate(path, "--broker", "1")[0] == 0


def test_a_timeline_of_which_nothing_is_known_says_so(lake):
    path = lake(health("orders", 0))
    assert shown(path).splitlines()[-1].startswith("Nothing is recorded of this period")
    assert json.loads(shown(path, "--format", "json")) == []
    done = CliRunner().invoke(app, ["show", "isr", "--broker", "1", "--lake", path])
    assert (done.exit_code, "--broker is for `show timeline`" in done.output) == (2, True)


def test_a_min_isr_that_is_not_known_names_the_setting_that_sets_it(lake):
    status, lines = gate(lake(health("orders", 0, min_isr=None)), "--broker", "1")
    assert status == 4
    assert lines[0].startswith(
        "prod: NOT KNOWN whether broker 1 may be stopped now: 1 of 1 partition cannot be judged "
        "(its min.insync.replicas is not known: [rules] min_isr sets it, --bootstrap HOST:PORT asks the cluster itself)"
    )


def test_partitions_that_will_stop_anyway_are_counted_in_plain_words(lake):
    path = lake(health("single", 0, ar=[1], isr=[1], min_isr=1))
    _, lines = gate(path, "--broker", "1")
    assert (
        "1 partition will stop anyway: too few of its replicas are on other brokers; --accept-unavailable accepts that"
        in lines
    )
