"""Kernels that were compiled at set-up, loaded before workers are forked: each would take most of a second for it."""

from __future__ import annotations

import logging
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("hwmark.run")
BEGINNING_US = 1_704_067_200_000_000
"""2024-01-01: rows of before 2010 go to quarantine, and no kernel of a term would be loaded."""
_ALL = "reconstruction"
"""The file that stands beside compiled kernels once those of the reconstruction are complete: reading logs compiles
some."""
_PLACE = {
    "cluster": "none", "source_id": "none", "source_epoch": 0, "broker_id": 1, "level": 3, "topic": "none",
    "partition": 0,
}  # fmt: skip


def load() -> None:
    """Has every kernel of the reconstruction in memory; not where they would have to be compiled for it."""
    if are_compiled():
        reconstruct()


def are_compiled() -> bool:
    """Whether the kernels of these sources are, for this CPU, Python and numba."""
    return any(mark.is_file() for mark in _marks())


def _marks() -> list[Path]:
    """The paths of the mark; new ones are written to the first."""
    from pipelines.replication.compiled.decorators import digest, kernel_caches, modules, target

    return [folder / f"{_ALL}-{digest(*modules())}-{target()}" for folder in kernel_caches()]


def compile_first() -> None:
    """Compiles what is missing, and says so: tasks would compile it side by side, and show nothing but no progress."""
    if not are_compiled():
        log.warning(
            "compiles its kernels, once for this version and CPU: a minute or more on two cores, before Spark starts"
        )
        with compiling() as process:
            process.wait()


def compiling() -> subprocess.Popen[bytes]:
    """A process that compiles the kernels of the reconstruction."""
    command = [sys.executable, "-c", "from pipelines.streaming.workers.kernels import reconstruct; reconstruct()"]
    return subprocess.Popen(command, cwd=Path(__file__).parents[3])


def reconstruct() -> None:
    """Reconstructs a partition's first moments, once, which takes every kernel of the reconstruction."""
    from pipelines.replication import Reconstructor

    reconstructor = Reconstructor()
    reconstructor.update(_events())
    for minute in range(3):  # samples of a leadership that is known already have kernels of their own
        reconstructor.update(_sample(minute))
    reconstructor.finish()  # what is final passes through kernels of its own
    with suppress(OSError):  # where nothing can be kept, each process compiles for itself
        _marks()[0].touch()


def _events() -> pa.Table:
    events = [
        {"event_type": "leader", "leader_id": 1, "leader_epoch": 0, "leo": 0, "hw": 0, "isr": [1, 2]},
        {"event_type": "append", "leader_leo": 1},
        {"event_type": "fetch", "replica_id": 2, "leo": 1, "leader_leo": 1},
        {"event_type": "hw", "replica_id": 1, "hw": 1},
    ]
    return _table([_PLACE | row | {"source_seq": n, "seq": n, "ts": BEGINNING_US + n} for n, row in enumerate(events)])


def _sample(minute: int) -> pa.Table:
    from schemas.levels import POLLED
    from schemas.replication_events import WATCHER

    offsets = {"replica_id": 1, "leader_id": 1, "leader_epoch": 0, "leo": minute, "hw": minute, "isr": [1]}
    source = {"event_type": "sample", "source_id": f"{WATCHER}none/broker-1", "partition": 1, "level": POLLED}
    numbers = {"source_seq": minute, "seq": minute, "ts": BEGINNING_US + minute * 60_000_000}
    return _table([_PLACE | source | offsets | numbers])


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    import pyarrow as pa

    from schemas import replication_events

    return pa.Table.from_pylist(rows, replication_events.ARROW)
