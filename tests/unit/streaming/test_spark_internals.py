"""What is private to Spark is where it was, stands in one module, and has a plain way where it is missing."""

import os
import re
import runpy
import socket
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkContext, accumulators, daemon
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import pipelines
from pipelines.streaming import session, spark_internals

PRIVATE = re.compile(
    r"\._js[a-z]+|\._jvm|\._gateway\b|_active_spark_context|find_spark_home|Accumulator\w+Server"
    r"|pyspark\.(daemon|worker)\b[^.]|pyspark\.sql\.worker|streaming\.sql\.batchId|PYSPARK_GATEWAY_PORT|source_runner"
)


def in_jar(name, entry, words):
    """Whether a class of one of Spark's jars has these words in it."""
    (jar,) = (spark_internals.home() / "jars").glob(f"{name}_*.jar")
    with zipfile.ZipFile(jar) as file:
        return any(words.encode() in file.read(found) for found in file.namelist() if entry in found)


def test_the_installed_spark_has_every_private_name():
    assert spark_internals.absent() == []
    assert StreamingQuery("query")._jsq == "query"
    assert "_jsc" in SparkContext._do_init.__code__.co_names
    assert in_jar("spark-sql", "/MicroBatchExecution$.class", spark_internals.BATCH_ID)
    class_file = spark_internals.FILE_SYSTEM_CHECKPOINTS.replace(".", "/")
    assert in_jar("spark-sql", f"{class_file}.class", class_file)
    assert in_jar("spark-core", "/PythonWorkerFactory", spark_internals.NOT_STARTED)
    assert all(in_jar("spark-core", "/config/Python$", name) for name in session._SOCKETS)
    assert in_jar("spark-core", "/deploy/SparkSubmit", spark_internals.GATEWAY_PORT) or in_jar(
        "spark-core", "/deploy/PythonRunner", spark_internals.GATEWAY_PORT
    )


def test_private_names_stand_in_one_module():
    root = Path(pipelines.__file__).parent
    lines = [
        f"{path.relative_to(root)}: {line.strip()}"
        for path in root.rglob("*.py")
        if path.name != "spark_internals.py"
        for line in path.read_text().splitlines()
        if PRIVATE.search(line) and not line.lstrip().startswith(("#", '"""', "Spark starts it"))
    ]
    assert lines == []


def test_a_name_that_moved_is_named(monkeypatch):
    monkeypatch.setattr(spark_internals, "PLANNERS", ("pyspark.sql.streaming.moved",))
    monkeypatch.delattr(daemon, "manager")
    assert spark_internals.absent() == ["pyspark.sql.streaming.moved", "pyspark.daemon:manager"]


def test_without_the_running_context_that_of_the_active_session_counts(monkeypatch):
    monkeypatch.delattr(SparkContext, "_active_spark_context")
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    assert spark_internals.running_context() is None
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: SimpleNamespace(sparkContext="context"))
    assert spark_internals.running_context() == "context"


def test_without_the_accumulators_servers_traces_are_printed(monkeypatch):
    for name in ("AccumulatorTCPServer", "AccumulatorUnixServer"):
        monkeypatch.delattr(accumulators, name)
    spark_internals.on_closed_connections(print)


def test_without_the_java_context_hadoop_is_configured_by_the_session():
    given = {}
    plain = SimpleNamespace(sparkContext=SimpleNamespace(), conf=SimpleNamespace(set=given.__setitem__))
    spark_internals.configure_hadoop(plain, {"fs.s3a.secret.key": "word"})
    assert given == {"fs.s3a.secret.key": "word"}


def test_without_the_java_query_progress_is_that_of_pyspark():
    running = SimpleNamespace(recentProgress=[SimpleNamespace(json="{}"), SimpleNamespace(json="[]")])
    assert spark_internals.progress_since(running, 0) == ["{}", "[]"]


def test_without_the_gateway_nobody_waits_for_the_jvm():
    assert spark_internals.jvm_of(SimpleNamespace(sparkContext=SimpleNamespace())) is None


