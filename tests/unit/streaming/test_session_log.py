"""What Spark prints stays readable after the next one has started."""

import logging
import os
import shutil
import subprocess
import sys

import pytest

from pipelines.cache import cache_dir
from pipelines.streaming import session
from pipelines.streaming.session import KEPT_LOGS, UnsuitableSpark, default_log_file, stderr_to


@pytest.fixture(autouse=True)
def cache_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    default_log_file.cache_clear()
    yield
    default_log_file.cache_clear()


def say(words):
    subprocess.run([sys.executable, "-c", f"import sys; sys.stderr.write({words!r})"], check=True)


def test_what_an_earlier_jvm_printed_is_kept(tmp_path):
    path = tmp_path / "mine.log"
    for words in ("first\n", "second\n"):
        with stderr_to(path):
            say(words)
    assert path.read_text() == "first\nsecond\n"


def test_every_process_has_a_file_of_its_own_by_default(monkeypatch):
    mine = default_log_file()
    assert mine == default_log_file()
    assert str(os.getpid()) in mine.name
    default_log_file.cache_clear()
    monkeypatch.setattr(session.os, "getpid", lambda: 1)
    assert default_log_file() != mine


def test_old_log_files_do_not_pile_up():
    folder = cache_dir("logs")
    for n in range(KEPT_LOGS + 5):
        (folder / f"spark-{n}.log").write_text("old")
        os.utime(folder / f"spark-{n}.log", (n, n))
    default_log_file().write_text("new")
    kept = {path.name for path in folder.iterdir()}
    assert len(kept) == KEPT_LOGS
    assert "spark-5.log" not in kept
    assert "spark-6.log" in kept


def test_traces_of_py4j_are_not_logged_and_those_of_others_are():
    make = logging.getLogger().makeRecord
    said = [make("root", logging.ERROR, f"/env/{name}/a.py", 1, name, (), None) for name in ("py4j", "duckdb")]
    assert [record.msg for record in said if session._not_of_py4j(record)] == ["duckdb"]


def test_a_jvm_that_ends_as_it_starts_is_told_with_its_reason(tmp_path, monkeypatch):
    """Spark only says that the gateway exited; Java says that nobody resolves a container's name."""
    java = tmp_path / "bin/java"
    java.parent.mkdir()
    java.write_text(f"""#!/bin/sh
case "$*" in *-version*) exec {shutil.which("java")} "$@";; esac
echo "WARNING: Using incubator modules" >&2
echo "Caused by: java.net.UnknownHostException: vm: Name or service not known" >&2
echo "	at java.base/java.net.InetAddress.getLocalHost(InetAddress.java:1936)" >&2
exit 1
""")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    printed = tmp_path / "spark.log"
    printed.write_text("java.lang.Error: of a run before\n")
    with pytest.raises(UnsuitableSpark, match=r"UnknownHostException: vm: Name or service not known .*spark\.log"):
        session.session(log_file=printed, delta=False)
