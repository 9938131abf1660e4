"""`hwmark simulate`: what it writes and prints, and its errors."""

import hashlib
import json
import re
from collections import Counter
from pathlib import Path

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from generators.simulator.cluster.settings import SECOND
from generators.simulator.faults.script import read
from generators.simulator.scenarios import SCENARIOS
from pipelines.cli import app
from pipelines.commands.demo.command import SIMULATED
from pipelines.commands.simulate.plan import plan
from pipelines.commands.simulate.run import run
from pipelines.commands.simulate.sinks import Nowhere
from pipelines.lake.bronze import read_events
from pipelines.settings import Simulate
from schemas import TRUTH
from tests.simulated.kafka_logs import LogFiles

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).parents[3]
SHORT = ("--duration", "5s", "--partitions", "2", "--load", "steady:20")
MANY = ("--duration", "5s", "--partitions", "501", "--load", "steady:200")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def simulate(*words):
    return CliRunner().invoke(app, ["simulate", *words])


def said(*words):
    done = simulate(*words)
    assert done.exit_code == 0, done.output
    return done.stdout


def digest(folder):
    """The bytes of every Parquet file, in the order of their commits."""
    commits = sorted(Path(folder, "_delta_log").glob("*.json"))
    actions = [json.loads(line) for commit in commits for line in commit.read_text().splitlines()]
    files = [action["add"]["path"] for action in actions if "add" in action]
    return hashlib.sha256(b"".join(Path(folder, file).read_bytes() for file in files)).hexdigest()


def test_a_cluster_is_in_the_lake_under_its_name_and_its_truth_beside_it():
    text = said(*SHORT, "--lake", "lake", "--cluster", "mine", "--truth", "truth")
    events = read_events("lake")
    assert set(events["cluster"].to_pylist()) == {"mine"}
    assert {"append", "fetch", "hw", "leader", "progress"} <= set(events["event_type"].to_pylist())
    truth = {name: DeltaTable(f"truth/{name}").to_pyarrow_table() for name in TRUTH}
    assert text.startswith("mine: 3 brokers, 2 partitions, 5 s of Kafka 4.1 from seed 1\n")
    assert f"{len(events):,} events of 4 sources" in text
    assert f"{pc.sum(pc.equal(truth['truth_hw']['kind'], 'advance')).as_py():,} HW changes" in text
    assert "no faults" in text
    assert "nothing that was committed is lost" in text
    again = simulate(*SHORT, "--lake", "lake", "--cluster", "other", "--truth", "truth").output
    assert "--truth truth has something in it already: name a new folder" in again
    assert set(read_events("lake")["cluster"].to_pylist()) == {"mine"}


def test_the_same_seed_and_settings_give_the_same_bytes():
    for lake, seed in (("one", "3"), ("two", "3"), ("other", "4")):
        said(*SHORT, "--seed", seed, "--lake", lake, "--rate", "kill=6", "--truth", f"{lake}-truth")
    assert digest("one/bronze/replication_events") == digest("two/bronze/replication_events")
    assert digest("one/bronze/replication_events") != digest("other/bronze/replication_events")
    assert [digest(f"one-truth/{name}") for name in TRUTH] == [digest(f"two-truth/{name}") for name in TRUTH]


def test_a_cluster_of_that_name_is_not_written_twice():
    said(*SHORT, "--lake", "lake")
    before = len(read_events("lake"))
    again = simulate(*SHORT, "--lake", "lake", "--seed", "2")
    assert again.exit_code == 2
    assert "lake lake has events of a simulated cluster simulated: name another --cluster" in again.stderr
    said(*SHORT, "--lake", "lake", "--cluster", "second")
    assert len(read_events("lake")) > before


