"""How much memory the job takes at its worst: `python -m pipelines.bench.measure.bounds`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.bench.measure.measured import watching
from pipelines.bench.workloads.load import START_US, rounds
from pipelines.commands.show.tables import as_table
from pipelines.lake.bronze import append_events
from pipelines.setup import jars_dir

SILENT_S = 3 * 3600
SMALL = {"max_bytes_per_trigger": "32m", "max_rows_per_trigger": "1000000"}


@dataclass(frozen=True)
class Case:
    """What is in bronze when the job starts; `settings` of [run]."""

    name: str
    events: Callable[[], Iterator[pa.Table]]
    settings: dict[str, str]


def backlog() -> Iterator[pa.Table]:
    return rounds(200_000, 10, step=2)


def many_partitions() -> Iterator[pa.Table]:
    return rounds(1_000_000, 1, step=1)


def many_topics() -> Iterator[pa.Table]:
    """100,000 partitions of 10,000 topics: a hundred of each topic that the load has, of ten partitions each."""
    for events in rounds(100_000, 10, step=2):
        number, topics = events["partition"].to_numpy(), events.column_names.index("topic")
        parts = pc.binary_join_element_wise(events["topic"], pa.array((number % 100).astype(str)), "-")
        partition = pa.array(np.where(number < 0, -1, number // 100).astype(np.int32))
        named = events.set_column(topics, "topic", parts)
        yield named.set_column(events.column_names.index("partition"), "partition", partition)


def silent_source() -> Iterator[pa.Table]:
    """Twelve sources, one of which says nothing more after its first minute."""
    for events in rounds(60, SILENT_S, step=600):
        late = events["ts"].cast(pa.int64()).to_numpy() > START_US + 60_000_000
        yield events.filter(pa.array(~(late & (events["broker_id"].to_numpy() == 0))))


CASES = (
    Case("6 M events of 200,000 partitions", backlog, {}),
    Case("the same, smaller batches", backlog, SMALL),
    Case("1,000,000 partitions", many_partitions, {}),
    Case("10,000 topics", many_topics, {}),
    Case("one of 12 sources silent for 3 h", silent_source, {}),
)


def measured(case: Case) -> dict[str, str]:
    """The case's line of the table."""
    with tempfile.TemporaryDirectory(prefix="hwmark-bounds-") as folder:
        count = 0
        for version, events in enumerate(case.events()):
            append_events(folder, events, app_id="bounds", version=version)
            count += len(events)
        variables = {f"HWMARK_RUN__{name.upper()}": value for name, value in case.settings.items()}
        variables["HWMARK_RUN__JARS_DIR"] = jars_dir() or ""
        words = [sys.executable, "-m", "pipelines.cli", "run", "--lake", folder, "--once"]
        began = time.perf_counter()
        with (
            subprocess.Popen(words, env=os.environ | variables, stdout=subprocess.DEVNULL) as job,
            watching(job.pid) as peak,
        ):
            status = job.wait()
            took = peak()
        if status:
            raise RuntimeError(f"{case.name}: run ended with status {status}")
        state = sum(path.stat().st_size for path in Path(folder, "_run").rglob("*") if path.is_file())
    return {
        "case": case.name,
        "events": f"{count:,}",
        "seconds": f"{time.perf_counter() - began:.0f}",
        "peak memory": "unknown" if took is None else f"{took / 1e9:.1f} GB",
        "checkpoint": f"{state / 1e6:.1f} MB",
    }


def main(names: list[str]) -> None:
    lines = []
    for case in CASES:
        if not names or case.name in names:
            lines.append(measured(case))
            print(as_table(lines[-1:], list(lines[-1])), flush=True)
    print(as_table(lines, list(lines[0])))


if __name__ == "__main__":
    main(sys.argv[1:])
