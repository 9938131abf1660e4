"""Delta's jars in a directory of their own, compared with pinned checksums; sessions afterwards need no network."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

MARK = "RESOLVED"
PINNED = Path(__file__).with_name("jars.sha256")
"""Checksums of every jar, as `sha256sum` writes and checks them."""


class JarsRefused(RuntimeError):
    """Delta's jars could not be had, or one of them is not what was pinned."""


def coordinates() -> str:
    """The Maven coordinates of the jar that belongs to the installed delta-spark and pyspark."""
    spark = ".".join(version("pyspark").split(".")[:2])
    return f"io.delta:delta-spark_{spark}_2.13:{version('delta-spark')}"


def find(directory: str | Path) -> list[str]:
    """The jars that `fetch` has put into `directory`. Raises FileNotFoundError saying how to fetch them."""
    mark = Path(directory) / MARK
    if not mark.is_file():
        raise FileNotFoundError(f"no Delta jars in {directory}: run `make setup`, or name the folder that has them")
    if mark.read_text() != coordinates():
        raise FileNotFoundError(f"jars in {directory} are {mark.read_text()}, not {coordinates()}: run `make setup`")
    return sorted(str(jar) for jar in Path(directory).glob("*.jar"))


def fetch(directory: str | Path) -> list[str]:
    """Resolves Delta's jars (Ivy, the network) into `directory`, unless they are there already; returns their paths.

    Raises JarsRefused, also for what was there already.
    """
    folder = Path(directory)
    try:
        found = find(folder)
        verify(found, f"find out who put it into {folder}, then empty that and run `make setup`")
        return found
    except FileNotFoundError:
        pass
    folder.mkdir(parents=True, exist_ok=True)
    # Beside the others: a rename replaces a jar that another process has open without changing it there.
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        _resolve(Path(scratch))
        resolved = _beyond_spark(Path(scratch, "jars"))
        verify(resolved, "find out what your Maven repository delivers; nothing of it was kept")
        if (folder / MARK).is_file():
            for old in set(folder.glob("*.jar")) - {folder / jar.name for jar in resolved}:
                old.unlink()
        for jar in resolved:
            jar.replace(folder / jar.name)
    # Written last: a folder without the mark is half-filled and is resolved again.
    (folder / MARK).write_text(coordinates())
    return find(folder)


def pinned() -> dict[str, str]:
    """The SHA-256 that each jar has to have, by its file name."""
    return {name: digest for digest, name in (line.split() for line in PINNED.read_text().splitlines())}


def verify(jars: Iterable[str | Path], advice: str) -> None:
    """Raises JarsRefused naming the first jar that is not pinned, or is not what was pinned, with `advice`."""
    wanted = pinned()
    for jar in map(Path, jars):
        if jar.name not in wanted:
            raise JarsRefused(f"{jar.name} is refused, it is none of the jars pinned in {PINNED.name}: {advice}")
        if (digest := sha256(jar)) != wanted[jar.name]:
            due = f"{wanted[jar.name]} as in {PINNED.name}"
            raise JarsRefused(f"{jar.name} is refused, its SHA-256 is {digest} and not {due}: {advice}")


def sha256(path: Path) -> str:
    """The checksum of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _beyond_spark(resolved: Path) -> list[Path]:
    """The jars of `resolved` (`group_artifact-version.jar`) whose artifact Spark does not bring along itself."""
    own = {_artifact(jar.name) for jar in Path(_spark_home(), "jars").glob("*.jar")}
    return [jar for jar in resolved.glob("*.jar") if _artifact(jar.name.split("_", 1)[1]) not in own]


def _artifact(jar: str) -> str:
    return re.sub(r"-\d[\w.-]*\.jar$", "", jar)


def _spark_home() -> str:
    import pyspark

    return os.environ.get("SPARK_HOME", str(Path(pyspark.__file__).parent))


def _resolve(ivy: Path) -> None:
    """Runs an empty program through spark-submit, which resolves its packages first."""
    home = _spark_home()
    with tempfile.NamedTemporaryFile("w", suffix=".py") as nothing:
        command = [f"{home}/bin/spark-submit", "--master", "local[1]", "--packages", coordinates()]
        command += ["--conf", f"spark.jars.ivy={ivy}", nothing.name]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "SPARK_HOME": home})
    if done.returncode:
        last = [line for line in done.stderr.splitlines() if line.strip()][-1:]
        raise JarsRefused(f"could not resolve {coordinates()}: {' '.join(last)}")


if __name__ == "__main__":
    print(f"{len(fetch(sys.argv[1]))} jars in {sys.argv[1]}")
