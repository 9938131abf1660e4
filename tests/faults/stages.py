"""The life of a small lake in commands: before each a copy is kept, on which that command can fail."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from generators.recordings import traces

TRACE = traces.path("unclean_election")
OLD = datetime(2026, 6, 1, tzinfo=UTC)
"""After the simulated cluster's rows and before the recorded one's: what retention removes is known."""
HANGS_S = 600.0


@dataclass(frozen=True)
class Stage:
    """One command on the lake, and those by which it goes on, whether this one was done or not.

    They have LAKE and LOGS in their words. What comes later finds out whether what was left behind is of use.
    """

    name: str
    words: tuple[str, ...]
    on: tuple[tuple[str, ...], ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    dispensable: bool = False
    """No later stage needs it."""


def _ingest(part: str) -> tuple[str, ...]:
    return "ingest", "logs", *(f"LOGS/{part}/broker-{n}" for n in (1, 2, 3)), "--cluster", "c", "--lake", "LAKE"


def _upkeep() -> dict[str, str]:
    days = str(max((datetime.now(UTC) - OLD).days, 1))
    return {"VACUUM_HOURS": "0", "BRONZE_DAYS": days, "SILVER_DAYS": days}


RUN = ("run", "--once", "--lake", "LAKE")
SIMULATE = (
    *("simulate", "--cluster", "old", "--brokers", "2", "--topics", "clicks:2x2", "--duration", "10s"),
    *("--lake", "LAKE"),
)
CHECK, MAINTAIN = ("check", "--lake", "LAKE"), ("maintain", "--lake", "LAKE")
STAGES = (
    Stage("first ingest", _ingest("one"), (_ingest("one"), _ingest("two"))),
    Stage("simulate", SIMULATE, ()),
    Stage("first run", RUN, ((*RUN, "--drain"),)),
    Stage("second ingest", _ingest("two"), (_ingest("two"),)),
    Stage("second run", RUN, ((*RUN, "--drain"),)),
    Stage("check", CHECK, (CHECK,), dispensable=True),
    Stage("maintain", MAINTAIN, (MAINTAIN,), {f"HWMARK_MAINTAIN__{name}": days for name, days in _upkeep().items()}),
)
INJECTED = tuple(stage for stage in STAGES if stage.name != "simulate")


def write_logs(folder: Path) -> None:
    """`one`: what the brokers had logged by the middle of the recorded time; `two`: all of it."""
    texts = {path: gzip.decompress(path.read_bytes()).splitlines(keepends=True) for path in TRACE.rglob("*.log.gz")}
    times = [at for lines in texts.values() if (at := _time(lines[0])) is not None]
    ends = [at for lines in texts.values() for line in lines[-1:] if (at := _time(line)) is not None]
    middle = (min(times) + max(ends)) // 2
    for path, lines in texts.items():
        cut = next((k for k, line in enumerate(lines) if (_time(line) or 0) > middle), len(lines))
        for part, kept in (("one", lines[:cut]), ("two", lines)):
            target = folder / part / path.parent.name
            target.mkdir(parents=True, exist_ok=True)
            (target / path.stem).write_bytes(b"".join(kept))
            (target / "server.properties").write_bytes((path.parent / "server.properties").read_bytes())


def _time(line: bytes) -> int | None:
    first = line.partition(b"|")[0]
    return int(first) if first.isdigit() else None


def copy(lake: Path, target: Path) -> None:
    """A lake with all that is in it at another place. Spark's state names its own schema by an absolute path."""
    if not lake.exists():
        return
    subprocess.run(["cp", "-r", "--reflink=auto", lake, target], check=True)
    for found in target.glob("_run/*/state/*/_metadata/*/*"):
        if (content := found.read_bytes()).count(str(lake).encode()):
            found.write_bytes(content.replace(str(lake).encode(), str(target).encode()))
            found.with_name(f".{found.name}.crc").unlink(missing_ok=True)


@dataclass(frozen=True)
class Ended:
    """How a command came out: its status (negative: a signal), None where it had to be stopped, and what it said."""

    status: int | None
    said: str


def command(
    words: Sequence[str], lake: Path, logs: Path, log: Path, environment: Mapping[str, str], limit: float = HANGS_S
) -> Ended:
    """Runs `hwmark` with these words; what it writes to stderr goes to `log`."""
    named = [word.replace("LAKE", str(lake)).replace("LOGS", str(logs)) for word in words]
    call = [sys.executable, "-m", "hwmark", *named]
    with log.open("wb") as said:
        running = subprocess.Popen(
            call, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said, env=os.environ | environment
        )
        try:
            status: int | None = running.wait(limit)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
            status = None
    return Ended(status, log.read_text(errors="replace"))