def test_what_was_lost_is_reported_with_its_range():
    text = said(
        "--lake", "lake", "--topics", "clicks:1x2:unclean", "--brokers", "2", "--duration", "60s",
        "--load", "steady:50", "--fault", "5s kill 2 for 35s", "--fault", "25s kill 1", "--fault", "26s freeze 1",
    )  # fmt: skip
    assert "2 faults: 5s kill 2 for 35s; 25s kill 1" in text
    assert "nothing to do for 26s freeze 1 (broker 1 is down then)" in text
    assert "clicks-0: offsets " in text
    assert "are gone, unclean loss as epoch" in text
    assert "acknowledged records are gone" in text


def test_faults_come_from_a_file_too_and_by_chance():
    Path("faults.toml").write_text(
        '[[fault]]\nat = "1s"\ndo = "freeze"\nbroker = 3\nfor = "1s"\n[rates]\nthrottle = 30'
    )
    text = said(*SHORT, "--lake", "lake", "--faults", "faults.toml")
    assert "1s freeze 3 for 1s" in text
    assert "throttle" in text


def test_settings_come_from_a_toml_file_and_flags_go_over_them():
    Path("my.toml").write_text('[simulate]\ncluster = "filed"\nduration = "3s"\nload = ["steady:5"]\npartitions = 4')
    text = said("--config", "my.toml", "--lake", "lake", "--partitions", "1")
    assert text.startswith("filed: 3 brokers, 1 partition, 3 s")


def test_the_level_is_that_of_its_sources():
    said(*SHORT, "--lake", "lake", "--level", "2")
    events = read_events("lake")
    assert set(events["level"].to_pylist()) == {0, 2}
    assert "fetch" not in events["event_type"].to_pylist()


def test_fetches_that_change_nothing_can_have_few_rows_and_the_truth_stays_the_same():
    words = ("--duration", "20s", "--partitions", "9", "--load", "steady:5", "--fault", "9s kill 1 for 5s")
    for lake, every in (("all", "0"), ("few", "5000")):
        said(*words, "--lake", lake, "--fetch-every-ms", every, "--truth", f"{lake}-truth")
    kinds = [Counter(read_events(lake)["event_type"].to_pylist()) for lake in ("all", "few")]
    assert kinds[1]["fetch"] < 0.6 * kinds[0]["fetch"]
    assert {**kinds[0], "fetch": 0} == {**kinds[1], "fetch": 0}
    assert [digest(f"all-truth/{name}") for name in TRUTH] == [digest(f"few-truth/{name}") for name in TRUTH]


def test_older_rules_are_named_for_the_reconstruction():
    assert (
        "reconstruct it with HWMARK_RULES__STRICT_MIN_ISR=false HWMARK_RULES__LAG_MAX_MESSAGES=4000 hwmark run"
        in said(*SHORT, "--lake", "lake", "--version", "0.8")
    )
    assert "reconstruct" not in said(*SHORT, "--lake", "lake", "--cluster", "today")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--seed", "-1"], "--seed is -1"),
        (["--brokers", "0"], "--brokers is 0"),
        (["--partitions", "0"], "--partitions is 0"),
        (["--duration", "soon"], "--duration is 'soon'"),
        (["--duration", "0s"], "--duration is"),
        (["--level", "1"], "--level is 1: Input should be 3, 2 or 0"),
        (["--cluster", ""], "--cluster is ''"),
        (["--version", "4.2"], "version 4.2 has no rules here: the nearest allowed is 4.1"),
        (["--topics", "orders:6x4"], "topic orders wants 4 replicas of 3 brokers; the nearest allowed is 3"),
        (["--topics", "a:1,a:2"], "has a twice"),
        (["--topics", "a:0"], "partitions of the topic a:0 is 0; the nearest allowed is 1"),
        (["--topics", "a:2", "--partitions", "3"], "leave out --partitions"),
        (["--load", "stedy:1"], "there is no load 'stedy'; did you mean steady?"),
        (["--load", "order=steady:1"], "load on order: there is no such topic; did you mean orders?"),
        (["--fault", "12s freze 3"], "there is no fault 'freze'; did you mean freeze?"),
        (["--fault", "12s freeze 4"], "there is no broker 4; the nearest is 3"),
        (["--faults", "none.toml"], "cannot read the faults none.toml"),
        (["--rate", "kill"], "--rate kill is not KIND=NUMBER"),
        (["--rate", "kil=1"], "'kil' does not come by chance; did you mean kill?"),
        (["--rate", "kill=-1"], "the rate kill=-1.0 is no number of times a minute; the nearest allowed is 0"),
        (["--scenario", "two-round"], "there is no scenario two-round; did you mean two-rounds?"),
        (["--scenario", "two-rounds", "--brokers", "5"], "is a script of its own: leave out --brokers"),
        (["--explain"], "needs --scenario"),
        (["--fetch-every-ms", "20000"], "is more than a third of lag_max_ms; the nearest allowed is 10000"),
        (["--fetch-every-ms", "900", "--level", "2"], "fetch_every_ms 900 is for level 3"),
        (["--load", "steady:1,records=0"], "records=0 cannot be; the nearest allowed is 1"),
    ],
)
@pytest.mark.sampled(3)
def test_what_cannot_be_is_refused_in_one_line_that_names_it(words, says):
    done = simulate("--lake", "lake", *words)
    assert done.exit_code == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert not Path("lake/bronze").exists()


