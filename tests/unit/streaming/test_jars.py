"""What Maven delivers is compared with the checksums in the repository before Spark gets it."""

import hashlib
import io
import re
import subprocess
from pathlib import Path
from types import MappingProxyType

import pytest

from pipelines import setup
from pipelines.errors import UsageError
from pipelines.setup import JARS
from pipelines.streaming import hadoop, jars, session
from pipelines.streaming.hadoop import CLASS_PATH, LOCAL, S3

RIGHT, OTHER = "io.delta_delta-spark_4.2_2.13-4.4.0.jar", "io.delta_delta-storage-4.4.0.jar"


@pytest.fixture
def maven(monkeypatch):
    """What Ivy finds where no repository has the jars, by name; the checksums that are pinned are those of `right`."""
    content = {RIGHT: b"right", OTHER: b"right"}

    def resolve(ivy, wanted):
        (ivy / "jars").mkdir()
        for name, bytes_ in content.items():
            (ivy / "jars" / name).write_bytes(bytes_)

    monkeypatch.setattr(jars, "_resolve", resolve)
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "file:///nothing/there")
    monkeypatch.setattr(jars, "pinned", lambda *_: dict.fromkeys((RIGHT, OTHER), hashlib.sha256(b"right").hexdigest()))
    return content


def test_jars_as_pinned_are_fetched_and_found(tmp_path, maven):
    assert jars.fetch(tmp_path) == jars.find(tmp_path) == [str(tmp_path / name) for name in (RIGHT, OTHER)]


def test_jars_come_from_the_repository_named_and_ivy_is_not_asked(tmp_path, maven, monkeypatch):
    for path in ("delta-spark_4.2_2.13/4.4.0/delta-spark_4.2_2.13-4.4.0", "delta-storage/4.4.0/delta-storage-4.4.0"):
        jar = tmp_path / "repository/io/delta" / f"{path}.jar"
        jar.parent.mkdir(parents=True)
        jar.write_bytes(b"right")
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", (tmp_path / "repository").as_uri())
    monkeypatch.setattr(jars, "_resolve", None)
    assert jars.fetch(tmp_path / "jars") == [str(tmp_path / "jars" / name) for name in (RIGHT, OTHER)]


class CutOff(io.BytesIO):
    """An answer that ends before its length."""

    headers = MappingProxyType({"Content-Length": "5"})


@pytest.mark.parametrize("address", ["http://cut.off", "no address"])
def test_ivy_is_asked_where_a_download_ends_too_early_or_the_address_is_none(tmp_path, maven, monkeypatch, address):
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", address)
    if address.startswith("http"):
        monkeypatch.setattr(jars, "urlopen", lambda *_, **__: CutOff(b"rig"))
    assert jars.fetch(tmp_path) == [str(tmp_path / name) for name in (RIGHT, OTHER)]


def test_a_jar_of_other_content_is_refused_by_name_and_not_kept(tmp_path, maven):
    maven[OTHER] = b"wrong"
    got = hashlib.sha256(b"wrong").hexdigest()
    with pytest.raises(jars.JarsRefused, match=f"^{re.escape(OTHER)} is refused, its SHA-256 is {got} "):
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
        session._delta(None, {"spark.master": "local[2]"})


def test_the_checksums_are_those_of_delta_for_the_spark_that_is_pinned():
    group, artifact, number = jars.delta().coordinates.split(":")
    assert f"{group}_{artifact}-{number}.jar" in jars.pinned()
    assert all(re.fullmatch("[0-9a-f]{64}", sum_) for sum_ in jars.pinned().values())


@pytest.mark.parametrize("spark", ["4.1.4", "4.2.1"])
def test_each_spark_gets_its_own_jar_of_delta_and_no_others(tmp_path, monkeypatch, spark):
    monkeypatch.setattr(jars, "version", lambda _: spark)
    monkeypatch.setattr(jars, "_download", lambda name, to: Path(name))
    wanted = jars.delta()
    of_spark = [jar.name for jar in jars._resolved(tmp_path, wanted) if "delta-spark_" in jar.name]
    assert of_spark == [f"io.delta_delta-spark_{spark[:3]}_2.13-4.4.0.jar"]


def test_a_spark_that_delta_has_no_jar_for_is_named(monkeypatch):
    monkeypatch.setattr(jars, "version", lambda _: "4.3.0")
    with pytest.raises(jars.JarsUnavailable) as refused:
        jars.delta()
    assert str(refused.value) == (
        'Delta 4.4.0 has no jar for Spark 4.3: set [run] source to "arrow", or install pyspark 4.1 or 4.2'
    )


