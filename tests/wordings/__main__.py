"""Lines of a version of Kafka that lines.json does not have: `python -m tests.wordings 4.3.1`, or jars with sources.

Prints each with its logger and what the reader of logs makes of it, and ends with 1 where there is any: look at them in
Kafka's sources, teach the reader those that carry evidence, list the others in messages/harmless.py, then `--add`.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.wordings.collect import lines_of_jar, made_of
from tests.wordings.table import TABLE, write

REPOSITORY = "https://repo.maven.apache.org/maven2/org/apache/kafka"
ARTIFACTS = ("kafka_2.13", "kafka-server", "kafka-metadata", "kafka-storage", "kafka-server-common", "kafka-clients")


def jars(named: str, folder: Path) -> Iterator[Path]:
    """Return the jar that is named, or those of a version, with sources; one that a version lacks is left out."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", named):
        yield Path(named)
        return
    for artifact in ARTIFACTS:
        place = folder / f"{artifact}.jar"
        try:
            urllib.request.urlretrieve(f"{REPOSITORY}/{artifact}/{named}/{artifact}-{named}-sources.jar", place)
        except OSError as error:
            print(f"{artifact} {named}: left out, {error}", file=sys.stderr)
            continue
        yield place


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("named", nargs="+", metavar="VERSION|JAR")
    parser.add_argument("--add", metavar="MAJOR.MINOR", help="write them to lines.json as lines of this version")
    given = parser.parse_args()
    found = dict[tuple[str, str], str]()
    with tempfile.TemporaryDirectory() as folder:
        for named in given.named:
            for jar in jars(named, Path(folder)):
                found |= {line: made_of(*line) for line in lines_of_jar(jar)}
    if not found:
        print("no line of a logger with evidence: are these jars with sources?", file=sys.stderr)
        return 2
    fresh = {line: made for line, made in found.items() if line[1] not in TABLE.get(line[0], {})}
    for (logger, text), made in sorted(fresh.items()):
        print(f"{made}: {logger}: {text}")
    if given.add:
        write(found, given.add)
    return 1 if fresh else 0


if __name__ == "__main__":
    sys.exit(main())
