"""Sinks of the telemetry of a simulated cluster: a lake's bronze, or nowhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from generators.simulator.cluster.settings import NEVER, SECOND
from generators.simulator.telemetry.rows import Drained, Telemetry
from generators.simulator.telemetry.tiles import Tiles
from pipelines.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from generators.simulator.cluster.simulation import RestingFetches, Simulation
    from pipelines.commands.simulate.plan import Plan


ROWS, SPAN = 1 << 20, 6 * SECOND
"""A commit of tiles has at least so many rows, or so long a time."""


class Sink(Protocol):
    """Gets a cluster before it starts, is flushed every so often, and closed at the end."""

    def begin(self, simulation: Simulation, level: int) -> RestingFetches | None:
        """None where every fetch is wanted, one by one."""
        ...

    def flush(self) -> None: ...
    def close(self) -> None: ...

    @property
    def summary(self) -> str:
        """A summary of the written files, as text."""
        ...


class Nowhere:
    """Discards telemetry."""

    summary = "no telemetry"

    def begin(self, simulation: Simulation, level: int) -> RestingFetches | None:
        return None

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


class BronzeSink:
    """Bronze of a lake, one version of this cluster's writer for each piece. Raises UsageError where it has any yet."""

    def __init__(
        self,
        lake: str,
        cluster: str,
        storage_options: Mapping[str, str] | None = None,
        fetch_every_ms: int = 0,
        second_file: bool = False,
        tiles: Tiles | None = None,
    ) -> None:
        self._fetch_every_ms = fetch_every_ms
        self._second_file = second_file
        self._tiles = tiles
        self._small: list[pa.Table] = []
        """Tables of tiles, each too small for a commit of its own."""
        self._committed = 0
        self._lake, self._options = lake, storage_options
        self._writer = new_writer(lake, cluster, storage_options)
        self._version = self._events = 0
        self._sources: set[str] = set()

    def begin(self, simulation: Simulation, level: int) -> RestingFetches | None:
        self._telemetry = Telemetry(
            simulation.settings, level, self._fetch_every_ms,
            second_file=self._second_file, learned_hws=self._tiles is None,
        )  # fmt: skip
        simulation.attach(self._telemetry)
        self._simulation, self._committed = simulation, simulation.event_queue.now
        return self._telemetry.observe if self._fetch_every_ms else None

    def flush(self) -> None:
        for events in self._made(self._telemetry.drain_timed(), self._simulation.event_queue.now):
            self._write(events)

    def close(self) -> None:
        for events in self._made(self._telemetry.close_timed(), NEVER):
            self._write(events)

    @property
    def summary(self) -> str:
        return f"{self._events:,} events of {len(self._sources)} sources"

    def _made(self, drained: Drained, until: int) -> Iterable[pa.Table]:
        """Commits of what was drained."""
        if self._tiles is None:
            yield drained.rows
            return
        import pyarrow as pa

        for copies in self._tiles.copies(drained, until):
            self._small.append(copies)
            if sum(map(len, self._small)) >= ROWS:
                yield pa.concat_tables(self._small)
                self._small, self._committed = [], until
        if self._small and until - self._committed >= SPAN:
            yield pa.concat_tables(self._small)
            self._small, self._committed = [], until

    def _write(self, events: pa.Table) -> None:
        from pipelines.lake.bronze import append_events

        if len(events):
            append_events(self._lake, events, app_id=self._writer, version=self._version, storage_options=self._options)
            self._version += 1
            self._events += len(events)
            self._sources.update(events["source_id"].unique().to_pylist())


def bronze_sink(plan: Plan, lake: str, storage_options: Mapping[str, str] | None = None) -> BronzeSink:
    """A sink for the telemetry of a plan. Raises UsageError where the lake has a simulated cluster of that name."""
    settings = plan.settings
    tiles = Tiles(plan.tiles, plan.sizes, plan.alike, settings.seed) if plan.tiles > 1 else None
    return BronzeSink(lake, settings.cluster, storage_options, plan.fetch_every_ms, plan.second_file, tiles)


def new_writer(lake: str, cluster: str, storage_options: Mapping[str, str] | None = None) -> str:
    """The name under which a simulated cluster is written to a lake, once. Raises UsageError the second time."""
    from pipelines.lake.bronze import committed

    writer = f"simulate/{cluster}"
    if committed(lake, [writer], storage_options)[writer] is not None:
        raise UsageError(f"lake {lake} has events of a simulated cluster {cluster}: name another --cluster")
    return writer
