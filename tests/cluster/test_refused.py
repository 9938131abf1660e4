"""What does not let a watcher in is one line that says what to look at."""

import socket
import sys
import threading

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.lake.roles import hold
from tests.cluster.certificates import self_signed, server
from tests.cluster.fake_kafka import FakeCluster
from tests.cluster.watching import watching


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """No configuration of the checkout, and a lake of the test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HWMARK_LAKE__PATH", str(tmp_path / "lake"))
    monkeypatch.setenv("HWMARK_WATCH__TIMEOUT", "1s")
    monkeypatch.setenv("HWMARK_WATCH__INTERVAL", "300ms")


def hwmark(*arguments, **environment):
    """Exit status and what stderr says."""
    variables = {f"HWMARK_WATCH__{name.upper()}": value for name, value in environment.items()}
    done = CliRunner().invoke(app, ["watch", *arguments], env=variables)
    return done.exit_code, done.stderr.strip()


def at(cluster):
    return ":".join(map(str, cluster.bootstrap()))


def refused(cluster_or_server, words, **environment):
    name = at(cluster_or_server) if isinstance(cluster_or_server, FakeCluster) else cluster_or_server
    status, said = hwmark("--bootstrap", name, **environment)
    assert (status, len(said.splitlines())) == (1, 1), said
    assert said.startswith(f"hwmark: no cluster can be asked: {name}: {words}"), said


USERS = {"watch": "right"}
SASL = {"security_protocol": "SASL_PLAINTEXT", "sasl_username": "watch"}


def test_a_wrong_password():
    with FakeCluster(1, users=USERS) as cluster:
        refused(cluster, "it refuses user 'watch': check sasl_username, the password", **SASL, sasl_password="wrong")


def test_a_mechanism_that_the_broker_does_not_have():
    with FakeCluster(1, users=USERS) as cluster:
        words = "it does not take sasl_mechanism SCRAM-SHA-256"
        refused(cluster, words, **SASL, sasl_password="right", sasl_mechanism="SCRAM-SHA-256")


def test_sasl_to_a_listener_without_and_none_to_one_with():
    with FakeCluster(1) as cluster:
        refused(cluster, "this listener takes no SASL: security_protocol is SASL_PLAINTEXT", **SASL, sasl_password="x")
    with FakeCluster(1, users=USERS) as cluster:
        refused(cluster, "it closes the connection: is it a Kafka broker, and does this listener want TLS or SASL")


def test_tls_to_a_plain_port_and_the_reverse(tmp_path):
    with FakeCluster(1) as cluster:
        refused(cluster, "the TLS handshake fails: is this a listener with TLS?", security_protocol="SSL")
    with FakeCluster(1, tls=server(*self_signed(tmp_path))) as cluster:
        refused(cluster, "it ", security_protocol="PLAINTEXT")


def test_a_certificate_of_nobody_we_know(tmp_path):
    with FakeCluster(1, tls=server(*self_signed(tmp_path))) as cluster:
        refused(cluster, "its certificate is not accepted: self", security_protocol="SSL")


def test_a_certificate_of_ours_that_is_wanted(tmp_path):
    certificate, key = self_signed(tmp_path)
    with FakeCluster(1, tls=server(certificate, key, client_ca=certificate)) as cluster:
        name = at(cluster)
        status, said = hwmark("--bootstrap", name, security_protocol="SSL", ssl_ca_file=certificate)
    assert status == 1
    assert "a certificate of the client" in said  # as TLS 1.3 has it: an alert, or only an end of the connection
    assert "ssl_certificate_file" in said


def test_mutual_tls_and_sasl_let_in(tmp_path):
    from generators.cluster.asking.security import Security

    certificate, key = self_signed(tmp_path)
    security = Security("SASL_SSL", "PLAIN", "watch", "right", certificate, certificate, key)
    with FakeCluster(2, users=USERS, tls=server(certificate, key, client_ca=certificate)) as cluster:
        cluster.topic("orders", [1, 2])
        with watching(cluster, tmp_path / "lake", security=security) as watcher:
            watcher.rounds(2, 2)
    assert watcher.rows("leo", event_type="sample", broker_id=2) == [0]


OAUTH = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}


def test_a_token_of_a_function_of_ones_own_lets_in(tmp_path, monkeypatch):
    from generators.cluster.asking.security import Security

    (tmp_path / "our_tokens.py").write_text("def token():\n    return 'watch.right', 1_700_000_000_000\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "our_tokens", raising=False)
    security = Security("SASL_PLAINTEXT", "OAUTHBEARER", token="our_tokens:token")
    with FakeCluster(2, users=USERS) as cluster:
        cluster.topic("orders", [1, 2])
        with watching(cluster, tmp_path / "lake", security=security) as watcher:
            watcher.rounds(2, 2)
    assert watcher.rows("leo", event_type="sample", broker_id=2) == [0]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return 'watch.wrong'", "it refuses the token of our_tokens:token"),
        ("raise OSError('the vault is sealed')", "our_tokens:token gives no token: OSError: the vault is sealed"),
    ],
)
def test_a_token_that_is_refused_or_not_made(tmp_path, monkeypatch, body, words):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "our_tokens", raising=False)
    (tmp_path / "our_tokens.py").write_text(f"def token():\n    {body}\n")
    with FakeCluster(1, users=USERS) as cluster:
        refused(cluster, words, **OAUTH, sasl_token="our_tokens:token")


def test_nobody_listens_there():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        refused(
            f"127.0.0.1:{unused.getsockname()[1]}", "it refuses connections: is the broker up, and is this its port?"
        )


def test_a_name_that_cannot_be_resolved():
    refused("no.such.host.invalid:9092", "its name cannot be resolved")


@pytest.mark.parametrize(
    ("says", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "what answers there is no Kafka broker"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "what answers there is no Kafka broker"),
        (b"", "it does not answer in time"),
    ],
)
def test_a_server_that_is_no_kafka(says, words):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        kept = []

        def serve():
            connection, _ = listening.accept()
            kept.append(connection)
            connection.sendall(says)

        threading.Thread(target=serve, daemon=True).start()
        refused(f"127.0.0.1:{listening.getsockname()[1]}", words)


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        ([], {}, "whom to ask? Name brokers with --bootstrap host:port"),
        (["--bootstrap", "kafka:one"], {}, "--bootstrap names 'kafka:one': write host:port, such as kafka-1:9092"),
        (["--bootstrap", "kafka:²"], {}, "--bootstrap names 'kafka:²': write host:port, such as kafka-1:9092"),
        (["--bootstrap", "k:" + "9" * 5000], {}, "write host:port, such as kafka-1:9092"),
        (["--bootstrap", "k:1"], SASL, "security_protocol SASL_PLAINTEXT needs sasl_username and a password"),
        (["--bootstrap", "k:1"], OAUTH, "watch.sasl_token is '': with OAUTHBEARER it names MODULE:FUNCTION"),
        (
            ["--bootstrap", "k:1"],
            {**OAUTH, "sasl_token": "no_such:token"},
            "which returns a token; No module named 'no_such' (is its folder in PYTHONPATH?)",
        ),
        (["--bootstrap", "k:1"], {"sasl_mechanism": "DIGEST"}, "watch.sasl_mechanism is 'DIGEST': it can be PLAIN"),
        (["--bootstrap", "k:1"], {"security_protocol": "TLS"}, "HWMARK_WATCH__SECURITY_PROTOCOL is 'TLS'"),
        (
            ["--bootstrap", "k:1"],
            {**SASL, "sasl_password": "file:none.txt"},
            "watch.sasl_password is 'file:none.txt', which cannot be read: No such file",
        ),
        (
            ["--bootstrap", "k:1"],
            {"security_protocol": "SSL", "ssl_ca_file": "none.pem"},
            "cannot load the TLS files none.pem: No such file",
        ),
        (["--bootstrap", "k:1", "--interval", "0s"], {}, "--interval is '0s'"),
    ],
)
def test_wrong_usage_is_named(arguments, environment, words):
    status, said = hwmark(*arguments, **environment)
    assert (status, len(said.splitlines())) == (2, 1)
    assert words in said


def test_a_password_in_the_configuration_file_is_refused(tmp_path):
    (tmp_path / "my.toml").write_text('[watch]\nsasl_password = "geheim"')
    status, said = hwmark("--bootstrap", "k:1", "--config", "my.toml")
    assert status == 2
    assert "watch.sasl_password is wrong: a secret must not stand in settings: write env:NAME or file:PATH" in said
    assert "geheim" not in said


def test_a_password_comes_from_a_file_too(tmp_path):
    (tmp_path / "password").write_text("wrong\n")
    with FakeCluster(1, users=USERS) as cluster:
        refused(cluster, "it refuses user 'watch'", **SASL, sasl_password="file:password")


def test_a_second_watcher_ends_with_75(tmp_path):
    with FakeCluster(1) as cluster, hold(str(tmp_path / "lake"), "watch:prod"):
        status, said = hwmark("--bootstrap", at(cluster), "--cluster", "prod")
    assert status == 75
    assert "watch:prod of lake" in said


def test_a_dry_run_says_what_it_costs_and_writes_nothing(tmp_path):
    with FakeCluster(2) as cluster:
        cluster.topic("orders", [1, 2], [2, 1])
        done = CliRunner().invoke(app, ["watch", "--bootstrap", at(cluster), "--dry-run"])
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "fake: 2 partitions of 1 topics, 4 replicas on 2 brokers"
    assert lines[1].startswith("a round: 4 ListOffsets requests and 1 of metadata, ")
    assert lines[3].startswith("rows: 17 at the start, then 24,000 an hour at the rate of the last 0.3 s, 72,000 where")
    assert not (tmp_path / "lake").exists()
