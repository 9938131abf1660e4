"""A watcher beside a real Kafka whose leader is killed, and which then elects a stale follower: its rows say what the
brokers' own logs and clients say, and so do the verdicts from them alone.
"""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from pipelines.lake.bronze import read_events
from pipelines.local_kafka.cluster import Cluster
from pipelines.local_kafka.processes import Journal, end, start, wait_until
from pipelines.local_kafka.versions import Version
from pipelines.replication import Facts, replay
from pipelines.replication.events.row_rules import split
from tests.realkafka.beside import ROOT
from tests.realkafka.load import Log, Place, Producers, Topic, read_back
from tests.realkafka.story import SETTINGS

pytestmark = pytest.mark.realkafka

ORDERS, CLICKS = Topic("orders", 3, 20), Topic("clicks", 1, 20)
INTERVAL_S = 1.0
HWMARK = [sys.executable, "-m", "hwmark"]
STARTS = re.compile(r"Leader orders-0 with topic id .* starts at leader epoch (\d+) from offset (\d+)")

Row = dict[str, Any]


@dataclass
class Watched:
    """What there is after the run."""

    cluster: Cluster
    lake: str
    status: int = -1
    killed_ms: int = 0
    final: dict[Place, Log] = field(default_factory=dict)
    logs: str = ""
    """The lake of the brokers' own logs."""

    def rows(self, **wanted: object) -> list[Row]:
        """Rows of the watcher in the order of each source, where columns have these values."""
        try:
            table = read_events(self.lake)
        except FileNotFoundError:
            return []
        rows: list[Row] = table.sort_by([("source_id", "ascending"), ("source_seq", "ascending")]).to_pylist()
        return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


