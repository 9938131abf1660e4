"""Spark's temporary files, in one folder that is removed however the driver ends."""

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
"""Seconds for which a JVM without a driver may go on writing until it notices."""
_LOCAL_DIRS, _LOCAL_DIR = "SPARK_LOCAL_DIRS", "spark.local.dir"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


_waiting: list[subprocess.Popen[bytes]] = []
_of_process: tuple[int, Path] | None = None


def folder(conf: Mapping[str, str]) -> Path:
    """The folder of this process, in Spark's configured place or the system's for temporary files.

    It is in the user's cache if nothing can be run there (`noexec`): the JVM unpacks its libraries into it. The first
    call makes it, and removes those of drivers on this host that have ended with all their processes.
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
    """Make a folder for the life of this process, and remove those of ended processes.

    A folder's lock, which ends with the process, shows that it lives: process ids differ between containers.
    """
    for left in (*base.glob(f"{prefix}*"), *base.glob(f".{prefix}*")):
        if _is_left(left):
            shutil.rmtree(left, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=f".{prefix}", dir=base))
    lock = os.open(made / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return made.rename(base / made.name[1:])


def settings(scratch: Path, conf: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings for this folder; disks that Spark was given for its files stay."""
    disks = _local_dirs(conf)
    options = f"{conf.get(_JAVA_OPTIONS, '')} -Djava.io.tmpdir={scratch} -XX:-UsePerfData".strip()
    if len(disks) > 1 or (disks and not scratch.parent.samefile(disks[0])):
        return {_JAVA_OPTIONS: options}
    if _LOCAL_DIRS in os.environ:  # Spark prefers it to the setting
        os.environ[_LOCAL_DIRS] = str(scratch)
    return {_JAVA_OPTIONS: options, _LOCAL_DIR: str(scratch)}


def _local_dirs(conf: Mapping[str, str]) -> list[str]:
    """The folders for Spark's files, from the environment or a setting."""
    return [path for path in (os.environ.get(_LOCAL_DIRS) or conf.get(_LOCAL_DIR, "")).split(",") if path]


def _may_hold_programs(place: Path) -> bool:
    with tempfile.NamedTemporaryFile(dir=place) as program:
        os.chmod(program.name, 0o700)
        return os.access(program.name, os.X_OK)


def remove(scratch: Path) -> None:
    """Remove a folder, and try again if a process still wrote to it."""
    for attempt in range(TRIES):
        shutil.rmtree(scratch, ignore_errors=True)
        if attempt + 1 < TRIES:
            time.sleep(PAUSE_S)


def remove_at_end(scratch: Path) -> None:
    """Start a process that removes the folder when this one ends in any way."""
    words = [sys.executable, "-m", __name__, str(scratch)]
    _waiting.append(subprocess.Popen(words, stdin=subprocess.PIPE, preexec_fn=ignore))


def _is_left(scratch: Path) -> bool:
    """Whether a folder's process has ended.

    A folder without a lock is not ours or an earlier version's, unless its process was killed while making it: then its
    name still begins with a dot, and it is not new.
    """
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
