"""Missing files make no loss a calm sentence: recordings with a loss, with what a user may lack taken away."""

from __future__ import annotations

import gzip
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from generators.brokerlogs.ingest import NothingToRead, ingest_logs, read_logs
from generators.brokerlogs.scanning.loggers import class_name
from generators.recordings import traces
from pipelines.lake.bronze import read_events
from pipelines.lake.lake import Lake, declared
from pipelines.lake.queries import Filter
from pipelines.replication import Reconstructor, Rules, replay
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


_STOCK = re.compile(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\] [A-Z]+ .*\(([\w.$]+)(?::\d+)?\)\s*$")
_NUMBERED = re.compile(rb"(\d{13})\|[^|]*\|[A-Z]+\|([^|]*)\|")
Kept = Callable[[int, str], bool]
"""Whether a line of this time (ms) and logger is left; lines without a header go with the one before."""


def _header(line: bytes) -> tuple[int, str] | None:
    if match := _NUMBERED.match(line):
        return int(match[1]), match[2].decode()
    if match := _STOCK.match(line):
        moment = datetime.fromisoformat(match[1].decode()).replace(tzinfo=UTC)
        return int(moment.timestamp()) * 1000 + int(match[2]), match[3].decode()
    return None


def _lines(file: Path) -> list[bytes]:
    data = file.read_bytes()
    return (gzip.decompress(data) if file.suffix == ".gz" else data).splitlines(keepends=True)


@cache
def _span(name: str) -> tuple[int, int]:
    """First and last time (ms) of a recording."""
    found = (_header(line) for file in _logs(name) for line in _lines(_recording(name) / file))
    times = [header[0] for header in found if header]
    return min(times), max(times)


def _cut(file: Path, into: Path, keep: Kept) -> None:
    """Write those lines of a file that are kept."""
    stays, kept = True, list[bytes]()
    for line in _lines(file):
        if header := _header(line):
            stays = keep(*header)
        kept += [line] if stays else []
    data = b"".join(kept)
    into.write_bytes(gzip.compress(data, 1) if file.suffix == ".gz" else data)


@cache
def _lost_at(name: str) -> float:
    """When (ms) a recording begins to lose something."""
    regressions = replay(read_logs([_recording(name)], "c"), Rules()).hw_regressions.to_pylist()
    return min(row["ts"].timestamp() * 1000 for row in regressions if row["severity"] == "critical")


LOGGERS = (
    "Partition",
    "state.change.logger",
    "ReplicaFetcherThread",
    "UnifiedLog",
    "Log",
    "LogManager",
    "ReplicaManager",
    "AppInfoParser",
    "KafkaServer",
    "BrokerServer",
    "BrokerLifecycleManager",
    "QuorumController",
    "ReplicationControlManager",
    "ClusterControlManager",
    "KafkaController",
    "BrokerHeartbeatManager",
    "ConfigurationControlManager",
    "DefaultAlterPartitionManager",
    "KafkaZkClient",
)
"""Loggers that carry evidence, or say who lives."""


class Thinning(NamedTuple):
    """What is taken away of the lines: of a logger, or before or after a part of the time, of a broker or of all."""

    name: str
    how: str
    of: str
    logger: str = ""
    part: float = 0.0

    def moment(self) -> float:
        """The part of the time as a moment (ms)."""
        begin, end = _span(self.name)
        return begin + self.part * (end - begin)

    def keep(self) -> Kept:
        """Which lines are left."""
        at = self.moment() if self.part else 0.0
        kept: dict[str, Kept] = {
            "without": lambda _, logger: class_name(logger) != self.logger,
            "only": lambda _, logger: class_name(logger) == self.logger,
            "until": lambda ts, _: ts < at,
            "from": lambda ts, _: ts >= at,
        }
        return kept[self.how]

    def __str__(self) -> str:
        return " ".join(map(str, filter(None, self)))


def thinnings(name: str) -> Iterator[Thinning]:
    """All that is taken away of the lines of a recording."""
    for logger, how in product(LOGGERS, ("without", "only")):
        yield Thinning(name, how, "", logger)
    for part, of, how in product((0.25, 0.5, 0.75), ["", *dict.fromkeys(map(_broker, _logs(name)))], ("until", "from")):
        yield Thinning(name, how, of, "", part)


def subsets(name: str) -> Iterator[tuple[str, list[Path]]]:
    """What is taken away of the files, in words, and the logs that are left."""
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


def states(name: str, logs: list[Path], folder: Path, keep: Kept | None = None, of: str = "") -> set[State]:
    """What the verdict says of the history that these logs tell; nothing where nothing of them is understood."""
    for file in [*logs, *(f.relative_to(_recording(name)) for n in BESIDE for f in _recording(name).rglob(n))]:
        (folder / "logs" / file).parent.mkdir(parents=True, exist_ok=True)
        cut = partial(_cut, keep=keep) if keep and file.name not in BESIDE and _broker(file).startswith(of) else None
        (cut or shutil.copyfile)(_recording(name) / file, folder / "logs" / file)
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


THINNED = [one for name in (*UNPACKED, *PACKED) for one in thinnings(name)]
CASES = [(name, what, logs) for name in (*UNPACKED, *PACKED) for what, logs in subsets(name)]


@pytest.mark.parametrize("name", [*UNPACKED, *PACKED])
@pytest.mark.sampled(2)
def test_with_all_of_its_logs_the_loss_is_told(name: str, tmp_path: Path) -> None:
    assert State.LOST in states(name, _logs(name), tmp_path)


@pytest.mark.sampled(48)
@pytest.mark.parametrize(("name", "logs"), [(n, logs) for n, _, logs in CASES], ids=[f"{n}: {w}" for n, w, _ in CASES])
def test_no_loss_is_calm_where_logs_are_missing(name: str, logs: list[Path], tmp_path: Path) -> None:
    assert State.OK not in states(name, logs, tmp_path)


@pytest.mark.sampled(80)
@pytest.mark.parametrize("taken", THINNED, ids=str)
def test_no_loss_is_calm_where_lines_are_missing(taken: Thinning, tmp_path: Path) -> None:
    """Logs that all end before the loss, or begin after it, are calm of their time."""
    found = states(taken.name, _logs(taken.name), tmp_path, taken.keep(), taken.of)
    if State.OK in found:
        before = taken.moment() < _lost_at(taken.name)
        assert taken.part
        assert not taken.of
        assert taken.how == ("until" if before else "from")
