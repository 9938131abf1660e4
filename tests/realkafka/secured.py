"""One node of a real Kafka that asks for names and rights: SCRAM, mutual TLS, OAUTHBEARER, KRaft's own authorizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from pipelines.local_kafka import stock_logging
from pipelines.local_kafka.cluster import CLUSTER_ID, JVM, UP_WITHIN_S, free_ports
from pipelines.local_kafka.jars import jars
from pipelines.local_kafka.processes import end, start, wait_until
from pipelines.local_kafka.versions import Version
from tests.cluster.certificates import self_signed

MECHANISM = "SCRAM-SHA-256"
ADMIN = "admin"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
Right = tuple[ResourceType, str, AclOperation]
"""What a user may do to a resource."""


def password(user: str) -> str:
    """The password of a user."""
    return f"{user}-secret"


class SecuredBroker:
    """A broker and controller in one process, its users, and what they may do."""

    def __init__(self, folder: Path, kafka: Version, users: Sequence[str], settings: Mapping[str, object]) -> None:
        """`users`: all but the administrator, who may do everything. Raises NoJars."""
        self.kafka, self.folder = kafka, folder
        self.port, self._controller_port, self.mutual_port, self.oauth_port = free_ports(4)
        self.certificate, self.key = self_signed(folder)  # type: ignore[no-untyped-call]
        self._pem = folder / "both.pem"
        self._pem.write_text(Path(self.key).read_text() + Path(self.certificate).read_text())
        self._logs = folder / "logs"
        self._logs.mkdir(parents=True)
        self._properties = folder / "server.properties"
        lines = {**self._settings(), **settings}
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        self._classes = ["-cp", f"{jars(kafka.broker)}/*"]
        scram = [f"{MECHANISM}=[name={user},password={password(user)}]" for user in (ADMIN, *users)]
        added = [word for user in scram for word in ("--add-scram", user)]
        tool = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._properties), *added]
        formatted = start([*JVM, *self._classes, *tool], self._logs / "format.out")
        if formatted.wait(UP_WITHIN_S):
            raise RuntimeError((self._logs / "format.out").read_text()[-2000:])
        flags = [f"-Dkafka.logs.dir={self._logs}", *stock_logging.configure(kafka, folder, "yaml")]
        command = [*JVM, "-Xmx400m", *flags, *self._classes, "kafka.Kafka", str(self._properties)]
        self._process = start(command, self._logs / "kafkaServer.out")
        self._admin = AdminClient(self.client(ADMIN))
        wait_until(self._is_up, UP_WITHIN_S, "the broker up")

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def client(self, user: str) -> dict[str, str | int]:
        """How librdkafka connects as a user."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": password(user),
            "log_level": 0,
        }

    def create_topics(self, *names: str) -> None:
        """Topics of one partition."""
        for done in self._admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
            done.result(30)

    def allow(self, user: str, *rights: Right) -> None:
        """Gives rights to a user; a topic `*` means all of them."""
        bindings = [
            AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
            for kind, name, operation in rights
        ]
        for done in self._admin.create_acls(bindings).values():
            done.result(30)

    def stop(self) -> None:
        """End it; nothing that it has is needed any more."""
        end(self._process, 10)

    def _is_up(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"the broker ended: see {self._logs}/kafkaServer.out")
        try:
            return bool(self._admin.list_topics(timeout=2).brokers)
        except Exception:
            return False

    def _settings(self) -> dict[str, object]:
        ports = {"SASL_PLAINTEXT": self.port, "MUTUAL": self.mutual_port, "OAUTH": self.oauth_port}
        listener = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
        controller = f"CONTROLLER://127.0.0.1:{self._controller_port}"
        login = f'{MODULE} required username="{ADMIN}" password="{password(ADMIN)}";'
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "listeners": f"{listener},{controller}",
            "advertised.listeners": listener,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "SASL_PLAINTEXT",
            "listener.security.protocol.map": (
                "SASL_PLAINTEXT:SASL_PLAINTEXT,MUTUAL:SSL,OAUTH:SASL_SSL,CONTROLLER:PLAINTEXT"
            ),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.oauth.oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE} required;",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._pem,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.certificate,
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            f"listener.name.sasl_plaintext.{MECHANISM.lower()}.sasl.jaas.config": login,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN};User:ANONYMOUS;User:CN=broker",
            "log.dirs": self.folder / "data",
            "offsets.topic.replication.factor": 1,
        }