@pytest.mark.skipif(not (JARS / jars.MARK).is_file(), reason="Delta's jars were never fetched: make setup")
def test_the_jars_of_this_environment_are_those_pinned():
    found = jars.find(JARS)
    for optional, packages in ((LOCAL, jars.local_files()), (S3, jars.s3())):
        found += jars.find(JARS / optional, packages) if (JARS / optional / jars.MARK).is_file() else []
    jars.verify(found, "")
    here = {path.rpartition("/")[2] for path in found}
    own = {name for name in jars.pinned(jars.PINNED) if "delta-spark_" not in name}
    assert own <= here <= jars.pinned().keys()
    for optional in (jars.PINNED_LOCAL, jars.PINNED_S3):
        own = jars.pinned(optional).keys()
        assert own.isdisjoint(here) or own <= here


def test_set_up_goes_on_where_no_repository_has_the_jar_for_local_disks(tmp_path, maven, monkeypatch):
    def resolve(ivy, wanted):
        if wanted != jars.delta():
            raise jars.JarsUnavailable(f"could not resolve {wanted.coordinates}")
        resolve_delta(ivy, wanted)

    resolve_delta = jars._resolve
    monkeypatch.setattr(jars, "_resolve", resolve)
    monkeypatch.setattr(setup, "JARS", tmp_path)
    said = setup.fetch_jars()
    assert said.startswith(f"2 jars in {tmp_path}, none for local disks")
    assert jars.local_files().coordinates in said
    assert hadoop.local_files("/data/lake", str(tmp_path), {}) == {}


def test_set_up_ends_where_the_jar_for_local_disks_is_another_one(tmp_path, maven, monkeypatch):
    monkeypatch.setattr(setup, "JARS", tmp_path)
    maven["com.globalmentor_hadoop-bare-naked-local-fs-0.1.0.jar"] = b"wrong"
    with pytest.raises(jars.JarsRefused, match=r"^com\.globalmentor_.* is refused"):
        setup.fetch_jars()


def test_a_lake_on_s3_without_the_client_says_how_to_get_it(tmp_path):
    with pytest.raises(
        UsageError, match=r"^lake s3://b/l needs .*: run `python -m pipelines\.setup s3` \(690 MB\), or "
    ):
        hadoop.client("s3://b/l", str(tmp_path), {})


def test_a_lake_on_s3_gets_the_client_where_it_is_and_another_lake_nothing(tmp_path):
    (tmp_path / S3).mkdir()
    (tmp_path / S3 / jars.MARK).write_text(jars.s3().coordinates)
    (tmp_path / S3 / "a.jar").touch()
    assert hadoop.client("s3://b/l", str(tmp_path), {}) == {"spark.jars": f"local:{tmp_path / S3 / 'a.jar'}"}
    assert hadoop.client("/data/lake", str(tmp_path), {}) == {}


@pytest.fixture
def with_local_files(tmp_path):
    """A folder of jars with the class for local disks."""
    (tmp_path / LOCAL).mkdir()
    (tmp_path / LOCAL / jars.MARK).write_text(jars.local_files().coordinates)
    (tmp_path / LOCAL / "a.jar").touch()
    return str(tmp_path)


def test_one_jvm_sets_the_modes_of_its_files_itself_where_the_jar_for_it_is(tmp_path, with_local_files):
    found = hadoop.local_files("", with_local_files, {CLASS_PATH: "/mine.jar"})
    assert found.pop(CLASS_PATH) == f"{tmp_path / LOCAL / 'a.jar'}:/mine.jar"
    assert list(found) == ["spark.hadoop.fs.file.impl"]
    assert hadoop.local_files("", None, {}) == hadoop.local_files("", str(tmp_path / LOCAL), {}) == {}


def test_a_class_for_local_disks_that_the_user_names_stands(with_local_files):
    assert hadoop.local_files("", with_local_files, {"spark.hadoop.fs.file.impl": "mine"}) == {}


def test_where_a_lake_hands_its_group_on_hadoops_own_class_sets_the_modes(tmp_path, with_local_files):
    lake = tmp_path / "lake"
    lake.mkdir()
    assert hadoop.local_files(str(lake), with_local_files, {}) != {}
    lake.chmod(0o2775)
    assert hadoop.local_files(str(lake), with_local_files, {}) == {}


def test_a_client_of_the_users_own_stands(tmp_path):
    assert hadoop.client("s3://b/l", str(tmp_path), {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.5.0"}) == {}


def test_what_other_builds_left_in_a_maven_repository_is_not_asked(tmp_path, monkeypatch):
    """A description without its jar there, and Ivy would ask nobody else for the jar."""
    called = {}

    def run(command, env, **_):
        called.update(env)
        failed = (
            'Exception in thread "main" java.lang.RuntimeException: [download failed]\n\tat org.apache.spark.Main\n'
        )
        return subprocess.CompletedProcess(command, 1, "", failed)

    monkeypatch.setattr(jars.subprocess, "run", run)
    with pytest.raises(
        jars.JarsUnavailable, match=r"^could not resolve g:a:1: Exception .*: \[download failed\]: is Maven"
    ):
        jars._resolve(tmp_path, jars.Packages("g:a:1"))
    assert called["SPARK_SUBMIT_OPTS"].endswith(f'-Duser.home="{tmp_path}"')
