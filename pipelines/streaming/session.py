"""The Spark session of the streaming job, with Delta's jars, workers of this interpreter, and RocksDB for state."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.cache import cache_dir
from pipelines.streaming import class_archive, hadoop, jars, scratch, spark_internals
from pipelines.streaming.signals import children_without_signals
from pipelines.streaming.workers import zygote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("hwmark.spark")

LEAST_JAVA = 17
KEPT_LOGS = 20
KEEP_SOCKETS = ("4.1.0", "4.1.1", "4.1.2", "4.1.3", "4.2.0")

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}
CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Blobs are already compressed.
    "spark.shuffle.compress": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(1 << 17),
    # This value means no limit by bytes. With one, Spark measures the batch anew at every row, and Arrow walks
    # over all null lists each time: quadratic, eight minutes for a million events.
    "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
}

# For a JVM that only passes blobs on: the C2 compiler takes 1.3 CPU s of a run of 4 M events and never earns them
# back; G1 takes 300 MB more than the serial collector for large blobs.
PASSES_BLOBS = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


_SOCKETS = "spark.python.unix.domain.socket.enabled", "spark.python.unix.domain.socket.dir"
SOCKET_NAME = 44
"""The bytes of a socket's name as Spark makes it, with the slash before it."""
_ONE_JVM = re.compile(r"local(\[|$)")


class UnsuitableSpark(RuntimeError):
    """Raised if the job cannot run here; the message says what to install or change."""


def session(
    *,
    master: str = "local[2]",
    shuffle_partitions: int = 2,
    jars_dir: str | None = None,
    driver_memory: str = "2g",
    conf: Mapping[str, str] | None = None,
    log_file: str | Path | None = None,
    lake: str = "",
    delta: bool = True,
) -> SparkSession:
    """The running session, or a new one; a master set by spark-submit wins over `master`.

    `jars_dir`: where `jars.fetch` put Delta's jars; without it they are fetched into the user's cache, once.
    `log_file`: what a new JVM and its workers print. `lake`: where the tables are, whose store may need a client.
    `delta`: Spark itself reads Delta tables, too; the job needs that only with `source = "delta"`.
    Raises UnsuitableSpark, UsageError.
    """
    import pyspark
    from pyspark.sql import SparkSession

    refuse_connect(master, (conf or {}).get("spark.master"), (conf or {}).get("spark.remote"))
    settings = settings_of_version(pyspark.__version__)
    # The one who started the context, mostly spark-submit, has chosen its master and jars.
    first = spark_internals.running_context() is None
    started_here = first and spark_internals.GATEWAY_PORT not in os.environ
    builder = SparkSession.builder.appName("hwmark")
    kept, python = None, None
    tasks = {"spark.sql.shuffle.partitions": str(shuffle_partitions)}
    settings |= {**CONF, **(DELTA if delta else {}), **warm_workers(), **hadoop.file_modes(), **tasks, **(conf or {})}
    if started_here:
        require_java()
        local_workers(master)
        settings = {"spark.master": master, "spark.driver.memory": driver_memory, **settings}
        settings |= hadoop.client(lake, jars_dir, settings)
        if _ONE_JVM.match(settings["spark.master"]):
            settings |= hadoop.local_files(lake, jars_dir, settings)
        settings |= _delta(jars_dir, settings) if delta else {}
        settings |= class_archive.used(jars_dir, settings)
        kept = scratch.folder(settings)
        settings |= scratch.settings(kept, settings)
        if _ONE_JVM.match(settings["spark.master"]):
            settings |= _sockets_without_delay(kept, settings)
    secrets = hadoop.secrets(settings) if started_here else {}
    for name, value in settings.items():
        if name not in secrets:
            builder = builder.config(name, value)
    printed = Path(log_file or default_log_file())
    with stderr_to(printed) if started_here else nullcontext(), children_without_signals():
        if kept is not None and starts_warm(settings["spark.master"], os.environ.get(spark_internals.PYTHON)):
            python = zygote.start(kept)
        if kept is not None and python is None:
            scratch.remove_at_end(kept)
        with _python_of_spark(python), _cause_of_no_jvm(printed):
            spark = builder.getOrCreate()
    hadoop.configure(spark, secrets)
    # Workers of a JVM that another process started do not inherit this process's environment.
    environment = spark.sparkContext.environment
    environment["PYTHONPATH"] = _own_package_first(environment)
    if "PYTHONSAFEPATH" in os.environ:
        environment["PYTHONSAFEPATH"] = os.environ["PYTHONSAFEPATH"]
    if started_here:
        _no_traces_of_closed_connections()
        spark.sparkContext.setLogLevel("WARN")
    return spark


