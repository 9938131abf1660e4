"""A lake that lives through weeks in minutes: `python -m tests.months.campaign [--days 28]`.

Each simulated day some of a steady cluster's events come, the job reads them, `maintain` keeps a week, and `check`,
`notify`, `show` and the page look; days lie across the end of winter time, in a process whose zone and locale are not
UTC and C. Each line has what it took. In the end: tables are those of `replay` as far as they are kept, and files, the
log, descriptors and threads are no more than in the first week in which transaction logs are cleaned.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from typer.testing import CliRunner

from pipelines.commands import clock
from pipelines.commands.maintain.command import maintain
from pipelines.lake.bronze import append_events
from pipelines.lake.lake import Lake
from pipelines.replication import Facts, Reconstructor, Rules
from pipelines.streaming.job import run
from pipelines.streaming.options import RunOptions
from pipelines.streaming.session import session
from tests.bench.load import rounds
from tests.bench.processes import cpu_seconds, memory_bytes
from tests.streaming.shell import same_rows
from tests.unit.notify.receivers import receiver
from tests.web.serving import served

BEGINS = datetime(2026, 3, 8, tzinfo=UTC)
"""Three weeks before clocks in Berlin go forward."""
KEPT_DAYS, PARTITIONS, SECONDS = 7, 24, 300
LOG_DAYS = 30
"""So long Delta keeps the entries of a transaction log, by the times of their files."""
JVM = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -Duser.timezone=Europe/Berlin -Duser.language=tr"}
COMPARED = ("partition_hw", "isr_changes", "replica_sync", "hw_regressions")
COLUMNS = ("events", "run s", "maintain s", "look s", "cpu s", "files", "log", "fds", "threads", "MB")
HOST = {"TZ": "Asia/Kolkata", "LC_ALL": "C", "PYTHONWARNINGS": "ignore"}


def lived(lake: Path, days: int) -> list[dict[str, float]]:
    """What each day took. Raises AssertionError where what is kept is not what `replay` says."""
    cuts = [f"{SECONDS * day + 20}s cut 1-2 for 8s" for day in range(days)]
    stream = rounds(PARTITIONS, SECONDS * days, step=SECONDS, faults=cuts, start_us=int(BEGINS.timestamp() * 1e6))
    machine, facts, took = Reconstructor(), [], []
    clock_now = clock.now
    try:
        for day, events in enumerate(stream):
            now = BEGINS + timedelta(days=day + 1)
            clock.now = lambda at=now: at  # type: ignore[misc]
            events = _on_day(events, day)
            facts = [*facts[-KEPT_DAYS - 2 :], machine.update(events)]
            append_events(str(lake), events, app_id="months", version=day)
            took.append(_day(lake, len(events), now))
            print(day, *(f"{took[-1][name]:g}" for name in COLUMNS), sep="\t", flush=True)
            _age(lake)
            if day and day % KEPT_DAYS == 0:
                _compare(lake, Facts.concat(facts), now - timedelta(days=KEPT_DAYS))
                _seen_alike(lake)
                _restored(lake)
    finally:
        clock.now = clock_now
    return took


def _age(lake: Path) -> None:
    """A day passes for the files of the transaction logs."""
    for path in lake.glob("*/*/_delta_log/*"):
        if path.is_file():
            at = path.stat().st_mtime - 86_400
            os.utime(path, (at, at))


def _on_day(events: pa.Table, day: int) -> pa.Table:
    """The events of one stretch of the stream as those of a day of its own."""
    later = (86_400 - SECONDS) * day * 1_000_000
    ts = pa.array(events["ts"].cast(pa.int64()).to_numpy() + later).cast(events.schema.field("ts").type)
    return events.set_column(events.column_names.index("ts"), events.schema.field("ts"), ts)


def _day(lake: Path, events: int, now: datetime) -> dict[str, float]:
    place, before = Lake(str(lake), {}), cpu_seconds(os.getpid()) or 0.0
    ran = _seconds(lambda: _run(lake))
    kept = _seconds(
        lambda: list(
            maintain(
                str(lake), vacuum_hours=0, bronze_days=KEPT_DAYS, silver_days=KEPT_DAYS, lag_days=KEPT_DAYS, now=now
            )
        )
    )
    looked = _seconds(lambda: _look(lake, now))
    paths = [path for path in lake.rglob("*") if path.is_file()]
    minutes = place.rows("cluster_minute").to_table()
    assert pc.unique(minutes["partitions"]).to_pylist() == [PARTITIONS], "a gauge of the steady cluster"
    assert pc.min(minutes["minute"]).as_py() >= now - timedelta(days=KEPT_DAYS + 1)
    own = Path("/proc/self")
    return dict(
        zip(
            COLUMNS,
            (
                events, ran, kept, looked, round((cpu_seconds(os.getpid()) or 0.0) - before, 1),
                sum(path.suffix == ".parquet" for path in paths), sum(path.suffix == ".json" for path in paths),
                len(list((own / "fd").iterdir())), threading.active_count(),
                round((memory_bytes(os.getpid()) or 0) / 1e6),
            ),
            strict=True,
        )
    )  # fmt: skip


def _run(lake: Path) -> None:
    run(str(lake), Rules(), RunOptions(once=True, gold_retention_s=1, log_retention_s=1))


def _look(lake: Path, now: datetime) -> None:
    with receiver() as there:
        config = lake.with_name("notify.toml")
        config.write_text(f'[notify.alertmanagers]\nam = {{ url = "{there.url}" }}\n')
        for words in (["check"], ["notify", "--once", "--config", str(config)]):
            done = CliRunner().invoke(_app(), [*words, "--lake", str(lake)])
            assert done.exit_code == 0, done.output
        assert there.requests
    with served(str(lake), now=lambda: now) as url:
        assert urllib.request.urlopen(url).status == 200


def _app() -> Any:
    from pipelines.cli import app

    return app


def _compare(lake: Path, expected: Facts, since: datetime) -> None:
    """What is kept is what `replay` says of it, and all that it says of the days that are kept."""
    for kind in COMPARED:
        got, want = (
            rows.filter(pc.greater_equal(rows["ts"], pa.scalar(since, rows.schema.field("ts").type)))
            for rows in (Lake(str(lake), {}).rows(kind).to_table(), getattr(expected, kind))
        )
        assert same_rows(got) == same_rows(want), kind
    assert len(expected.partition_hw)


def _seen_alike(lake: Path) -> None:
    """Another host, in another zone, reads the same."""
    words = [str(Path(sys.executable).with_name("hwmark")), "show", "hw", "--lake", str(lake), "--format", "json"]
    here = CliRunner().invoke(_app(), words[1:]).output
    there = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **HOST}, check=True).stdout
    assert here == there


def _restored(lake: Path) -> None:
    """A copy of the lake goes on at another place, and has the same tables."""
    with tempfile.TemporaryDirectory(prefix="hwmark-copy-") as folder:
        copy = Path(folder, "lake")
        shutil.copytree(lake, copy)
        _run(copy)
        for kind in COMPARED:
            both = [Lake(str(place), {}).rows(kind).to_table() for place in (lake, copy)]
            assert same_rows(both[0]) == same_rows(both[1]), kind


def _seconds(do: Callable[[], object]) -> float:
    begun = time.monotonic()
    do()
    return round(time.monotonic() - begun, 2)


def grown(took: list[dict[str, float]]) -> list[str]:
    """Return a line for each count that is larger in the last week than in the first one in which logs are cleaned."""
    if len(took) < LOG_DAYS + 2 * KEPT_DAYS:
        return []
    early, late = took[LOG_DAYS : LOG_DAYS + KEPT_DAYS], took[-KEPT_DAYS:]
    most = {
        name: [max(day[name] for day in days) for days in (early, late)] for name in ("files", "log", "fds", "threads")
    }
    return [f"{name}: {first:g}, then {last:g}" for name, (first, last) in most.items() if last > 1.1 * first + 2]


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--days", type=int, default=56)
    days = asked.parse_args().days
    os.environ["TZ"] = "Europe/Berlin"
    time.tzset()
    logging.disable(logging.WARNING)  # streams of commands that are over are closed
    with tempfile.TemporaryDirectory(prefix="hwmark-months-") as folder:
        spark = session(conf=JVM)
        print("day", *COLUMNS, sep="\t")
        found = grown(lived(Path(folder, "lake"), days))
        spark.stop()
    print("\n".join(found) or f"{days} days: nothing grows")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