@pytest.fixture(scope="module")
def watched(kafka: Version, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("watched")
    cluster = Cluster(folder, kafka, Journal(folder), SETTINGS)
    producers = Producers(cluster.bootstrap, [ORDERS, CLICKS])
    one, process = Watched(cluster, str(folder / "lake"), logs=str(folder / "logs")), None
    try:
        cluster.start()
        cluster.wait_until_up()
        cluster.create_topic(ORDERS.name, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        cluster.create_topic(CLICKS.name, [[3, 2]], min_insync_replicas="1", unclean_leader_election_enable="true")
        command = [*HWMARK, "watch", "--bootstrap", cluster.bootstrap, "--cluster", "real"]
        command += ["--interval", f"{INTERVAL_S}s", "--internal-topics", "--lake", one.lake]
        process = start(command, folder / "watch.txt", {"HWMARK_WATCH__TIMEOUT": "2s", "PYTHONPATH": str(ROOT)})
        wait_until(lambda: len(one.rows(event_type="progress")) >= 6, 60, "the first rounds")
        producers.start()
        time.sleep(4)
        one.killed_ms = cluster.kill(1)
        wait_until(
            lambda: [row for row in one.rows(event_type="leader", partition=0) if row["leader_epoch"] > 0],
            60,
            "the new leader's term",
        )
        time.sleep(2)
        cluster.start(1)
        wait_until(lambda: one.rows(event_type="lost", broker_id=1, partition=-1), 90, "broker 1 again")
        time.sleep(2)
        _lose(one)
        producers.stop()
        one.final = read_back(cluster.bootstrap, [ORDERS])
        time.sleep(2.5 * INTERVAL_S)
        one.status = end(process, 20, signal.SIGTERM)
        cluster.stop_all()
        logs = map(str, cluster.log_directories)
        ingest = [*HWMARK, "ingest", "logs", *logs, "--cluster", "real", "--lake", one.logs]
        subprocess.run(ingest, check=True, cwd=ROOT, capture_output=True)
        print((folder / "watch.txt").read_text())
        yield one
    finally:
        producers.stop()
        if process is not None:
            end(process, 5)
        cluster.stop_all()


def _lose(one: Watched) -> None:
    """The follower of clicks dies, its leader goes on alone and dies, and the stale follower is elected."""

    def isr(topic: str, partition: int = 0) -> list[int]:
        """The last one seen: any broker may be the one that is asked for it."""
        rows = one.rows(event_type="isr", topic=topic, partition=partition)
        return sorted(max(rows, key=lambda row: row["ts"])["isr"])

    def led_by(broker: int) -> bool:
        return any(row["broker_id"] == broker for row in one.rows(event_type="leader", topic="clicks"))

    wait_until(lambda: led_by(3), 30, "the leader of clicks")
    one.cluster.kill(2)
    wait_until(lambda: isr("clicks") == [3], 60, "the leader of clicks alone in its ISR")
    time.sleep(4)
    one.cluster.kill(3)
    one.cluster.start(2)
    wait_until(lambda: led_by(2), 90, "the stale broker leads clicks")
    one.cluster.start(3)
    wait_until(lambda: isr("clicks") == [2, 3], 90, "the old leader follows")
    wait_until(lambda: all(isr("orders", p) == [1, 2, 3] for p in range(ORDERS.partitions)), 60, "all in sync")


def test_it_ends_when_asked_to(watched: Watched) -> None:
    assert watched.status == 0


def test_every_row_keeps_the_contract_and_none_is_missing(watched: Watched) -> None:
    _, rejected = split(read_events(watched.lake))
    assert rejected.to_pylist() == []
    for source in ("watch/main/broker-1", "watch/main/broker-2", "watch/main/broker-3"):
        numbers = [row["source_seq"] for row in watched.rows(source_id=source)]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) > 10


def test_the_last_samples_are_the_log_ends_that_clients_read(watched: Watched) -> None:
    for (topic, partition), log in watched.final.items():
        if topic == CLICKS.name:
            continue
        end_offset = max(log) + 1
        for broker in (1, 2, 3):
            last = watched.rows(event_type="sample", topic=topic, partition=partition, broker_id=broker)[-1]
            assert last["leo"] == end_offset
            assert last["hw"] in (None, end_offset)


def test_a_new_term_begins_where_the_new_leader_logs_that_it_begins(watched: Watched) -> None:
    (term,) = [
        row for row in watched.rows(event_type="leader", partition=0, topic="orders") if row["leader_epoch"] == 1
    ]
    log = watched.cluster.brokers[term["broker_id"]].replication_log()
    assert (str(term["leader_epoch"]), str(term["leo"])) in STARTS.findall(log)


def test_the_killed_broker_leaves_the_isr_and_comes_back(watched: Watched) -> None:
    isrs = [row["isr"] for row in watched.rows(event_type="isr", topic="orders", partition=0)]
    assert isrs[0] == [1, 2, 3]
    assert [2, 3] in isrs
    lost, *_ = watched.rows(event_type="lost", broker_id=1, partition=-1)
    assert "without an answer" in lost["detail"]


def test_settings_and_racks_are_what_the_brokers_run_with(watched: Watched) -> None:
    (config,) = [row for row in watched.rows(event_type="config", broker_id=2, topic=None) if row["lag_max_ms"]][:1]
    assert (config["lag_max_ms"], config["min_isr"]) == (SETTINGS["replica.lag.time.max.ms"], 2)


def test_an_hw_never_falls_while_a_leader_leads(watched: Watched) -> None:
    for partition in range(ORDERS.partitions):
        for broker in (1, 2, 3):
            samples = watched.rows(event_type="sample", topic="orders", partition=partition, broker_id=broker)
            by_epoch: dict[int, list[int]] = {}
            for row in samples:
                if row["hw"] is not None:
                    by_epoch.setdefault(row["leader_epoch"], []).append(row["hw"])
            assert all(hws == sorted(hws) for hws in by_epoch.values())


@pytest.fixture(scope="module")
def judged(watched: Watched) -> tuple[Facts, Facts]:
    """What samples alone show, and what logs alone show."""
    return replay(read_events(watched.lake)), replay(read_events(watched.logs))


def _losses(facts: Facts) -> dict[Place, Row]:
    last = {row["regression_id"]: row for row in facts.hw_regressions.to_pylist()}
    return {(row["topic"], row["partition"]): row for row in last.values() if row["lost_from"] is not None}


def test_samples_alone_show_the_loss_that_logs_show_as_far_as_they_reach(judged: tuple[Facts, Facts]) -> None:
    """It begins where the new leader's log ends; up to which HW the old one got samples know only at least."""
    by_samples, by_logs = (_losses(facts) for facts in judged)
    assert list(by_samples) == list(by_logs) == [("clicks", 0)]
    sampled, logged = by_samples["clicks", 0], by_logs["clicks", 0]
    print("lost by samples", {k: sampled[k] for k in ("class", "proof", "lost_from", "lost_to", "evidence")})
    print("lost by logs", {k: logged[k] for k in ("class", "proof", "lost_from", "lost_to", "evidence")})
    assert (sampled["class"], sampled["proof"], sampled["level"]) == ("unclean_loss", "bounded", 1)
    assert sampled["lost_from"] == logged["lost_from"]
    assert sampled["lost_from"] < sampled["lost_to"] <= logged["lost_to"]


def test_samples_alone_leave_open_no_clean_election_but_of_brokers_that_were_away(judged: tuple[Facts, Facts]) -> None:
    rows = [row for row in judged[0].hw_regressions.to_pylist() if row["class"] == "loss_not_excluded"]
    print("not excluded", [(row["topic"], row["partition"], row["leader_epoch"], row["evidence"]) for row in rows])
    assert all("an answer of broker" in row["evidence"] or "ISR" in row["evidence"] for row in rows)


def test_every_sampled_hw_was_reached_by_its_leaders_log(judged: tuple[Facts, Facts]) -> None:
    by_samples, by_logs = judged
    reached: dict[tuple[Any, ...], int] = {}
    for row in by_logs.partition_hw.to_pylist():
        term = row["topic"], row["partition"], row["leader_id"], row["leader_epoch"]
        hws = [hw for hw in (row["hw"], row["reported_hw"]) if hw is not None]
        reached[term] = max([reached.get(term, -1), *hws])
    rows = [row for row in by_samples.partition_hw.to_pylist() if row["kind"] == "advance" and row["topic"] == "orders"]
    assert len(rows) > 20
    for row in rows:
        assert row["hw"] <= reached[row["topic"], row["partition"], row["leader_id"], row["leader_epoch"]], row
    assert "disagree" not in by_samples.partition_hw["agreement"].to_pylist()


def test_isr_changes_of_samples_are_those_of_logs(judged: tuple[Facts, Facts]) -> None:
    """A watcher sees some of them, and none that was not; whom it calls out of sync was removed."""
    seen, logged = (
        {
            (row["topic"], row["partition"], tuple(sorted(row["isr_after"])))
            for row in facts.isr_changes.to_pylist()
            if row["topic"] in ("orders", "clicks")
        }
        for facts in judged
    )
    print("ISRs by samples", sorted(seen), "by logs alone", sorted(logged - seen))
    assert seen <= logged
    assert ("clicks", 0, (3,)) in seen
