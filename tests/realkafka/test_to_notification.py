"""A leader is killed, its partition falls under min ISR, somebody gets a message: every stage on the way, in order."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pipelines.local_kafka.cluster import Cluster
from pipelines.local_kafka.processes import Journal, wait_until
from pipelines.local_kafka.versions import Version
from schemas import alerts, partition_hw, replication_events
from tests.realkafka.beside import Beside
from tests.realkafka.load import Producers, Topic
from tests.realkafka.stages import Row, Stage, committed, in_order, report
from tests.realkafka.story import CALM_S, SETTINGS, WARM_WITHIN_S
from tests.unit.notify.receivers import receiver

pytestmark = pytest.mark.realkafka

ORDERS = Topic("orders", 1, 20)
LEADER, FOLLOWER = 1, 2
SESSION_MS = 9_000
"""Kafka's own default."""
CONFIG = """\
[run]
interval = "2s"
[alerts]
rules_file = "{rules}"
[notify.channels]
local = {{ url = "env:RECEIVER" }}
"""
RULES = "[under_min_isr]\nfor_s = 1\n"
SENT_WITHIN_S = 180


def _new_term(row: Row) -> bool:
    return (row["event_type"], row["broker_id"], row["topic"]) == ("leader", FOLLOWER, ORDERS.name)


def _under_min_isr(row: Row) -> bool:
    return (row["leader_id"], row["topic"], row["frozen"]) == (FOLLOWER, ORDERS.name, True)


def _fires(row: Row) -> bool:
    return (row["rule"], row["state"]) == ("under_min_isr", "firing")


@pytest.fixture(scope="module")
def stages(kafka: Version, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Stage]]:
    folder = tmp_path_factory.mktemp("notified")
    cluster = Cluster(folder, kafka, Journal(folder), {**SETTINGS, "broker.session.timeout.ms": SESSION_MS})
    beside, producers = Beside(folder, cluster.log_directories), Producers(cluster.bootstrap, [ORDERS])
    got: list[tuple[int, dict[str, Any]]] = []

    def answer(request: Any) -> int:
        got.append((round(time.time() * 1000), request.json))
        return 200

    with ExitStack() as ended:
        there = ended.enter_context(receiver())
        there.answer = answer
        ended.enter_context(pytest.MonkeyPatch.context()).setenv("RECEIVER", f"json://127.0.0.1:{there.port}/")
        ended.callback(cluster.stop_all)
        ended.callback(beside.stop)
        killed_ms = _play(cluster, beside, producers, folder, ended)
        wait_until(lambda: [m for _, m in got if "under_min_isr" in m["title"]], SENT_WITHIN_S, "the message")
        yield list(_stages(killed_ms, beside.lake, got))


def _play(cluster: Cluster, beside: Beside, producers: Producers, folder: Path, ended: ExitStack) -> int:
    """All that runs beside the cluster, and the fault; returns when that was (epoch ms)."""
    rules, config = folder / "rules.toml", folder / "notify.toml"
    rules.write_text(RULES)
    config.write_text(CONFIG.format(rules=rules))
    cluster.start()
    cluster.wait_until_up()
    beside.ingest()
    beside.run("2s", evaluate=False)
    cluster.create_topic(ORDERS.name, [[LEADER, FOLLOWER]], min_insync_replicas="2")
    producers.start()
    ended.callback(producers.stop)
    wait_until(lambda: beside.rows(partition_hw.TABLE.path), 2 * WARM_WITHIN_S, "a first reconstructed HW", every_s=1)
    beside.notify(config)
    time.sleep(CALM_S)
    return cluster.kill(LEADER)


def _stages(killed_ms: int, lake: Path, got: list[tuple[int, dict[str, Any]]]) -> Iterator[Stage]:
    event = committed(lake / replication_events.TABLE.path, _new_term)
    fact = committed(lake / partition_hw.TABLE.path, _under_min_isr)
    alert = committed(lake / alerts.TABLE.path, _fires)
    yield Stage("the leader is killed", killed_ms)
    yield Stage("line of the new leader in its log", event and round(event[1]["ts"].timestamp() * 1000))
    yield Stage("event in bronze (ingest --follow)", event and event[0])
    yield Stage("fact in silver (run --interval 2s)", fact and fact[0])
    yield Stage("alert in ops (notify --every 1s, for_s = 1)", alert and alert[0])
    yield Stage("message received", next((at for at, m in got if "under_min_isr" in m["title"]), None))


def test_every_stage_from_the_fault_to_the_message_comes_and_in_order(stages: list[Stage], reports: list[str]) -> None:
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    reports += [*report(stages), f"(load of the machine: {load} on {os.cpu_count()} cores)"]
    assert in_order(stages)
