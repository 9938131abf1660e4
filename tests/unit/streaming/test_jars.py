"""What Maven delivers is compared with the checksums in the repository before Spark gets it."""

import hashlib
import re

import pytest

from pipelines.setup import JARS
from pipelines.streaming import jars, session

RIGHT, OTHER = "io.delta_delta-spark_4.2_2.13-4.4.0.jar", "io.delta_delta-storage-4.4.0.jar"


@pytest.fixture
def maven(monkeypatch):
    """What Ivy finds there, by name; the checksums in the repository are those of `right`."""
    content = {RIGHT: b"right", OTHER: b"right"}

    def resolve(ivy):
        (ivy / "jars").mkdir()
        for name, bytes_ in content.items():
            (ivy / "jars" / name).write_bytes(bytes_)

    monkeypatch.setattr(jars, "_resolve", resolve)
    monkeypatch.setattr(jars, "pinned", lambda: dict.fromkeys((RIGHT, OTHER), hashlib.sha256(b"right").hexdigest()))
    return content


def test_jars_as_pinned_are_fetched_and_found(tmp_path, maven):
    assert jars.fetch(tmp_path) == jars.find(tmp_path) == [str(tmp_path / name) for name in (RIGHT, OTHER)]


def test_a_jar_of_other_content_is_refused_by_name_and_not_kept(tmp_path, maven):
    maven[OTHER] = b"wrong"
    told = hashlib.sha256(b"wrong").hexdigest()
    with pytest.raises(jars.JarsRefused, match=f"^{re.escape(OTHER)} is refused, its SHA-256 is {told} "):
        jars.fetch(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_jar_that_is_not_pinned_is_refused_by_name(tmp_path, maven):
    maven["org.evil_helper-1.0.jar"] = b"right"
    with pytest.raises(jars.JarsRefused, match=r"^org\.evil_helper-1\.0\.jar is refused, "):
        jars.fetch(tmp_path)


def test_a_jar_that_was_changed_since_it_was_fetched_is_refused(tmp_path, maven):
    jars.fetch(tmp_path)
    (tmp_path / RIGHT).write_bytes(b"changed")
    with pytest.raises(jars.JarsRefused, match=re.escape(RIGHT)):
        jars.fetch(tmp_path)


def test_jars_of_another_version_make_room(tmp_path, maven):
    (tmp_path / jars.MARK).write_text("io.delta:delta-spark_4.1_2.13:4.3.0")
    (tmp_path / "io.delta_delta-spark_4.1_2.13-4.3.0.jar").write_bytes(b"old")
    assert [path.rpartition("/")[2] for path in jars.fetch(tmp_path)] == [RIGHT, OTHER]


def test_a_session_without_a_folder_of_jars_gets_those_that_were_compared(tmp_path, maven, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    maven[RIGHT] = b"wrong"
    with pytest.raises(jars.JarsRefused, match=re.escape(RIGHT)):
        session._delta(None)


def test_the_checksums_are_those_of_delta_for_the_spark_that_is_pinned():
    group, artifact, number = jars.coordinates().split(":")
    assert f"{group}_{artifact}-{number}.jar" in jars.pinned()
    assert all(re.fullmatch("[0-9a-f]{64}", sum_) for sum_ in jars.pinned().values())


@pytest.mark.skipif(not (JARS / jars.MARK).is_file(), reason="Delta's jars were never fetched: make setup")
def test_the_jars_of_this_environment_are_those_pinned():
    found = jars.find(JARS)
    jars.verify(found, "")
    assert {path.rpartition("/")[2] for path in found} == set(jars.pinned())
