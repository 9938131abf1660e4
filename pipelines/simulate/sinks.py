"""Where the telemetry of a simulated cluster goes: a lake's bronze, Kafka's own log files, or nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from generators.simulator.kafka_logs import KafkaLogs
from generators.simulator.telemetry import Telemetry
from pipelines.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from generators.simulator.simulation import Simulation


class Sink(Protocol):
    """Told of a cluster before it starts, then every so often, and at the end."""

    def begin(self, simulation: Simulation, level: int) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...

    @property
    def told(self) -> str:
        """What has gone there so far, in words."""
        ...


class Nowhere:
    """Telemetry that nobody wants."""

    told = "no telemetry"

    def begin(self, simulation: Simulation, level: int) -> None:
        pass

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


class Lake:
    """Bronze of a lake, one version of this cluster's writer for each flush. Raises UsageError where it has any yet."""

    def __init__(self, lake: str, cluster: str, storage_options: Mapping[str, str] | None = None) -> None:
        self._lake, self._options = lake, storage_options
        self._writer = new_writer(lake, cluster, storage_options)
        self._version = self.events = 0
        self._sources: set[str] = set()

    def begin(self, simulation: Simulation, level: int) -> None:
        self._telemetry = Telemetry(simulation.settings, level)
        simulation.observers.append(self._telemetry)
        self._telemetry.follow(simulation)

    def flush(self) -> None:
        self._write(self._telemetry.drain())

    def close(self) -> None:
        self._write(self._telemetry.close())

    @property
    def told(self) -> str:
        return f"{self.events:,} events of {len(self._sources)} sources"

    def _write(self, events: pa.Table) -> None:
        from generators.lake import append_events

        if len(events):
            append_events(self._lake, events, app_id=self._writer, version=self._version, storage_options=self._options)
            self._version += 1
            self.events += len(events)
            self._sources.update(events["source_id"].unique().to_pylist())


def new_writer(lake: str, cluster: str, storage_options: Mapping[str, str] | None = None) -> str:
    """The name under which a simulated cluster is written to a lake, once. Raises UsageError the second time."""
    from generators.lake import committed

    writer = f"simulate/{cluster}"
    if committed(lake, [writer], storage_options)[writer] is not None:
        raise UsageError(f"lake {lake} has events of a simulated cluster {cluster}: name another --cluster")
    return writer


class LogFiles:
    """The log files of Kafka's brokers below a new folder. Raises UsageError where it has something in it."""

    def __init__(self, folder: Path) -> None:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"--out {folder} has something in it already: name a new folder")
        self._folder = folder

    def begin(self, simulation: Simulation, level: int) -> None:
        self._logs = KafkaLogs(simulation.settings, self._folder, level)
        simulation.observers.append(self._logs)
        self._logs.follow(simulation)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self._logs.close()

    @property
    def told(self) -> str:
        files = sorted(self._folder.glob("*/*.log"))
        lines = sum(sum(1 for _ in file.open("rb")) for file in files)
        return f"{lines:,} lines in {len(files)} log files below {self._folder}"
