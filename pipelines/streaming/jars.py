"""Delta's jars in a directory of their own, so that sessions afterwards need no network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

MARK = "RESOLVED"


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
    """Resolves Delta's jars (Ivy, the network) into `directory`, unless they are there already; returns their paths."""
    try:
        return find(directory)
    except FileNotFoundError:
        pass
    Path(directory).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as ivy:
        _resolve(ivy)
        for jar in _beyond_spark(Path(ivy, "jars")):
            shutil.copy2(jar, Path(directory) / jar.name)
    # Written last: a folder without the mark is half-filled and is resolved again.
    (Path(directory) / MARK).write_text(coordinates())
    return find(directory)


def _beyond_spark(resolved: Path) -> list[Path]:
    """The jars of `resolved` (`group_artifact-version.jar`) whose artifact Spark does not bring along itself."""
    own = {_artifact(jar.name) for jar in Path(_spark_home(), "jars").glob("*.jar")}
    return [jar for jar in resolved.glob("*.jar") if _artifact(jar.name.split("_", 1)[1]) not in own]


def _artifact(jar: str) -> str:
    return re.sub(r"-\d[\w.-]*\.jar$", "", jar)


def _spark_home() -> str:
    import pyspark

    return os.environ.get("SPARK_HOME", str(Path(pyspark.__file__).parent))


def _resolve(ivy: str) -> None:
    """Runs an empty program through spark-submit, which resolves its packages first."""
    home = _spark_home()
    with tempfile.NamedTemporaryFile("w", suffix=".py") as nothing:
        command = [f"{home}/bin/spark-submit", "--master", "local[1]", "--packages", coordinates()]
        command += ["--conf", f"spark.jars.ivy={ivy}", nothing.name]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "SPARK_HOME": home})
    if done.returncode:
        last = [line for line in done.stderr.splitlines() if line.strip()][-1:]
        raise RuntimeError(f"could not resolve {coordinates()}: {' '.join(last)}")


if __name__ == "__main__":
    print(f"{len(fetch(sys.argv[1]))} jars in {sys.argv[1]}")
