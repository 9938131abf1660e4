"""hwmark beside the cluster, as its user runs it: `ingest logs --follow`, `run --interval`, and the alert rules."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

from pipelines.alerting.evaluate import evaluate
from pipelines.errors import UsageError
from pipelines.local_kafka.processes import end, start, wait_until
from schemas import deliveries, replication_events

ROOT = Path(__file__).parents[2]
CLUSTER = "real"
EVALUATED_EVERY_S = 2.0
ENDED_WITHIN_S = 120

# As shipped, but a replica out of sync and an offline partition wake somebody up after a second.
ALERT_RULES = """\
[out_of_sync]
for_s = 1
[offline]
for_s = 1
"""

Row = dict[str, Any]


class Beside:
    """One lake, the processes that fill it, and what can be read from it while they do."""

    def __init__(self, folder: Path, log_directories: list[Path]) -> None:
        self.lake, self.folder = folder / "lake", folder
        self._directories = log_directories
        self._rules = folder / "alerts.toml"
        self._rules.write_text(ALERT_RULES)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._stop = threading.Event()
        self._alerts = threading.Thread(target=self._evaluate, daemon=True)
        self.alert_errors: list[str] = []

    def ingest(self) -> None:
        """Begin to read the whole log directories, and go on."""
        self._start("ingest", "ingest", "logs", *map(str, self._directories), "--cluster", CLUSTER, "--follow")
        events = self.lake / replication_events.TABLE.path
        wait_until(lambda: self._lives("ingest") and DeltaTable.is_deltatable(str(events)), 120, "events in the lake")

    def run(self, interval: str = "5s", *, evaluate: bool = True) -> None:
        """Begin to reconstruct so often, and, with `evaluate`, to evaluate the alert rules every two seconds."""
        self._start("run", "run", "--interval", interval)
        if evaluate:
            self._alerts.start()

    def notify(self, config: Path) -> None:
        """Begin to evaluate the alert rules every second, and to send what fires to the channels of a configuration."""
        self._start("notify", "notify", "--every", "1s", "--config", str(config))
        wait_until(lambda: self._lives("notify") and self.rows(deliveries.TABLE.path), 120, "a channel in use")

    def stop(self) -> dict[str, int]:
        """End what goes on, ingest first; returns the exit statuses."""
        self._stop.set()
        if self._alerts.is_alive():
            self._alerts.join(30)
        return {name: end(process, ENDED_WITHIN_S) for name, process in self._processes.items()}

    def hwmark(self, *arguments: str) -> str:
        """What a command of hwmark's prints, also kept in a file. Raises RuntimeError when it fails."""
        done = subprocess.run(self._command(*arguments), capture_output=True, text=True, cwd=ROOT)
        with (self.folder / "hwmark.txt").open("a") as file:
            file.write(f"$ hwmark {' '.join(arguments)}\n{done.stdout}{done.stderr}(exit status {done.returncode})\n\n")
        if done.returncode:
            raise RuntimeError(f"hwmark {arguments[0]} failed: {(done.stdout + done.stderr)[-1000:]}")
        return done.stdout

    def rows(self, path: str) -> list[Row]:
        """Every row of a table as it is now; none where it was not written yet."""
        uri = str(self.lake / path)
        try:
            if not DeltaTable.is_deltatable(uri):
                return []
            found: Any = QueryBuilder().register("t", DeltaTable(uri)).execute("SELECT * FROM t").read_all()
        except DeltaError:
            return []
        columns = {name: found.column(name).to_pylist() for name in found.column_names}
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    def _start(self, name: str, *arguments: str) -> None:
        self._processes[name] = start(self._command(*arguments), self.folder / f"{name}.txt")

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "hwmark", *arguments, "--lake", str(self.lake)]

    def _lives(self, name: str) -> bool:
        status = self._processes[name].poll()
        if status is not None:
            raise RuntimeError(f"hwmark {name} ended with {status}: see {self.folder}/{name}.txt")
        return True

    def _evaluate(self) -> None:
        while not self._stop.wait(EVALUATED_EVERY_S):
            try:
                evaluate(str(self.lake), rules_file=self._rules)
            except (DeltaError, UsageError) as error:
                self.alert_errors.append(str(error))
