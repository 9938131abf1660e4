"""Done once: Delta's jars fetched, kernels compiled, the JVM's classes archived.

`python -m pipelines.setup` does all of it, `python -m pipelines.setup kernels` that part alone, and so on; `s3` fetches
Hadoop's S3 client, which few need and which is large.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.streaming.jars import Packages

JARS = Path(sys.prefix) / "share" / "hwmark" / "jars"
"""Where Delta's jars are kept: with the environment, so that any working directory finds them."""


def jars_dir(chosen: str = "") -> str | None:
    """The folder of Delta's jars: the chosen one, else that of HWMARK_RUN__JARS_DIR, else that of this environment,
    else None (they are fetched)."""
    from pipelines.streaming.jars import MARK

    chosen = chosen or os.environ.get("HWMARK_RUN__JARS_DIR", "")
    return chosen or (str(JARS) if (JARS / MARK).is_file() else None)


def fetch_jars() -> str:
    """Delta's jars, and the one for files on a local disk where it can be had. Raises JarsRefused."""
    from pipelines.streaming.hadoop import LOCAL
    from pipelines.streaming.jars import JarsUnavailable, delta, local_files

    said = _fetch(JARS, delta())
    try:
        _fetch(JARS / LOCAL, local_files())
    except JarsUnavailable as missing:
        return f"{said}, none for local disks: there Spark starts a process for each file that it makes ({missing})"
    return said


def fetch_s3() -> str:
    """Hadoop's S3 client. Raises JarsRefused."""
    from pipelines.streaming.hadoop import S3
    from pipelines.streaming.jars import s3

    return _fetch(JARS / S3, s3())


def have_kernels() -> bool:
    """Whether somebody has compiled kernels of these sources."""
    from pipelines.streaming.workers.kernels import are_compiled

    return are_compiled()


def compile_kernels() -> str:
    """Those of the reconstruction, which take longest, in a process of their own, those that read logs in this one.

    Then what both are together, so that nothing is left for the first run. Raises CalledProcessError.
    """
    from pipelines.streaming.workers.kernels import compiling

    with compiling() as reconstruction:
        from generators.brokerlogs.ingest import read_logs
        from generators.recordings import traces

        events = read_logs([traces.path("unclean_election")], "setup")
    if reconstruction.returncode:
        raise subprocess.CalledProcessError(reconstruction.returncode, reconstruction.args)
    from pipelines.replication import Reconstructor
    from pipelines.replication.compiled.decorators import kernel_cache

    reconstructor = Reconstructor()
    reconstructor.update(events)
    Reconstructor.restore(reconstructor.snapshot()).finish()
    return f"kernels compiled into {kernel_cache()}"


def archive_classes() -> str:
    """Make the archive of the classes that the job loads on a small lake, unless it exists."""
    from pipelines.streaming import class_archive
    from pipelines.streaming.session import require_java, session

    def work(conf: Mapping[str, str]) -> SparkSession:
        spark = session(jars_dir=str(JARS), conf=conf, delta=False)
        with tempfile.TemporaryDirectory(prefix="hwmark-setup-") as lake:
            _run_small(lake)
        return spark

    if not have_archive():
        leaving_archive(work)
    if class_archive.made(JARS, require_java()):
        return "Spark's classes archived, sessions start a third sooner"
    return f"Spark's classes are not archived in {JARS}, sessions start as slowly as Spark starts them"


def have_archive() -> bool:
    """Whether the classes of this Java and Spark are archived, or cannot be: the jars are not this environment's."""
    from pipelines.streaming import class_archive
    from pipelines.streaming.session import require_java

    return not os.access(JARS, os.W_OK) or class_archive.made(JARS, require_java())


def leaving_archive(work: Callable[[Mapping[str, str]], SparkSession]) -> None:
    """Does `work`, which starts a session with the settings that it is given, has it do what the job does, and returns
    it; archives what its JVM has loaded."""
    from pipelines.streaming import class_archive
    from pipelines.streaming.session import PASSES_BLOBS, require_java

    class_archive.make(JARS, require_java(), PASSES_BLOBS[class_archive.JAVA_OPTIONS], work)


def _run_small(lake: str) -> None:
    from generators.brokerlogs.ingest import read_logs
    from generators.recordings import traces
    from pipelines.lake.bronze import append_events
    from pipelines.replication import Rules
    from pipelines.streaming import job
    from pipelines.streaming.options import RunOptions

    append_events(lake, read_logs([traces.path("unclean_election")], "setup"), app_id="setup", version=1)
    job.run(lake, Rules(), RunOptions(jars_dir=str(JARS)))


def _fetch(folder: Path, wanted: Packages) -> str:
    from pipelines.streaming.jars import fetch

    return f"{len(fetch(folder, wanted))} jars in {folder}"


PARTS = {"jars": fetch_jars, "kernels": compile_kernels, "classes": archive_classes, "s3": fetch_s3}
WHOLE = ("jars", "kernels", "classes")


def main(chosen: Sequence[str]) -> None:
    """The parts that are named, or all but `s3`."""
    from pipelines.streaming.jars import JarsRefused

    for part in chosen:
        if part not in PARTS:
            sys.exit(f"setup: {part!r} is unknown: say nothing, or some of {', '.join(PARTS)}")
    try:
        for part in chosen or WHOLE:
            print(f"setup: {PARTS[part]()}", flush=True)
    except JarsRefused as refused:
        sys.exit(f"setup: {refused}")
    except subprocess.CalledProcessError as failed:
        sys.exit(f"setup: kernels were not compiled, status {failed.returncode}: what went wrong stands above")


if __name__ == "__main__":
    main(sys.argv[1:])
