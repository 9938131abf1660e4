"""Delta's jars, Hadoop's S3 client and a file system for local disks, each in its own directory, with pinned checksums.

They come from Maven Central, or from the repository in Spark's DEFAULT_ARTIFACT_REPOSITORY; if it lacks them, from Ivy
as it is configured. Later sessions need no network.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from importlib.metadata import version
from pathlib import Path
from shutil import copyfileobj
from urllib.request import urlopen

MARK = "RESOLVED"
S3_HOW = "run `python -m pipelines.setup s3` (690 MB)"
PINNED = Path(__file__).with_name("jars.sha256")
"""Checksums of Delta's jars, as `sha256sum` writes and checks them."""
PINNED_S3, PINNED_LOCAL = PINNED.with_name("jars-s3.sha256"), PINNED.with_name("jars-local.sha256")
ALL_PINNED = (PINNED, PINNED_S3, PINNED_LOCAL)
CENTRAL = "https://repo1.maven.org/maven2/"
ANSWERS_S = 20
DELTA = "4.4.0"
"""The version of Delta's jar: the newest on Maven Central for Spark 4.1 and 4.2. Delta's Python package, the extra
`delta`, is not used here: it refuses pyspark 4.2.1."""
ARTIFACT = re.compile(r"(?P<group>[^_]+)_(?P<name>.+?)-(?P<version>\d[\w.-]*)\.jar")
"""The pattern of Ivy's names of jars."""


@dataclass(frozen=True)
class Packages:
    """A request to Maven: coordinates, a package to exclude, the command that fetches it (`how`), and the file with the
    checksums of all its jars."""

    coordinates: str
    without: str = ""
    how: str = "run `make setup`"
    checksums: Path = PINNED


class JarsRefused(RuntimeError):
    """Raised if jars could not be fetched, or one differs from its pinned checksum."""


class JarsUnavailable(JarsRefused):
    """Raised if no repository has the jars."""


def delta() -> Packages:
    """Delta's jar for the installed pyspark. Raises JarsUnavailable if there is none."""
    spark = ".".join(version("pyspark").split(".")[:2])
    if f"io.delta_delta-spark_{spark}_2.13-{DELTA}.jar" not in pinned(PINNED):
        raise JarsUnavailable(
            f'Delta {DELTA} has no jar for Spark {spark}: set [run] source to "arrow", or install pyspark 4.1 or 4.2'
        )
    return Packages(f"io.delta:delta-spark_{spark}_2.13:{DELTA}")


def s3() -> Packages:
    """Hadoop's S3 client in the version of Spark's own Hadoop, without its own TLS: the JDK's is enough."""
    (client,) = Path(_spark_home(), "jars").glob("hadoop-client-api-*.jar")
    number = client.stem.removeprefix("hadoop-client-api-")
    return Packages(f"org.apache.hadoop:hadoop-aws:{number}", "org.wildfly.openssl:wildfly-openssl", S3_HOW, PINNED_S3)


def local_files() -> Packages:
    """A file system class for local disks that calls the system itself; Hadoop's own starts processes."""
    return Packages("com.globalmentor:hadoop-bare-naked-local-fs:0.1.0", checksums=PINNED_LOCAL)


def find(directory: str | Path, of: Packages | None = None) -> list[str]:
    """The jars that `fetch` has put into `directory`. Raises FileNotFoundError with the command that fetches them."""
    mark, wanted = Path(directory) / MARK, of or delta()
    if not mark.is_file():
        raise FileNotFoundError(
            f"no jars of {wanted.coordinates} in {directory}: {wanted.how}, or name the folder that has them"
        )
    if mark.read_text() != wanted.coordinates:
        raise FileNotFoundError(f"jars in {directory} are {mark.read_text()}, not {wanted.coordinates}: {wanted.how}")
    return sorted(str(jar) for jar in Path(directory).glob("*.jar"))


def fetch(directory: str | Path, of: Packages | None = None) -> list[str]:
    """Download jars, Delta's by default, into `directory` unless they are there; returns their paths.

    Raises JarsUnavailable if no repository has them, JarsRefused for jars that differ from the pinned ones, old or new.
    """
    folder, wanted = Path(directory), of or delta()
    try:
        found = find(folder, wanted)
        verify(found, f"find out who put it into {folder}, then empty that and {wanted.how}")
        return found
    except FileNotFoundError:
        pass
    folder.mkdir(parents=True, exist_ok=True)
    # in the same folder: a rename replaces a jar without changing it for a process that has it open
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        resolved = _resolved(Path(scratch), wanted)
        verify(resolved, "find out what your Maven repository delivers; nothing of it was kept")
        if (folder / MARK).is_file():
            for old in set(folder.glob("*.jar")) - {folder / jar.name for jar in resolved}:
                old.unlink()
        for jar in resolved:
            jar.replace(folder / jar.name)
    # written last: a folder without the mark is incomplete and is resolved again
    (folder / MARK).write_text(wanted.coordinates)
    return find(folder, wanted)


