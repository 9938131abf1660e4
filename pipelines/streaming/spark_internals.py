"""Spark's private names that the job uses, all in this module.

Each has a plain substitute for a Spark without the name: slower, never wrong. `absent` lists the missing ones. Every
Python process of Spark's driver imports this module, so imports are inside the functions.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WORKER, DAEMON = "pyspark.worker", "pyspark.daemon"
"""What a task's worker runs, and what forks it."""
PLANNERS = (
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.streaming.transform_with_state_driver_worker",
)
"""The modules that Spark's driver runs, in a new process each, at the start of every query of ours."""
SOURCE_AND_SINK = (
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source",
)
"""Those that it runs for our source and sink. A module that is missing is imported by nobody ahead of time."""
PYTHON = "PYSPARK_PYTHON"
"""The variable by which Spark knows, as it starts, which Python its processes run."""
GATEWAY_PORT = "PYSPARK_GATEWAY_PORT"
"""The variable by which a program knows that spark-submit has started it."""
NOT_STARTED = "Python worker failed to connect back"
"""Spark gives the planner of a Python source ten seconds to start, whatever is set; by then nothing has been done."""
BATCH_ID = "streaming.sql.batchId"
"""The local property of a task with the number of its micro-batch."""
FILE_SYSTEM_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""A class of the JVM: the way of writing checkpoints that renames files. The jar of `spark-sql` has it."""
_SERVERS = ("AccumulatorTCPServer", "AccumulatorUnixServer")


def absent() -> list[str]:
    """Private names that the installed PySpark does not have, each as module:attribute."""
    from importlib.util import find_spec

    modules = (WORKER, DAEMON, *PLANNERS, *SOURCE_AND_SINK)
    attributes = (
        (DAEMON, "manager"), ("pyspark.find_spark_home", "_find_spark_home"),
        ("pyspark.core.context", "SparkContext._active_spark_context"),
        ("pyspark.core.context", "SparkContext._gateway"),
        *(("pyspark.accumulators", name) for name in _SERVERS),
    )  # fmt: skip
    missing = [name for name in modules if find_spec(name) is None]
    return missing + [f"{module}:{path}" for module, path in attributes if _find(module, path) is _NOT_THERE]


_NOT_THERE = object()


def _find(module: str, path: str) -> object:
    from importlib import import_module

    try:
        found: object = import_module(module)
    except ImportError:
        return _NOT_THERE
    for name in path.split("."):
        found = getattr(found, name, _NOT_THERE)
    return found


def limits_batches() -> bool:
    """Return True if Spark tells a Python source where a batch begins and how much it may read (SPARK-55304, 4.2)."""
    from importlib.util import find_spec

    return find_spec("pyspark.sql.streaming.datasource") is not None


def running_context() -> SparkContext | None:
    """The context of this process; the plain way knows only one whose session is active."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    found = getattr(SparkContext, "_active_spark_context", _NOT_THERE)
    if found is _NOT_THERE:
        active = SparkSession.getActiveSession()
        return None if active is None else active.sparkContext
    return found  # type: ignore[return-value]  # of SparkContext


def on_closed_connections(handle: Callable[..., None]) -> None:
    """Has `handle` called where a JVM that ended cut a connection off; the plain way prints a trace."""
    from pyspark import accumulators

    for name in _SERVERS:
        if (server := getattr(accumulators, name, None)) is not None:
            server.handle_error = handle


def configure_hadoop(spark: SparkSession, settings: Mapping[str, str]) -> None:
    """Set Hadoop's settings in a JVM that runs; the plain way sets them in the session, whose queries know them."""
    context = getattr(spark.sparkContext, "_jsc", None)
    put: Any = spark.conf.set if context is None else context.hadoopConfiguration().set
    for name, value in settings.items():
        put(name, value)


def progress_since(running: StreamingQuery, seen: int) -> Sequence[str]:
    """Progress of a query as JSON where it has any of a batch after `seen`.

    pyspark's own properties, the plain way, fetch every field over the gateway, and we ask five times a second.
    """
    query = getattr(running, "_jsq", None)
    if query is None:
        return [progress.json for progress in running.recentProgress]
    last = query.lastProgress()
    if last is None or last.batchId() <= seen:
        return []
    return [str(progress.json()) for progress in query.recentProgress()]


def jvm_of(spark: SparkSession) -> tuple[Any, Any] | None:
    """(the gateway to a session's JVM, the process it is); None where that is not known, and nobody can wait for it."""
    gateway = getattr(spark.sparkContext, "_gateway", None)
    process = getattr(gateway, "proc", None)
    return None if process is None else (gateway, process)


def fork_workers() -> None:
    """Is the daemon of Spark's workers, until Spark closes stdin; the plain way imports the module once more."""
    from importlib import import_module
    from runpy import run_module

    manager = getattr(import_module(DAEMON), "manager", None)
    if manager is None:
        run_module(DAEMON, run_name="__main__", alter_sys=True)
    else:
        manager()


def home() -> Path:
    """The folder of Spark; the plain substitute does not know another one's SPARK_HOME."""
    from pathlib import Path

    import pyspark

    find = _find("pyspark.find_spark_home", "_find_spark_home")
    return Path(find()) if callable(find) else Path(pyspark.__file__).parent
