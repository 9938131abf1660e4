"""What a watcher may see of a real Kafka with SASL SCRAM and ACLs, and what it says of the rest."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from generators.cluster.asking.decoded import TopicFilter
from generators.cluster.asking.problems import NotAnswering
from generators.cluster.asking.security import OAUTH, Security
from generators.cluster.watch import watch
from generators.cluster.watcher import WatchOptions
from pipelines.lake.bronze import read_events
from pipelines.local_kafka.versions import Version
from pipelines.replication.kafka_versions import reported_rules
from tests.realkafka.beside import ROOT
from tests.realkafka.secured import MECHANISM, SecuredBroker, password

pytestmark = [pytest.mark.realkafka, pytest.mark.nightly]

LAG_MS, MIN_ISR = 7_000, 1
ROUNDS = 3
DESCRIBE, SETTINGS = AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS
CLUSTER = "kafka-cluster"
RIGHTS = {
    "everything": [
        (ResourceType.TOPIC, "*", DESCRIBE),
        (ResourceType.TOPIC, "*", SETTINGS),
        (ResourceType.BROKER, CLUSTER, SETTINGS),
        (ResourceType.BROKER, CLUSTER, DESCRIBE),
    ],
    "offsets": [(ResourceType.TOPIC, "*", DESCRIBE)],
    "orders": [(ResourceType.TOPIC, "orders", DESCRIBE), (ResourceType.TOPIC, "orders", SETTINGS)],
    "nothing": [],
}
"""By user. Exactly what docs/watch.md asks for is what `everything` has."""


@dataclass
class Watched:
    """What a watcher wrote of some rounds, and said."""

    rows: list[dict[str, Any]]
    notes: list[str]

    def seen(self, column: str, **wanted: object) -> set[Any]:
        """Values of a column in the rows where other columns have these values."""
        return {row[column] for row in self.rows if all(row[name] == value for name, value in wanted.items())}


@pytest.fixture(scope="module")
def broker(kafka: Version, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    settings = {"replica.lag.time.max.ms": LAG_MS, "min.insync.replicas": MIN_ISR}
    one = SecuredBroker(tmp_path_factory.mktemp("secured"), kafka, list(RIGHTS), settings)
    try:
        one.create_topics("orders", "payments")
        for user, rights in RIGHTS.items():
            if rights:
                one.allow(user, *rights)
        yield one
    finally:
        one.stop()


def unsigned_token() -> str:
    """Of the user `everything`, as a broker takes it that checks no signature."""
    claims = {"sub": "everything", "iat": time.time() - 10, "exp": time.time() + 600}
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."


def watched(broker: SecuredBroker, lake: Path, user: str, *topics: str) -> Watched:
    """Some rounds as this user, by SCRAM."""
    security = Security("SASL_PLAINTEXT", MECHANISM, user, password(user))
    return rounds_by(broker.port, security, lake, *topics)


def rounds_by(port: int, security: Security, lake: Path, *topics: str) -> Watched:
    """Some rounds at this listener."""
    stop, notes, rounds = threading.Event(), list[str](), list[str]()

    def count(line: str) -> None:
        rounds.append(line)
        if len(rounds) == ROUNDS:
            stop.set()

    options = WatchOptions(
        (("127.0.0.1", port),), cluster="secured", interval_s=0.5, topics=TopicFilter(topics), security=security
    )  # fmt: skip
    watch(options, str(lake), note=notes.append, status=count, stop=stop)
    return Watched(read_events(str(lake)).to_pylist(), notes)


def test_with_describe_and_describe_configs_everything_is_watched(
    broker: SecuredBroker, kafka: Version, tmp_path: Path
) -> None:
    found = watched(broker, tmp_path / "lake", "everything")
    assert found.seen("topic", event_type="sample") == {"orders", "payments"}
    assert found.seen("lag_max_ms", event_type="config", topic=None) >= {LAG_MS}
    releases = found.seen("detail", event_type="config", topic=None) - {None}
    assert {reported_rules(one) for one in releases} == {reported_rules(f"kafka={kafka.kafka}")}, releases
    assert found.seen("min_isr", event_type="config", topic="orders") == {MIN_ISR}
    assert not [note for note in found.notes if "may not be" in note or "refused" in note]
    assert found.seen("detail", event_type="broker_state") == {"answers", "quorum: 1 voters, 1 caught up"}
    assert found.seen("event_type") >= {"sample", "isr", "progress"}


def test_without_describe_configs_the_rules_hold_and_it_is_said(broker: SecuredBroker, tmp_path: Path) -> None:
    found = watched(broker, tmp_path / "lake", "offsets")
    assert found.seen("topic", event_type="sample") == {"orders", "payments"}
    assert found.seen("lag_max_ms") == found.seen("min_isr") == {None}
    assert [note for note in found.notes if "may not be read" in note] == [
        "replica.lag.time.max.ms may not be read: allow DESCRIBE_CONFIGS on the cluster; "
        "[rules] lag_max_ms holds instead",
        "min.insync.replicas of 2 topics may not be read: allow DESCRIBE_CONFIGS on them; "
        "[rules] min_isr holds instead",
    ]


def test_a_topic_that_may_not_be_described_is_named_and_the_others_are_watched(
    broker: SecuredBroker, tmp_path: Path
) -> None:
    found = watched(broker, tmp_path / "lake", "orders", "orders", "payments")
    assert found.seen("topic", event_type="sample") == {"orders"}
    assert "topic payments may not be described: allow DESCRIBE on it; the others are watched" in found.notes
    assert found.seen("min_isr", event_type="config", topic="orders") == {MIN_ISR}


def test_a_user_without_any_right_is_shown_that_nothing_is_watched(broker: SecuredBroker, tmp_path: Path) -> None:
    found = watched(broker, tmp_path / "lake", "nothing")
    assert found.seen("event_type") & {"sample", "isr"} == set()
    assert "no topic is watched: none fits, or none may be described (allow DESCRIBE on the topics)" in found.notes


def test_a_wrong_password_is_one_clear_line(broker: SecuredBroker, tmp_path: Path) -> None:
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        "HWMARK_WATCH__SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "HWMARK_WATCH__SASL_MECHANISM": MECHANISM,
        "HWMARK_WATCH__SASL_USERNAME": "everything",
        "HWMARK_WATCH__SASL_PASSWORD": "guessed",
        "HWMARK_WATCH__TIMEOUT": "5s",
    }
    command = [sys.executable, "-m", "hwmark", "watch", "--bootstrap", broker.bootstrap, "--lake", "lake"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    # On a loaded machine the broker has closed the connection before its answer is read.
    refused = "it refuses user 'everything': check sasl_username, the password and sasl_mechanism"
    assert refused in line or "it closes the connection: does it refuse user 'everything', " in line
    assert "guessed" not in line


def test_mutual_tls_lets_in_whom_the_certificate_names(broker: SecuredBroker, tmp_path: Path) -> None:
    security = Security("SSL", ca_file=broker.certificate, certificate_file=broker.certificate, key_file=broker.key)
    found = rounds_by(broker.mutual_port, security, tmp_path / "lake")
    assert found.seen("topic", event_type="sample") == {"orders", "payments"}


def test_without_a_certificate_of_the_client_mutual_tls_is_one_clear_line(
    broker: SecuredBroker, tmp_path: Path
) -> None:
    with pytest.raises(NotAnswering, match="a certificate of the client"):
        rounds_by(broker.mutual_port, Security("SSL", ca_file=broker.certificate), tmp_path / "lake")


def test_oauthbearer_over_tls_lets_in_whom_the_token_names(broker: SecuredBroker, tmp_path: Path) -> None:
    token = f"{unsigned_token.__module__}:{unsigned_token.__name__}"
    found = rounds_by(
        broker.oauth_port, Security("SASL_SSL", OAUTH, ca_file=broker.certificate, token=token), tmp_path / "lake"
    )
    assert found.seen("topic", event_type="sample") == {"orders", "payments"}