def test_without_the_daemons_function_its_module_is_run(monkeypatch):
    ran = []
    monkeypatch.delattr(daemon, "manager")
    monkeypatch.setattr(runpy, "run_module", lambda name, run_name, alter_sys: ran.append((name, run_name)))
    spark_internals.fork_workers()
    assert ran == [("pyspark.daemon", "__main__")]


def test_without_sparks_own_search_its_home_is_where_pyspark_is(monkeypatch):
    monkeypatch.setattr("pyspark.find_spark_home._find_spark_home", None)
    assert (spark_internals.home() / "jars").is_dir()


@pytest.mark.parametrize(
    ("master", "warm"),
    [("local", True), ("local[*]", True), ("local[2]", True), ("local-cluster[2,1,1024]", False), ("yarn", False),
     ("spark://host:7077", False), ("k8s://https://host:443", False)],
)  # fmt: skip
def test_processes_are_forked_from_a_warm_one_on_this_machine_only(master, warm):
    assert session.starts_warm(master, sys.executable) is warm


def test_another_python_that_somebody_has_chosen_is_started_by_spark_itself():
    assert not session.starts_warm("local[2]", "/usr/bin/python3")
    assert not session.starts_warm("local[2]", None)


def test_spark_is_started_with_its_python_and_nobody_else_is(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "mine")
    with session._python_of_spark("forks"):
        assert os.environ["PYSPARK_PYTHON"] == "forks"
    assert os.environ["PYSPARK_PYTHON"] == "mine"
    with session._python_of_spark(None):
        assert os.environ["PYSPARK_PYTHON"] == "mine"


def test_the_spark_that_never_closes_its_sockets_is_named():
    assert "SPARK-58932" in session.keeps_sockets("4.2.0")
    assert session.keeps_sockets("4.1.3") is not None
    assert session.keeps_sockets("4.2.1") is session.keeps_sockets("4.1.4") is None


def test_a_spark_that_lacks_what_the_job_is_made_of_is_refused():
    for spark, lacks in (("4.0.5", "no stream writer for Arrow"), ("3.5.9", "no state that a Python function keeps")):
        with pytest.raises(session.UnsuitableSpark, match=f"Spark {spark} has {lacks}: hwmark needs 4.1.4 or later"):
            session.settings_of_version(spark)
    assert list(session.settings_of_version("4.1.4").values()) == ["false"]
    assert session.settings_of_version("4.2.1") == session.settings_of_version("4.3.0") == {}


def test_databricks_connect_is_refused_by_its_name(monkeypatch):
    monkeypatch.setattr(session, "version", lambda name: {"databricks-connect": "18.1.0"}[name])
    with pytest.raises(session.UnsuitableSpark, match=r"databricks-connect 18\.1\.0 stands for pyspark here"):
        session.refuse_connect()


@pytest.mark.parametrize("how", [{"master": "sc://h:15002"}, {"conf": {"spark.remote": "sc://h:15002"}}])
def test_spark_connect_is_refused_wherever_it_is_named(how):
    """Spark's own words were that a gateway exited, or that a master cannot be configured."""
    with pytest.raises(session.UnsuitableSpark, match="sc://h:15002 is Spark Connect, which is not supported"):
        session.session(**how)


def test_jvm_and_workers_of_one_machine_speak_through_sockets_without_delay(tmp_path):
    short, named = Path("/tmp/kept"), {"spark.python.unix.domain.socket.enabled": "false"}
    assert session._sockets_without_delay(short, {}) == {
        "spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": str(short),
    }  # fmt: skip
    assert session._sockets_without_delay(short, named) == {}
    with socket.socket(socket.AF_UNIX) as listening, pytest.raises(OSError, match="too long"):
        listening.bind(str(tmp_path / ("deep" * 30)))
    assert session._sockets_without_delay(tmp_path / ("deep" * 30), {}) == {}