def test_a_scenario_prints_its_result_and_explained_its_steps():
    short = said("--scenario", "two-rounds")
    assert "Result: after the first fetch the record is on both and the HW is still 0" in short
    assert "1. The leader takes one record" not in short
    text = said("--scenario", "two-rounds", "--explain")
    assert "1. The leader takes one record" in text
    assert "broker 2 follows  LEO   1  HW   1" in text
    assert not Path("lake").exists()


def test_a_scenario_goes_to_a_lake_that_is_named_each_act_as_a_cluster():
    said("--scenario", "unclean-election", "--lake", "lake", "--truth", "truth")
    assert set(read_events("lake")["cluster"].to_pylist()) == {"unclean-election", "unclean-election-2"}
    losses = DeltaTable("truth/truth_regressions").to_pyarrow_table().to_pylist()
    assert [(r["cluster"], r["lost_from"], r["lost_to"]) for r in losses if r["class"] == "unclean_loss"] == [
        ("unclean-election-2", 120, 300)
    ]


def test_many_partitions_are_made_of_tiles():
    text = said(*MANY, "--lake", "lake", "--fault", "2s kill 1 for 1s", "--truth", "truth")
    assert text.startswith("simulated: 3 brokers, 501 partitions, 5 s")
    assert "2 tiles of 251 partitions; the truth is per tile, and this is that of the first:" in text
    assert "1 fault: 2s kill 1 for 1s" in text
    events = read_events("lake")
    assert f"{len(events):,} events of 4 sources, in " in text
    assert set(events["partition"].to_pylist()) == set(range(-1, 501))
    true = DeltaTable("truth/truth_hw").to_pyarrow_table()["partition"].to_pylist()
    assert set(true) == set(range(0, 501, 2))
    assert simulate(*MANY, "--lake", "lake").exit_code == 2


def test_every_partition_can_be_simulated():
    text = said(*MANY, "--duration", "1s", "--lake", "lake", "--no-tiles", "--level", "0")
    assert "tiles" not in text
    assert "501 terms" in text


@pytest.mark.parametrize("key", ["thread_stalls", "thread_overtakes"])
def test_what_tiles_do_not_have_is_reported(key, monkeypatch):
    monkeypatch.setenv(f"HWMARK_SIMULATE__{key.upper()}", "0.1")
    refused = " ".join(simulate(*MANY, "--lake", "lake").stderr.split())
    assert (
        f"501 partitions are made of tiles, which have no [simulate] {key}: leave it out, or add --no-tiles" in refused
    )


REAL = {
    "CONTROLLERS": "3", "COMBINED": "true", "SECOND_FILE": "true", "THREAD_STALLS": "0.02", "THREAD_OVERTAKES": "0.1",
    "COMMITS": "loaded", "LOG_DIRS": "2", "ELR": "off", "CLOCK_OFFSETS": '{"2": "1h"}',
}  # fmt: skip


