"""The recorded clusters of the tests, and the events that single logs of them become."""

import functools
import gzip
from pathlib import Path
from typing import Any

from generators.brokerlogs.parsing.parser import SourceParser
from generators.recordings import traces

_TESTS = Path(__file__).parents[2] / "kafka" / "recordings"
RECORDINGS = {folder.name: folder for folder in sorted(_TESTS.iterdir())} | {
    name: traces.path(name) for name in traces.scenarios()
}
DUMPED = [name for name, folder in RECORDINGS.items() if (folder / "metadata.dump.gz").exists()]
"""Recordings with the printed metadata log."""


def content(file: Path) -> bytes:
    with gzip.open(file) as opened:
        return opened.read()


@functools.cache
def rows_of(file: Path) -> list[dict[str, Any]]:
    """Events of one log file; its broker is that of the folder."""
    number = file.parent.name.removeprefix("broker-").removeprefix("b")
    parser = SourceParser("c", "s", broker_id=int(number) if number.isdecimal() else -1)
    return parser.feed(content(file), last=True).to_pylist()


def rows(recording: str, pattern: str) -> list[dict[str, Any]]:
    """Events of those files of a recording that match, one file after the other."""
    return [row for file in sorted(RECORDINGS[recording].glob(pattern)) for row in rows_of(file)]


def isr_changes(events: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    """(topic, partition, leader epoch, partition epoch, members) of every committed ISR."""
    return {
        (row["topic"], row["partition"], row["leader_epoch"], row["partition_epoch"], tuple(sorted(row["isr"])))
        for row in events
        if row["event_type"] in ("isr", "leader", "election") and row["isr"] is not None
    }
