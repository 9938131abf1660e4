"""Forks the Python workers of Spark's tasks as `pyspark.daemon` does, from a process that has imported what they need.

Spark starts it as `python -m pipelines.streaming.workers.daemon pyspark.worker`.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys

from pipelines.streaming.spark_internals import fork_workers
from pipelines.streaming.workers.installed import prefer_installed

NEEDED = (
    "pandas",
    "pyarrow.parquet",
    "pipelines.replication",
    "pipelines.streaming.source.bronze_source",
    "pipelines.streaming.stateful.bucket_processor",
    "pipelines.streaming.source.blobs",
    "pipelines.streaming.sinks.sink",
)
"""What the tasks of the job import beside the worker's own module."""


def main(worker: str) -> None:
    """Serve until Spark closes stdin; `worker` is the module of the workers."""
    # Threads do not outlive a fork, but for jemalloc's, which makes its own anew: numpy's are not to be made.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    prefer_installed()
    for name in (worker, *NEEDED):
        # A worker that lacks something raises it itself, where Spark reads it.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    # Workers collect garbage after every task: what was imported is not to be looked at each time, nor copied.
    gc.freeze()
    fork_workers()


if __name__ == "__main__":
    main(sys.argv[1])
