"""Kernels that were compiled at set-up, loaded before workers are forked: each would take most of a second for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def load() -> None:
    """Reconstructs a partition's first moments, once; not where kernels would have to be compiled for it."""
    from numba import config

    from pipelines.replication import Reconstructor

    if Path(config.CACHE_DIR).is_dir():
        Reconstructor().update(_events())


def _events() -> pa.Table:
    import pyarrow as pa

    from schemas import replication_events

    events = [
        {"event_type": "leader", "leader_id": 1, "leader_epoch": 0, "leo": 0, "hw": 0, "isr": [1, 2]},
        {"event_type": "append", "leader_leo": 1},
        {"event_type": "fetch", "replica_id": 2, "leo": 1, "leader_leo": 1},
        {"event_type": "hw", "replica_id": 1, "hw": 1},
    ]
    place = {"cluster": "none", "source_id": "none", "source_epoch": 0, "broker_id": 1, "level": 3}
    place |= {"topic": "none", "partition": 0}
    rows = [place | row | {"source_seq": n, "seq": n, "ts": 1000 * n} for n, row in enumerate(events)]
    return pa.Table.from_pylist(rows, replication_events.ARROW)