def pinned(*files: Path) -> dict[str, str]:
    """The pinned SHA-256 of each jar, by file name, from `files`, by default from all."""
    lines = [line.split() for file in files or ALL_PINNED for line in file.read_text().splitlines()]
    return {name: digest for digest, name in lines}


def verify(jars: Iterable[str | Path], advice: str) -> None:
    """Raise JarsRefused with `advice` and the first jar that is not pinned or has another checksum."""
    wanted = pinned()
    for jar in map(Path, jars):
        if jar.name not in wanted:
            raise JarsRefused(f"{jar.name} is refused, it is none of the jars pinned in jars*.sha256: {advice}")
        if (digest := sha256(jar)) != wanted[jar.name]:
            due = f"{wanted[jar.name]} as in jars*.sha256"
            raise JarsRefused(f"{jar.name} is refused, its SHA-256 is {digest} and not {due}: {advice}")


def sha256(path: Path) -> str:
    """The checksum of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _resolved(scratch: Path, wanted: Packages) -> list[Path]:
    """The wanted jars, below `scratch`: the pinned ones from the repository, else those that Ivy resolves."""
    group, artifact, number = wanted.coordinates.split(":")
    own = f"{group}_{artifact}-{number}.jar"
    names = [name for name in pinned(wanted.checksums) if name == own or "_delta-spark_" not in name]  # of one Spark
    if own in names:
        try:
            with ThreadPoolExecutor(4) as pool:
                return list(pool.map(lambda name: _download(name, scratch / name), names))
        except (OSError, HTTPException, ValueError):  # ValueError: a wrong address
            pass
    _resolve(scratch, wanted)
    return _beyond_spark(scratch / "jars")


def _download(name: str, to: Path) -> Path:
    """Download one artifact of the repository, by the name of its jar. Raises OSError."""
    found = ARTIFACT.fullmatch(name)
    if found is None:
        raise ValueError(f"{name} is not named group_artifact-version.jar")
    repository = os.environ.get("DEFAULT_ARTIFACT_REPOSITORY", CENTRAL).rstrip("/")
    folder = f"{found['group'].replace('.', '/')}/{found['name']}/{found['version']}"
    with (
        urlopen(f"{repository}/{folder}/{found['name']}-{found['version']}.jar", timeout=ANSWERS_S) as answer,
        to.open("wb") as file,
    ):
        copyfileobj(answer, file, 1 << 20)
        size = answer.headers.get("Content-Length")
        if size is not None and file.tell() != int(size):
            raise OSError(f"{name}: {file.tell()} bytes of {size}, the connection ended too early")
    return to


def _beyond_spark(resolved: Path) -> list[Path]:
    """The jars of `resolved` (`group_artifact-version.jar`) whose artifact Spark does not bring along itself."""
    own = {_artifact(jar.name) for jar in Path(_spark_home(), "jars").glob("*.jar")}
    return [jar for jar in resolved.glob("*.jar") if _artifact(jar.name.split("_", 1)[1]) not in own]


def _artifact(jar: str) -> str:
    return re.sub(r"-\d[\w.-]*\.jar$", "", jar)


def _spark_home() -> str:
    import pyspark

    return os.environ.get("SPARK_HOME", str(Path(pyspark.__file__).parent))


def _resolve(ivy: Path, wanted: Packages) -> None:
    """Run an empty program through spark-submit, which resolves its packages first.

    Its JVM gets another home: if a user's Maven repository (`~/.m2`) has only a module's description, as other builds
    leave it, Ivy would not look elsewhere for the jar.
    """
    options = f'{os.environ.get("SPARK_SUBMIT_OPTS", "")} -Duser.home="{ivy}"'.strip()
    home = _spark_home()
    with tempfile.NamedTemporaryFile("w", suffix=".py") as nothing:
        command = [f"{home}/bin/spark-submit", "--master", "local[1]", "--packages", wanted.coordinates]
        command += ["--exclude-packages", wanted.without] if wanted.without else []
        command += ["--conf", f"spark.jars.ivy={ivy}", nothing.name]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, "SPARK_HOME": home, "SPARK_SUBMIT_OPTS": options},
        )
    if done.returncode:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        why = next((line for line in said if line.startswith("Exception in")), "".join(said[-1:]))
        raise JarsUnavailable(f"could not resolve {wanted.coordinates}: {why}: is Maven Central reached from here?")


if __name__ == "__main__":
    print(f"{len(fetch(sys.argv[1]))} jars in {sys.argv[1]}")
