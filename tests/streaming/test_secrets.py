"""Keys of the object store reach nothing that others may read: the lake, what is printed, Spark's log, `ps`."""

import json
import os
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pytest

from generators.recordings import traces
from pipelines.setup import jars_dir

LOGS = traces.path("unclean_election")
EVERY_S = 0.05


class Shell:
    """Runs commands that get secrets by their environment, and keeps all that becomes visible of them."""

    def __init__(self, log):
        self.secrets = {
            name: f"{name}-{uuid.uuid4().hex}"
            for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        }
        self.log = log
        self.events = log.with_name("events")  # what Spark logs of itself, plans among it
        self.events.mkdir()
        self.conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": self.events.as_uri()}
        self.conf |= {"spark.eventLog.compress": "false", "spark.logConf": "true"}
        self.seen = set()
        self.printed = ""

    def hwmark(self, *words, status=0):
        environment = os.environ | {
            "HWMARK_RUN__JARS_DIR": jars_dir() or "",
            "HWMARK_RUN__LOG_FILE": str(self.log),
            "HWMARK_RUN__SPARK_CONF": json.dumps(self.conf),
            **{f"HWMARK_LAKE__STORAGE_OPTIONS__{name}": value for name, value in self.secrets.items()},
        }
        call = [sys.executable, "-m", "hwmark", *map(str, words), "--debug"]
        done = threading.Event()
        watching = threading.Thread(target=self._watch, args=[done])
        watching.start()
        try:
            ended = subprocess.run(call, env=environment, stdout=-1, stderr=subprocess.STDOUT, text=True)
        finally:
            done.set()
            watching.join()
        self.printed += ended.stdout
        assert ended.returncode == status, ended.stdout

    def _watch(self, done):
        while not done.wait(EVERY_S):
            for process in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    self.seen.add(process.read_bytes().decode(errors="replace"))
                except OSError:
                    continue

    def told_in(self, text):
        return sorted({name for name, value in self.secrets.items() if value in text})


def kept_in(shell, place):
    """The files that hold a secret."""
    files = [path for path in place.rglob("*") if path.is_file()]
    assert files
    found = {str(path): shell.told_in(path.read_bytes().decode("latin-1")) for path in files}
    return {path: names for path, names in found.items() if names}


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are looked at in /proc")
def test_no_secret_is_in_the_lake_the_output_the_log_or_a_command_line(tmp_path):
    lake, shell = tmp_path / "lake", Shell(tmp_path / "spark.log")
    shell.hwmark("ingest", "logs", *sorted(LOGS.iterdir()), "--cluster", "c", "--lake", lake)
    # A batch that fails: Spark then prints its plan, with the options of source and sink.
    files = (lake / "bronze" / "replication_events").rglob("*.parquet")
    data = max(files, key=lambda file: file.stat().st_size)
    whole = data.read_bytes()
    data.write_bytes(bytes(len(whole)))
    shell.hwmark("run", "--lake", lake, "--once", status=1)
    data.write_bytes(whole)
    shell.hwmark("run", "--lake", lake, "--once", "--drain")
    shell.hwmark("check", "--lake", lake)
    shell.hwmark("maintain", "--lake", lake)
    assert any("org.apache.spark.deploy.SparkSubmit" in words for words in shell.seen)
    assert [(shell.told_in(words), words[:80]) for words in shell.seen if shell.told_in(words)] == []
    assert shell.told_in(shell.printed) == []
    assert shell.log.stat().st_size > 0
    assert shell.told_in(shell.log.read_text()) == []
    assert kept_in(shell, shell.events) == {}
    assert kept_in(shell, lake) == {}


ASK = """
import os
from pipelines.streaming.session import session
spark = session(master="local[1]", jars_dir=JARS, conf={"spark.hadoop.fs.s3a.secret.key": os.environ["SECRET"]})
print("given", spark._jsparkSession.sessionState().newHadoopConf().get("fs.s3a.secret.key") == os.environ["SECRET"])
"""


@pytest.mark.spark
def test_hadoop_knows_what_is_not_in_the_command_line():
    jars = jars_dir()
    call = [sys.executable, "-c", ASK.replace("JARS", repr(jars))]
    done = subprocess.run(call, env=os.environ | {"SECRET": "abc"}, capture_output=True, text=True)
    assert done.stdout == "given True\n", done.stderr
