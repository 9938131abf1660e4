"""What Spark keeps for as long as it runs, in one folder that is removed however the driver ends."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from pipelines.cache import cache_dir
from pipelines.errors import UsageError
from pipelines.streaming.signals import ignore

PREFIX, LOCK = "hwmark-spark-", ".lock"
MADE_WITHIN_S = 60
TRIES, PAUSE_S = 3, 2.0
"""A JVM that has lost its driver goes on writing until it notices."""
_LOCAL_DIRS, _LOCAL_DIR = "SPARK_LOCAL_DIRS", "spark.local.dir"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


_waiting: list[subprocess.Popen[bytes]] = []
_of_process: tuple[int, Path] | None = None


def folder(conf: Mapping[str, str]) -> Path:
    """That of this process, where Spark keeps such files by its settings, else where temporary files are kept.

    It is in the user's cache where nothing can be run there (`noexec`): the JVM unpacks its libraries into it.
    A first call makes it, and removes those of drivers on this host that have ended together with all they had started.
    """
    global _of_process
    if _of_process is None or _of_process[0] != os.getpid() or not _of_process[1].is_dir():
        base = Path((_local_dirs(conf) or [tempfile.gettempdir()])[0])
        base.mkdir(parents=True, exist_ok=True)
        places = base, cache_dir("spark")
        place = next(filter(_may_hold_programs, places), None)
        if place is None:
            raise UsageError(
                f"Spark cannot load its libraries from a place mounted noexec: {places[0]}, {places[1]}; mount one "
                "with exec, or set SPARK_LOCAL_DIRS"
            )
        _of_process = os.getpid(), make(place, PREFIX)
    return _of_process[1]


def make(base: Path, prefix: str) -> Path:
    """A new folder for as long as this process lives; those of processes that have ended are removed.

    Its lock says so, which the kernel frees with the process: a number would be another's in another container.
    """
    for left in (*base.glob(f"{prefix}*"), *base.glob(f".{prefix}*")):
        if _is_left(left):
            shutil.rmtree(left, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=f".{prefix}", dir=base))
    lock = os.open(made / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return made.rename(base / made.name[1:])


def settings(scratch: Path, conf: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings by which it keeps its files there; a disk of its own that it is given, or several, stay."""
    disks = _local_dirs(conf)
    options = f"{conf.get(_JAVA_OPTIONS, '')} -Djava.io.tmpdir={scratch} -XX:-UsePerfData".strip()
    if len(disks) > 1 or (disks and not scratch.parent.samefile(disks[0])):
        return {_JAVA_OPTIONS: options}
    if _LOCAL_DIRS in os.environ:  # Spark prefers it to its setting
        os.environ[_LOCAL_DIRS] = str(scratch)
    return {_JAVA_OPTIONS: options, _LOCAL_DIR: str(scratch)}


def _local_dirs(conf: Mapping[str, str]) -> list[str]:
    """Where Spark keeps its files, by the environment or by a setting."""
    return [path for path in (os.environ.get(_LOCAL_DIRS) or conf.get(_LOCAL_DIR, "")).split(",") if path]


def _may_hold_programs(place: Path) -> bool:
    with tempfile.NamedTemporaryFile(dir=place) as program:
        os.chmod(program.name, 0o700)
        return os.access(program.name, os.X_OK)


def remove(scratch: Path) -> None:
    """Removes it with all that is in it, and once more where somebody still wrote to it."""
    for attempt in range(TRIES):
        shutil.rmtree(scratch, ignore_errors=True)
        if attempt + 1 < TRIES:
            time.sleep(PAUSE_S)


def remove_at_end(scratch: Path) -> None:
    """Starts a process that removes the folder when this one ends, in whichever way."""
    words = [sys.executable, "-m", __name__, str(scratch)]
    _waiting.append(subprocess.Popen(words, stdin=subprocess.PIPE, preexec_fn=ignore))


def _is_left(scratch: Path) -> bool:
    """Whether the process that made it is gone; one without a lock is not of this program, or of an earlier version,
    or its process was killed while it made it: then its name still begins with a dot, and it is not of just now."""
    being_made = scratch.name.startswith(".")
    try:
        if being_made and time.time() - scratch.stat().st_mtime < MADE_WITHIN_S:
            return False
        lock = os.open(scratch / LOCK, os.O_RDWR)
    except FileNotFoundError:
        return being_made and scratch.is_dir()
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


if __name__ == "__main__":
    ignore()
    sys.stdin.read()
    remove(Path(sys.argv[1]))
