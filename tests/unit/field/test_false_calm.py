"""Missing files make no loss a calm sentence: recordings with a loss, with what a user may lack taken away."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path

import pytest

from generators.brokerlogs.ingest import NothingToRead, ingest_logs
from generators.recordings import traces
from pipelines.lake.bronze import read_events
from pipelines.lake.lake import Lake, declared
from pipelines.lake.queries import Filter
from pipelines.replication import Reconstructor, Rules
from pipelines.verdict import Limits, State, verdict
from pipelines.verdict.collect import survey
from tests.unit.field.cases import HERE, unpack
from tests.unit.project.lakes import job_has_read

pytestmark = pytest.mark.long

RECORDINGS = HERE.parents[1] / "kafka" / "recordings"
PACKED = ("01-stock41", "30-zk282", "31-zk362")
UNPACKED = {
    "unclean_election": traces.path("unclean_election"),
    **{name: RECORDINGS / name for name in ("lean_live", "stock39_lean", "unclean_election_44")},
}
LIMITS = Limits(stale_after_s=1e9, behind_after_s=1e9, since=timedelta(days=3650))
BESIDE = ("server.properties", "meta.properties")


@cache
def _recording(name: str) -> Path:
    return UNPACKED[name] if name in UNPACKED else unpack(name, Path(tempfile.mkdtemp()))


def _logs(name: str) -> list[Path]:
    """The logs of a recording, by their place in it."""
    root = _recording(name)
    found = (file.relative_to(root) for file in sorted(root.rglob("*")) if file.is_file())
    return [file for file in found if file.name not in BESIDE and file.suffix not in (".jsonl", ".json", ".md")]


def _broker(file: Path) -> str:
    return file.parts[0]


def _kind(file: Path) -> str:
    return file.name.removesuffix(".gz")


def subsets(name: str) -> Iterator[tuple[str, list[Path]]]:
    """What is taken away, in words, and the logs that are left."""
    logs = _logs(name)
    brokers, kinds = ({part(file): None for file in logs} for part in (_broker, _kind))
    for broker in brokers:
        yield f"without {broker}", [file for file in logs if _broker(file) != broker]
        yield f"only {broker}", [file for file in logs if _broker(file) == broker]
    for kind in kinds:
        yield f"without {kind}", [file for file in logs if _kind(file) != kind]
        yield f"only {kind}", [file for file in logs if _kind(file) == kind]
    for file in logs:
        yield f"without {file}", [other for other in logs if other != file]
    for broker in brokers:
        for kind in kinds:
            yield f"without {broker} and {kind}", [f for f in logs if _broker(f) != broker and _kind(f) != kind]


def states(name: str, logs: list[Path], folder: Path) -> set[State]:
    """What the verdict says of the history that these logs tell; nothing where nothing of them is understood."""
    for file in [*logs, *(f.relative_to(_recording(name)) for n in BESIDE for f in _recording(name).rglob(n))]:
        (folder / "logs" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_recording(name) / file, folder / "logs" / file)
    lake = Lake(str(folder / "lake"))
    try:
        ingest_logs([folder / "logs"], cluster="c", lake=lake.root)
        events = read_events(lake.root)
    except NothingToRead:
        return set()
    if not events.num_rows:
        return set()
    reconstructor = Reconstructor(Rules())
    for facts in (reconstructor.update(events), reconstructor.finish()):
        for table, rows in facts.tables().items():
            lake.append(table, rows.select(declared(table).arrow().names))
    present = reconstructor.present()
    for table in ("partition_health", "brokers"):
        lake.append(table, getattr(present, table).select(declared(table).arrow().names))
    job_has_read(lake.root)
    now = max(events["ts"].to_pylist()) + timedelta(seconds=1)
    records = survey(lake, Filter(), LIMITS.since, LIMITS, now).records
    return {line.state for one in records for line in verdict(one, LIMITS, now).lines if line.part == "history"}


CASES = [(name, what, logs) for name in (*UNPACKED, *PACKED) for what, logs in subsets(name)]


@pytest.mark.parametrize("name", [*UNPACKED, *PACKED])
def test_with_all_of_its_logs_the_loss_is_told(name: str, tmp_path: Path) -> None:
    assert State.LOST in states(name, _logs(name), tmp_path)


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("name", "logs"), [(n, logs) for n, _, logs in CASES], ids=[f"{n}: {w}" for n, w, _ in CASES])
def test_no_loss_is_calm_where_logs_are_missing(name: str, logs: list[Path], tmp_path: Path) -> None:
    assert State.OK not in states(name, logs, tmp_path)
