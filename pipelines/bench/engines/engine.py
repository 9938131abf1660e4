"""What a benchmark asks of an engine, and how those that write plain Parquet answer."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.bench.engines.answer import QUESTIONS, ordered
from schemas import replication_events


@dataclass(frozen=True)
class Asked:
    """What is asked of an engine beside the events: how fine the HWs are, and where it runs.

    `cores`: on the first so many of this machine's, all its processes together; None: on all.
    """

    resolution_ms: int = 1000
    master: str = "local[*]"
    cores: int | None = None

    @property
    def resolution_us(self) -> int:
        return self.resolution_ms * 1000


ASKED = Asked()


class Engine(Protocol):
    """Something that answers the questions about the events in a lake; it may keep files in its folder."""

    NAME: str
    COUNTED: str
    """From where to where its time counts, and what it does in it."""

    def __init__(self, lake: str, folder: str, asked: Asked = ASKED) -> None: ...
    def prepare(self) -> None:
        """Makes ready for a run as if there had been none; not counted."""

    def run(self) -> None:
        """What is counted."""

    def answer(self) -> pa.Table:
        """The HWs that the last run gave."""

    def answers(self) -> dict[str, pa.Table]:
        """All that the last run gave, by question."""

    def written(self) -> int:
        """Bytes of rows that the last run wrote, 0 where it kept them in memory."""

    def parts(self) -> dict[str, float]:
        """Seconds of the last run that are worth a line of their own, by what they were spent on."""

    def close(self) -> None: ...


class Writer:
    """An engine that writes the rows of each question below `out`, as a Parquet file or a folder of them."""

    def __init__(self, lake: str, folder: str, asked: Asked = ASKED) -> None:
        self.bronze = Path(lake, replication_events.TABLE.path)
        self.out, self.asked = Path(folder, "out"), asked

    def prepare(self) -> None:
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)

    def file(self, question: str) -> str:
        return str(self.out / f"{question.replace(' ', '_').lower()}.parquet")

    def answer(self) -> pa.Table:
        return self.answers()["HWs"]

    def answers(self) -> dict[str, pa.Table]:
        return {q: ordered(pq.read_table(self.file(q)), schema) for q, schema in QUESTIONS.items()}

    def written(self) -> int:
        return size_of(self.out)

    def parts(self) -> dict[str, float]:
        return {}

    def close(self) -> None:
        pass


def parquet_files(lake: str) -> list[str]:
    """The files of the events in the order of their time, for engines that read Parquet and know no Delta."""
    import pyarrow.compute as pc

    from pipelines.lake.bronze import bronze

    table = bronze(lake)
    files = pa.table(table.get_add_actions(flatten=True))
    ordered_files = files.take(pc.sort_indices(files["min.ts"]))["path"].to_pylist()
    return [str(Path(lake, replication_events.TABLE.path, name)) for name in ordered_files]


def size_of(*folders: Path, hidden: Sequence[str] = ("_delta_log",)) -> int:
    """Bytes of the files below some folders, without those of hidden folders."""
    files = (f for folder in folders for f in folder.rglob("*") if f.is_file())
    return sum(f.stat().st_size for f in files if not set(hidden) & set(f.parts))
