"""Kafka's jars: from Maven Central, kept in the user's cache, or from a Kafka that somebody has unpacked.

`python -m pipelines.local_kafka.jars 4.1` fetches them. `HWMARK_KAFKA_JARS` names another folder to keep them in.
Nothing is fetched when they are there and complete.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape

from pipelines.cache import cache_dir
from pipelines.local_kafka.versions import DEFAULT, DUMP_IN_CORE, DUMP_IN_TOOLS, Bundle, Version, version

MARK = "COMPLETE"


class NoJars(ValueError):
    """Kafka's jars are not there and could not be fetched; the message says why."""


def folder(bundle: Bundle) -> Path:
    """The folder of a bundle's jars."""
    chosen = os.environ.get("HWMARK_KAFKA_JARS")
    return (Path(chosen) if chosen else cache_dir("kafka")) / bundle.name


def jars(bundle: Bundle) -> Path:
    """The folder of a bundle's jars, fetched by Maven unless they are there. Raises NoJars."""
    home = folder(bundle)
    mark, wanted = home / MARK, "\n".join(bundle.artifacts)
    if _complete(mark, wanted):
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    # One process fetches them: to replace the folder would take it from another one's brokers.
    with (
        open(home.with_name(f"{home.name}.lock"), "w") as lock,
        tempfile.TemporaryDirectory(dir=home.parent) as scratch,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _complete(mark, wanted):
            return home
        fetched = Path(scratch, "jars")
        _copy_dependencies(bundle, Path(scratch), fetched)
        check(bundle, fetched)
        (fetched / MARK).write_text(wanted)
        # In one step, so that a folder of that name is always complete.
        shutil.rmtree(home, ignore_errors=True)
        fetched.rename(home)
    return home


def _complete(mark: Path, wanted: str) -> bool:
    return mark.is_file() and mark.read_text() == wanted


def check(bundle: Bundle, folder: Path) -> None:
    """Raise NoJars unless `folder` holds every artifact asked for, whole, of that version, with its main classes."""
    found = {jar.name: jar for jar in folder.glob("*.jar")}
    missing = [name for name in _file_names(bundle) if name not in found]
    broken = [name for name, jar in found.items() if not _whole(jar)]
    if missing or broken:
        raise NoJars(f"{bundle.name} in {folder}: missing {missing or 'none'}, broken {broken or 'none'}")
    inside = {name for jar in found.values() for name in zipfile.ZipFile(jar).namelist()}
    absent = [name for name in bundle.classes if name.replace(".", "/") + ".class" not in inside]
    states = _stated_version(found[f"kafka-clients-{bundle.kafka}.jar"])
    if absent or states != bundle.kafka:
        raise NoJars(f"{bundle.name} in {folder}: it is {states}, and lacks classes: {absent or 'none'}")


def _file_names(bundle: Bundle) -> list[str]:
    parts = [coordinates.split(":") for coordinates in bundle.artifacts]
    return [f"{artifact}-{number}.jar" for _, artifact, number in parts] + [f"kafka-clients-{bundle.kafka}.jar"]


def _whole(jar: Path) -> bool:
    try:
        return zipfile.ZipFile(jar).testzip() is None
    except (zipfile.BadZipFile, OSError):
        return False


def _stated_version(clients: Path) -> str:
    lines = zipfile.ZipFile(clients).read("kafka/kafka-version.properties").decode().splitlines()
    return next((line.removeprefix("version=") for line in lines if line.startswith("version=")), "of no version")


def _copy_dependencies(bundle: Bundle, scratch: Path, out: Path) -> None:
    if not shutil.which("mvn"):
        raise NoJars(
            f"Kafka {bundle.kafka} is not here, and no Maven to fetch it: install Maven (`mvn` on PATH), or download "
            "Kafka's tarball and name it with --kafka"
        )
    (scratch / "pom.xml").write_text(pom(bundle))
    command = ["mvn", "-B", "-q", "--strict-checksums", "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={out}"]
    done = subprocess.run(command, cwd=scratch, capture_output=True, text=True)
    if done.returncode:
        errors = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line][:3]
        raise NoJars(f"Maven could not fetch {bundle.name}: {' '.join(errors) or done.stdout[-500:]}")


def pom(bundle: Bundle) -> str:
    """The project that depends on a bundle's artifacts."""
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>hwmark</groupId><artifactId>real-kafka</artifactId><version>1</version>"
        f"<dependencies>{''.join(map(_dependency, bundle.artifacts))}</dependencies></project>\n"
    )


def _dependency(coordinates: str) -> str:
    group, artifact, number = map(escape, coordinates.split(":"))
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{number}</version>"
        "</dependency>"
    )


_CLIENTS = re.compile(r"kafka-clients-(\d[\d.]*)\.jar")


def installed(path: Path) -> tuple[Version, Path]:
    """A Kafka that somebody has: its folder, or its tarball, which is unpacked into the cache. Raises NoJars."""
    home = _unpacked(path) if path.is_file() else path
    folder = home / "libs" if (home / "libs").is_dir() else home
    clients = [found[1] for jar in folder.glob("kafka-clients-*.jar") if (found := _CLIENTS.fullmatch(jar.name))]
    if not clients or not any(folder.glob("kafka_2.1*.jar")):
        raise NoJars(
            f"{path} is no Kafka: name its tarball, or the folder it unpacks to, with libs/kafka-clients-*.jar"
        )
    number = clients[0]
    tool = DUMP_IN_TOOLS if any(folder.glob("kafka-tools-*.jar")) else DUMP_IN_CORE
    bundle = Bundle(number, (f"org.apache.kafka:kafka_2.13:{number}",), ("kafka.Kafka",))
    return Version(".".join(number.split(".")[:2]), bundle, bundle, tool, log4j1=int(number.split(".")[0]) < 4), folder


def _unpacked(tarball: Path) -> Path:
    target = cache_dir("kafka") / f"unpacked-{tarball.name}"
    if not target.is_dir():
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            whole = Path(scratch, "whole")
            try:
                with tarfile.open(tarball) as archive:
                    archive.extractall(whole, filter="data")
            except (tarfile.TarError, OSError) as error:
                raise NoJars(f"{tarball} cannot be unpacked: {error}") from error
            whole.rename(target)
    return next((jars.parent for jars in target.glob("*/libs")), target)


def main(names: list[str]) -> None:
    """Fetch the versions named, and print what is where."""
    for name in names or [DEFAULT]:
        for bundle in dict.fromkeys((version(name).broker, version(name).tools)):
            home = jars(bundle)
            found = list(home.glob("*.jar"))
            print(f"{bundle.name}: {len(found)} jars, {sum(j.stat().st_size for j in found) >> 20} MB, {home}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (NoJars, ValueError) as error:
        sys.exit(f"pipelines.local_kafka.jars: {error}")
