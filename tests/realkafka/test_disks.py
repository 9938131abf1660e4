"""Disks of a real Kafka: a loss is told before the old leader is started, rescued, and written to another topic."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import pytest
from kafka import KafkaConsumer
from typer.testing import CliRunner

from generators.cluster.asking.security import Security
from generators.disks.ingest import ingest_disk
from generators.disks.quorum import Quorum
from generators.disks.rescue_files import read
from generators.disks.write_back import write_back
from pipelines.cli import app
from pipelines.lake.bronze import read_events
from pipelines.local_kafka.processes import wait_until
from pipelines.local_kafka.versions import Version
from pipelines.replication import Rules, replay
from tests.disks.recorder import ALONE, STALE, THIRD, WITHIN_S, Recording

pytestmark = pytest.mark.realkafka

LOST = ("orders", "critical", 120, 300)


def losses(lake: str) -> set[tuple[str, str, int, int]]:
    """The losses by the disks alone, as far as they are in the lake."""
    rows = replay(read_events(lake), Rules()).hw_regressions.to_pylist()
    newest = {row["regression_id"]: row for row in rows}.values()
    return {(row["topic"], row["severity"], row["lost_from"], row["lost_to"]) for row in newest
            if row["severity"] == "critical"}  # fmt: skip


class Disks:
    """`ingest disk --follow` beside the brokers of a recording, until `end`."""

    def __init__(self, recording: Recording, lake: str) -> None:
        self._stop = threading.Event()
        self.error: Exception | None = None
        folders = [broker.data for broker in recording.cluster.brokers.values()]
        self._thread = threading.Thread(target=self._follow, args=(folders, lake))
        self._thread.start()

    def _follow(self, folders: list[Path], lake: str) -> None:
        try:
            ingest_disk(folders, cluster="c", lake=lake, follow=True, stop=self._stop)
        except Exception as error:
            self.error = error

    def end(self) -> None:
        self._stop.set()
        self._thread.join(120)


def rescue(*words: object) -> str:
    done = CliRunner().invoke(app, ["rescue", *map(str, words)])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_loss_is_told_and_rescued_before_the_old_leader_is_started(kafka: Version, tmp_path: Path) -> None:
    recording, lake = Recording(kafka.name, tmp_path / "run"), str(tmp_path / "lake")
    cluster, disks = recording.cluster, None
    try:
        cluster.start()
        cluster.wait_until_up()
        unclean = {"unclean_leader_election_enable": "true", "min_insync_replicas": "1"}
        cluster.create_topic("orders", [[ALONE, STALE]], **unclean)
        cluster.create_topic("rescued", [[STALE, THIRD]])
        time.sleep(8)
        _ask_the_quorum(recording, tmp_path)
        disks = Disks(recording, lake)
        recording._write("orders", range(120), "all")
        time.sleep(8)
        cluster.kill(STALE)
        wait_until(lambda: cluster.leaders_and_isrs("orders") == [(ALONE, [ALONE])], WITHIN_S, "the leader alone")
        recording._write("orders", range(120, 300), "all")
        time.sleep(8)
        assert losses(lake) == set()
        cluster.kill(ALONE)
        cluster.start(STALE)
        wait_until(lambda: LOST in losses(lake), WITHIN_S, "the loss told, while the old leader is down")
        recording._write("orders", range(300, 330), "all")
        time.sleep(7)
        for node in (ALONE, STALE):
            shutil.copytree(cluster.brokers[node].data, tmp_path / f"copy-{node}", copy_function=shutil.copy2)
        _bring_back(recording, tmp_path)
        cluster.start(ALONE)
        cluster.wait_until_up()
        time.sleep(20)
        assert losses(lake) == {LOST}, "once it has cut its log, too"
        cuts = [row for row in read_events(lake).to_pylist() if row["event_type"] == "truncate"]
        assert [(row["replica_id"], row["leo"]) for row in cuts] == [(ALONE, 120)]
    finally:
        if disks is not None:
            disks.end()
        cluster.stop_all()
    assert disks.error is None


def _ask_the_quorum(recording: Recording, folder: Path) -> None:
    """One copy of the metadata log and brokers that answer show what is committed."""
    data, quorum = recording.cluster.brokers[THIRD].data, Quorum(recording.cluster.bootstrap, Security())
    try:
        alone = ingest_disk([data], cluster="c", lake=str(folder / "alone"))
        told = ingest_disk([data], cluster="c", lake=str(folder / "told"), quorum=quorum.ask)
    finally:
        quorum.close()
    assert told.remarks() == alone.remarks() == []
    assert (alone.committed_end, told.end - told.committed_end <= 2) == (0, True)


def _bring_back(recording: Recording, folder: Path) -> None:
    """Rescue what only the old leader has, write it to another topic with a cut between, and read it there."""
    out, bootstrap = folder / "orders.parquet", f"127.0.0.1:{recording.cluster.brokers[STALE].port}"
    copies = folder / f"copy-{ALONE}", folder / f"copy-{STALE}"
    told = rescue("--from", copies[0], "--beside", copies[1], "--topic", "orders", "--out", out)
    assert "180 below the high watermark known, in no surviving log" in told
    some = list(read(out))[:100]
    assert write_back(lambda: some, "rescued", bootstrap, Security(), dry_run=False) == {"written": 100}
    again = ("produce", out, "--bootstrap", bootstrap, "--topic", "rescued", "--write")
    assert "80 written" in rescue(*again)
    assert "180 left out: written by an earlier call" in rescue(*again)
    consumer = KafkaConsumer(
        "rescued", bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=5000
    )
    found = [message.value.decode() for message in consumer]
    consumer.close()
    assert found == [value for _, value in recording.written["orders-0"][120:300]]
