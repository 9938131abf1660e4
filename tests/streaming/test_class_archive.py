"""A JVM maps the classes that set-up has archived; one that cannot starts as it would without."""

import os
import subprocess
import sys

import pytest

from pipelines.setup import JARS
from pipelines.streaming.class_archive import FILE, JAVA_OPTIONS, SILENT, used
from pipelines.streaming.session import require_java


def test_an_archive_beside_the_jars_is_used(tmp_path):
    (tmp_path / FILE).write_bytes(b"classes")
    found = used(str(tmp_path), {JAVA_OPTIONS: "-XX:+UseSerialGC"})
    assert found == {JAVA_OPTIONS: f'-XX:+UseSerialGC -XX:SharedArchiveFile="{tmp_path / FILE}" {SILENT}'}


def test_without_an_archive_nothing_is_set(tmp_path):
    assert used(str(tmp_path), {}) == {}
    assert used(None, {}) == {}


@pytest.mark.parametrize("own", ["-XX:SharedArchiveFile=/own.jsa", "-XX:ArchiveClassesAtExit=/own.jsa", "-Xshare:off"])
def test_options_of_the_users_own_stand(tmp_path, own):
    (tmp_path / FILE).write_bytes(b"classes")
    assert used(str(tmp_path), {JAVA_OPTIONS: own}) == {}


@pytest.mark.parametrize("content", [b"", b"classes", None])
def test_an_archive_that_does_not_fit_is_no_error_and_no_news(tmp_path, content):
    if content is not None:
        (tmp_path / FILE).write_bytes(content)
    options = [f"-XX:SharedArchiveFile={tmp_path / FILE}", SILENT, "-version"]
    plain = subprocess.run([require_java(), "-version"], capture_output=True)
    done = subprocess.run([require_java(), *options], capture_output=True)
    assert (done.returncode, done.stdout) == (0, plain.stdout)


MAPS = """
from pathlib import Path
from pipelines.setup import JARS
from pipelines.streaming.session import PASSES_BLOBS, session

spark = session(jars_dir=str(JARS), conf=PASSES_BLOBS, delta=False)
pid = spark.sparkContext._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getPid()
print("mapped" if str(JARS / "classes.jsa") in Path("/proc", str(pid), "maps").read_text() else "not mapped")
"""


@pytest.mark.spark
@pytest.mark.skipif(
    bool(os.environ.get("HWMARK_RUN__JARS_DIR")) or not (JARS / FILE).is_file(), reason="no archive: run `make setup`"
)
def test_the_jobs_jvm_maps_the_archive():
    done = subprocess.run([sys.executable, "-c", MAPS], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "mapped\n"), done.stderr