def test_a_cluster_that_does_what_real_ones_did_can_be_had_by_settings(monkeypatch):
    for key, value in REAL.items():
        monkeypatch.setenv(f"HWMARK_SIMULATE__{key}", value)
    faults = ("3s freeze-controller for 9s", "5s lose-log-dir 3 for 5s", "6s kill-between-lines 2 for 5s")
    text = said("--lake", "lake", "--duration", "20s", *(word for fault in faults for word in ("--fault", fault)))
    events = read_events("lake")
    sources = set(events["source_id"].to_pylist())
    assert {"broker-1/controller.log", "broker-2/state-change.log", "broker-3/server.log"} <= sources
    assert set(events["committed"].to_pylist()) == {True, False, None}
    assert "log_dir_offline" in events["detail"].to_pylist()
    assert "3 faults" in text


def test_everything_there_is_can_be_listed():
    text = said("--list")
    assert [name for name in SCENARIOS if f"  {name} " not in text] == []
    assert "AT freeze BROKER [for LENGTH]" in text
    assert [s.system for s in SCENARIOS.values()] == sorted(s.system for s in SCENARIOS.values())
    assert {s.system for s in SCENARIOS.values()} == set(range(1, 21))


def test_the_example_of_a_fault_file_can_be_used():
    file = REPOSITORY / "conf/faults.toml"
    written = read(file)
    planned = plan(Simulate(faults=str(file), duration=150))
    assert all(fault in planned.faults for fault in written)
    assert len(planned.faults) > len(written)


def test_clocks_are_wrong_by_no_more_than_their_skew_and_by_chance():
    planned = plan(Simulate(clock_skew_ms=5000))
    skews = [clock.skew_us for clock in planned.settings.clocks.values()]
    assert len(set(skews)) == 3
    assert max(map(abs, skews)) <= 5 * SECOND
    assert plan(Simulate()).settings.clocks == {}


def test_the_documentation_shows_what_a_scenario_really_prints():
    text = (REPOSITORY / "docs/simulator.md").read_text()
    assert f"$ hwmark simulate --scenario two-rounds --explain\n{said('--scenario', 'two-rounds', '--explain')}" in text


def test_the_simulated_cluster_of_the_demo_loses_committed_records_though_nothing_is_wrongly_set():
    outcome = run(plan(SIMULATED), Nowhere(), lambda _: None)
    losses = outcome.truth["truth_regressions"].to_pylist()
    assert {row["class"] for row in losses if row["lost_from"] is not None} == {"committed_loss"}
    assert {row["partition"] for row in losses if row["lost_from"] is not None} == {0, 1, 2}
    assert [done.skipped for done in outcome.faults] == [None] * 3


def racks(lake):
    rows = read_events(lake).to_pylist()
    return {
        (row["broker_id"], row["replica_id"], row["detail"]) for row in rows if (row["detail"] or "")[:5] == "rack="
    }


@pytest.mark.parametrize("more", [[], ["--partitions", "501"], ["--level", "0"]], ids=["few", "tiles", "level 0"])
def test_brokers_stand_in_racks_by_turns(more):
    said("--brokers", "3", "--racks", "2", "--lake", "lake", *SHORT, *more)
    assert racks("lake") == {(1, 1, "rack=rack-1"), (2, 2, "rack=rack-2"), (3, 3, "rack=rack-1")}


def test_log_files_have_racks_where_kafka_has_them():
    """In server.properties, and in the registration that a controller prints."""
    run(plan(Simulate(racks=3, duration=5, partitions=2, load=["steady:20"])), LogFiles(Path("logs")), lambda _: None)
    assert "broker.rack=rack-2\n" in Path("logs/broker-2/server.properties").read_text()
    (logged,) = {
        m for file in Path("logs").rglob("*.log") for m in re.findall(r"brokerId=2,.* rack='([^']*)'", file.read_text())
    }
    assert logged == "rack-2"


def test_without_racks_no_rack_is_known():
    said("--lake", "lake", *SHORT)
    assert racks("lake") == set()
