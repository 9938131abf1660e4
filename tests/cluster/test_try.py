"""`hwmark try` without its Kafka: what it takes, refuses, and holds for news."""

import tarfile

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.commands.try_kafka.command import _news
from pipelines.local_kafka import jars
from pipelines.verdict import Line
from pipelines.verdict.records import State


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """No configuration of the checkout, and a cache of the test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("HWMARK_KAFKA_JARS", raising=False)


def unpacked(folder, version="4.1.1", *more):
    libs = folder / f"kafka_2.13-{version}" / "libs"
    libs.mkdir(parents=True)
    for name in (f"kafka-clients-{version}.jar", f"kafka_2.13-{version}.jar", *more):
        (libs / name).write_bytes(b"")
    return libs.parent


def hwmark_try(*arguments):
    done = CliRunner().invoke(app, ["try", *arguments, "--lake", "lake"])
    return done.exit_code, done.stderr.strip()


@pytest.mark.parametrize(("version", "log4j1"), [("3.9.1", True), ("4.1.1", False), ("4.4.0", False)])
def test_an_unpacked_kafka_says_its_version_by_its_jars(tmp_path, version, log4j1):
    home = unpacked(tmp_path, version)
    found, libraries = jars.installed(home)
    assert (found.kafka, found.log4j1, libraries) == (version, log4j1, home / "libs")


def test_a_tarball_is_unpacked_once(tmp_path):
    home = unpacked(tmp_path)
    with tarfile.open(tmp_path / "kafka.tgz", "w:gz") as archive:
        archive.add(home, home.name)
    _, first = jars.installed(tmp_path / "kafka.tgz")
    _, second = jars.installed(tmp_path / "kafka.tgz")
    assert first == second
    assert first.is_relative_to(tmp_path / "cache")
    assert (first / "kafka-clients-4.1.1.jar").exists()


def test_what_is_no_kafka_is_named(tmp_path):
    (tmp_path / "empty").mkdir()
    assert hwmark_try("--kafka", "empty")[1].startswith("hwmark: empty is no Kafka: name its tarball, or the folder")
    (tmp_path / "kafka.tgz").write_text("no tarball")
    status, said = hwmark_try("--kafka", "kafka.tgz")
    assert (status, said.startswith("hwmark: kafka.tgz cannot be unpacked: ")) == (1, True)


def test_without_maven_and_without_kafka_it_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr("pipelines.local_kafka.jars.shutil.which", lambda name: None)
    monkeypatch.setattr("pipelines.commands.try_kafka.command.require_java", lambda: None)
    status, said = hwmark_try()
    assert status == 1
    assert said == (
        "hwmark: Kafka 4.1.1 is not here, and no Maven to fetch it: install Maven (`mvn` on PATH), or download Kafka's "
        "tarball and name it with --kafka"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["unclean-elecion"], "there is no fault 'unclean-elecion'; did you mean unclean-election?"),
        (["--kafka", "2.8"], "--kafka is '2.8': a version (3.9, 4.1, 4.4), Kafka's tarball, or its folder"),
    ],
)
def test_wrong_usage_is_named(arguments, words):
    status, said = hwmark_try(*arguments)
    assert (status, said) == (2, f"hwmark: {words}")


def test_a_sentence_whose_span_of_time_moves_on_is_no_news():
    def lost(until, count=153):
        span = f"(from 2026-11-23 06:19:00 UTC to 2026-11-23 {until} UTC)"
        return Line("try", "history", State.LOST, f"LOST: {count} offsets in 1 partition {span}")

    assert _news(lost("06:20:25")) == _news(lost("06:20:45"))
    assert _news(lost("06:20:25")) != _news(lost("06:20:25", 154))