@contextmanager
def _python_of_spark(path: str | None) -> Iterator[None]:
    """Let a Spark that is started in the block run this Python, if one is named."""
    if path is None:
        yield
        return
    before = os.environ[spark_internals.PYTHON]
    os.environ[spark_internals.PYTHON] = path
    try:
        yield
    finally:
        os.environ[spark_internals.PYTHON] = before


@contextmanager
def _cause_of_no_jvm(printed: Path) -> Iterator[None]:
    """Raise UnsuitableSpark with the JVM's last line in the file `printed`, if the JVM ends before Spark reaches it."""
    from pyspark.errors import PySparkRuntimeError

    before = printed.stat().st_size if printed.exists() else 0
    try:
        yield
    except PySparkRuntimeError as error:
        if "JAVA_GATEWAY_EXITED" not in str(error):
            raise
        lines = printed.read_bytes()[before:].decode(errors="replace").splitlines() if printed.exists() else []
        # Lines of a trace are indented, and the script that starts Java adds a message of its own.
        said = [line for line in lines if line and not line[0].isspace() and "spark-class: line" not in line]
        why = said[-1] if said else "it printed nothing"
        raise UnsuitableSpark(f"Spark's JVM ended as it started: {why} (its whole output is in {printed})") from error


def _no_traces_of_closed_connections() -> None:
    """Keep pyspark and py4j from printing traces of the connections that a killed JVM has cut off."""

    def log_cut_off(*_: object) -> None:
        log.debug("a connection of Spark's JVM was cut off", exc_info=True)

    spark_internals.on_closed_connections(log_cut_off)
    logging.getLogger().addFilter(_not_of_py4j)  # which calls `logging.exception` itself


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j" or log.isEnabledFor(logging.DEBUG)


def keeps_sockets(spark: str) -> str | None:
    """The advice for continuous runs on this version of Spark, None if there is none."""
    if spark not in KEEP_SOCKETS:
        return None
    return (
        f"Spark {spark} never closes one socket of each task (SPARK-58932): after some ten thousand batches no port or "
        "no file descriptor is left, and the run fails. Spark 4.1.4, 4.2.1 and later close them"
    )


def settings_of_version(spark: str) -> dict[str, str]:
    """The settings that only this version of Spark needs. Raises UnsuitableSpark if it cannot run the job."""
    if spark.split(".")[:2] in (["3", "5"], ["4", "0"]):
        lacks = "no state that a Python function keeps" if spark.startswith("3") else "no stream writer for Arrow"
        raise UnsuitableSpark(f"Spark {spark} has {lacks}: hwmark needs 4.1.4 or later, and not 4.2.0")
    # SPARK-56461: a batch that is tried again reuses names of files, which then have other checksums.
    return {"spark.sql.streaming.checkpoint.fileChecksum.enabled": "false"} if spark.startswith("4.1.") else {}


def warm_workers() -> dict[str, str]:
    """The setting that gives tasks workers with all imports done.

    Not if hwmark comes as a zip (--py-files), which Spark puts on a worker's path only once it runs.
    """
    import pipelines

    installed = Path(pipelines.__file__).is_file()
    return {"spark.python.daemon.module": "pipelines.streaming.workers.daemon"} if installed else {}


