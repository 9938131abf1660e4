"""What Spark keeps for as long as it runs, in one folder that is removed however the driver ends."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

PREFIX = "hwmark-spark-"
TRIES, PAUSE_S = 3, 2.0
"""A JVM that has lost its driver goes on writing until it notices."""
_LOCAL_DIR, _JAVA_OPTIONS = "spark.local.dir", "spark.driver.extraJavaOptions"


def folder(conf: Mapping[str, str]) -> Path:
    """A new one, where Spark is told to keep such files, else where temporary files are kept.

    Removes those of drivers on this host that have ended together with all they had started.
    """
    told = os.environ.get("SPARK_LOCAL_DIRS") or conf.get(_LOCAL_DIR) or tempfile.gettempdir()
    base = Path(told.split(",")[0])
    base.mkdir(parents=True, exist_ok=True)
    for left in base.glob(f"{PREFIX}*"):
        if _is_left(left):
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=base))


def settings(scratch: Path, conf: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings by which it keeps its files there; those of several disks stay where they are."""
    told = f"{conf.get(_JAVA_OPTIONS, '')} -Djava.io.tmpdir={scratch} -XX:-UsePerfData".strip()
    several = "," in (os.environ.get("SPARK_LOCAL_DIRS") or conf.get(_LOCAL_DIR, ""))
    return {_JAVA_OPTIONS: told} | ({} if several else {_LOCAL_DIR: str(scratch)})


def remove(scratch: Path) -> None:
    """Removes it with all that is in it, and once more where somebody still wrote to it."""
    for attempt in range(TRIES):
        shutil.rmtree(scratch, ignore_errors=True)
        if attempt + 1 < TRIES:
            time.sleep(PAUSE_S)


def _is_left(scratch: Path) -> bool:
    """Whether the process that made it is gone; its name says which it was."""
    found = re.match(rf"{PREFIX}(\d+)-", scratch.name)
    if found is None:
        return False
    try:
        os.kill(int(found[1]), 0)
    except ProcessLookupError:
        return True
    except OSError:  # it is another user's
        return False
    return False