def starts_warm(master: str, python: str | None) -> bool:
    """Whether the driver's Python processes are forked from a warm one: only with a local master.

    On a cluster, under spark-submit, or with another Python, Spark starts them as usual; the module from which workers
    are forked is a setting of Spark's and holds there, too.
    """
    return _ONE_JVM.match(master) is not None and python == sys.executable


def _sockets_without_delay(kept: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings for Unix domain sockets in `kept` between JVM and workers.

    On TCP Spark leaves Nagle's algorithm on, and a task waits for an acknowledgement that Linux delays by 40 ms.
    """
    if any(name in given for name in _SOCKETS) or len(os.fsencode(kept)) + SOCKET_NAME > zygote.MOST_BYTES:
        return {}
    return dict(zip(_SOCKETS, ("true", str(kept)), strict=True))


def refuse_connect(*given: str | None) -> None:
    """Raise UnsuitableSpark if the environment or a `given` master asks for Spark Connect, which has no job state."""
    for name in filter(None, given):
        if name.startswith("sc://"):
            raise UnsuitableSpark(f"{name} is Spark Connect, which is not supported: name a classic master")
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        if os.environ.get(name, "0") not in ("", "0", "false"):
            raise UnsuitableSpark(f"{name} is set: Spark Connect is not supported; unset it and name a classic master")
    with suppress(PackageNotFoundError):
        found = f"databricks-connect {version('databricks-connect')}"
        raise UnsuitableSpark(f"{found} stands for pyspark here, and cannot run the job: install hwmark without it")


def require_java() -> str:
    """The path of the Java that Spark starts. Raises UnsuitableSpark if there is none of version 17 or later."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    advice = f"install a JDK {LEAST_JAVA} or later (for example `apt install openjdk-17-jre-headless`) or set JAVA_HOME"
    if not java or not Path(java).exists():
        raise UnsuitableSpark(f"no Java {f'in JAVA_HOME={home}' if home else 'on PATH'}: {advice}")
    printed = subprocess.run([java, "-version"], capture_output=True, text=True).stderr
    found = re.search(r'version "(\d+)', printed)
    if not found or int(found[1]) < LEAST_JAVA:
        raise UnsuitableSpark(f"{java} is Java {found[1] if found else 'of unknown version'}: {advice}")
    return java


def local_workers(master: str) -> None:
    """Make workers of a local master use this interpreter and this package, before others of its name."""
    if not master.startswith("local"):
        return
    os.environ.setdefault(spark_internals.PYTHON, sys.executable)
    os.environ["PYTHONPATH"] = _own_package_first(os.environ)


def _own_package_first(environment: Mapping[str, str]) -> str:
    """The PYTHONPATH of an environment with the folder of this package first."""
    root, path = str(zygote.ROOT), environment.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join([root, *(folder for folder in path if folder not in ("", root))])


@cache
def default_log_file() -> Path:
    """The default log file of this process's JVMs; the files of KEPT_LOGS processes are kept."""
    folder = cache_dir("logs")
    for old in sorted(folder.glob("spark-*.log"), key=lambda path: path.stat().st_mtime)[: 1 - KEPT_LOGS]:
        old.unlink(missing_ok=True)
    return folder / f"spark-{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}.log"


@contextmanager
def stderr_to(path: Path) -> Iterator[None]:
    """Give children that start in the block `path` as their stderr, so that Spark's lines do not reach people.

    They append: a file named in the settings may be shared by several processes.
    """
    log.debug("Spark logs to %s", path)
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    with open(path, "ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def _delta(jars_dir: str | None, settings: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings for Delta's jars: on the class path, to be archived, if driver and executors are one JVM."""
    found = jars.find(jars_dir) if jars_dir else jars.fetch(cache_dir("jars"))
    one = _ONE_JVM.match(settings["spark.master"])
    name, between = (hadoop.CLASS_PATH, ":") if one else ("spark.jars", ",")
    return {name: between.join(filter(None, [*found, settings.get(name)]))}
