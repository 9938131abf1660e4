"""The events of a benchmark: leaders' rows of a simulated load, as tiles of many partitions, in a lake of its own."""

from dataclasses import dataclass, replace

import pyarrow as pa

from generators.simulator.clients.load import Driver
from generators.simulator.cluster.settings import NEVER, START
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.cluster.simulation_event import REPLICATION
from generators.simulator.faults.injection import Injection
from generators.simulator.telemetry.rows import Telemetry
from generators.simulator.telemetry.tiles import Tiles
from pipelines.commands.simulate.plan import plan, tiled
from pipelines.lake.bronze import append_events
from pipelines.replication.rules import Rules
from pipelines.settings import Simulate

TILE = 120
BROKERS, PARTITIONS, RECORDS, PER_APPEND = 12, 10_000, 10, 3
DENSE, SPARSE = 1, 7
"""Appends of a partition in a second: an HW per 3 events, or per 21, at a resolution of one second."""
LAG_MAX_MS = 6_000
LEAST_SECONDS = 14
"""So long that a follower falls out of sync and comes back."""
QUIET_S = 6
"""At the end of a load: the job judges nothing of which it waits for others."""
CUT = ("2s cut 1-2 for 8s",)
ROWS_OF_A_COMMIT = 2_000_000
RULES = Rules(hw_resolution_ms=1000, lag_max_ms=LAG_MAX_MS)
KINDS = {"leader", "append", "fetch", "isr_proposed", "isr"}


@dataclass(frozen=True)
class Load:
    lake: str
    events: int
    partitions: int
    seconds: int


class LeadersTelemetry(Telemetry):
    """Telemetry without what followers and controllers report, and without HWs."""

    def observe(self, event):
        if event.source == REPLICATION and event.kind in KINDS and event.broker == event.leader:
            super().observe(event)


def rounds(partitions, seconds, *, step=10, appends=DENSE, brokers=BROKERS, seed=1, faults=CUT, start_us=START):
    """Yields tables of events, `step` seconds each; in each second every partition gets `appends` appends, of which
    each of two followers fetches. At the end nobody appends any more, and all sources report their progress."""
    load = f"steady:{partitions * RECORDS * appends},tick={1000 // appends}ms"
    asked = Simulate(
        cluster="bench", seed=seed, brokers=brokers, partitions=partitions, duration=seconds, load=[load],
        fault=list(faults), lag_max_ms=LAG_MAX_MS,
    )  # fmt: skip
    planned = tiled(plan(asked), TILE)
    settings = replace(planned.settings, start=start_us)
    simulation, telemetry = Simulation(settings), LeadersTelemetry(settings, fetch_every_ms=LAG_MAX_MS // 3)
    simulation.attach(telemetry)
    simulation.rest = telemetry.observe
    simulation.start()
    Injection(simulation, planned.faults)
    Driver(simulation, planned.loads, seconds, seed)
    tiles = Tiles(planned.tiles, planned.sizes, planned.alike, seed, offsets=1)
    for first in range(0, seconds, step):
        simulation.run(min(step, seconds - first))
        tables = list(tiles.copies(telemetry.drain_timed(), simulation.event_queue.now))
        if first + step >= seconds:
            simulation.run(QUIET_S)
            tables += tiles.copies(telemetry.close_timed(), NEVER)
        yield pa.concat_tables(tables)


def write(lake, events, partitions=None, appends=DENSE):
    """Writes about so many events into a new lake; without `partitions` of PARTITIONS, or fewer if `events` are few."""
    per_second = PER_APPEND * appends
    chosen = partitions or max(1, min(PARTITIONS, events // (per_second * LEAST_SECONDS)))
    seconds = max(-(-events // (per_second * chosen)), LEAST_SECONDS)
    made = 0
    step = max(1, ROWS_OF_A_COMMIT // (per_second * chosen))
    for version, table in enumerate(rounds(chosen, seconds, appends=appends, step=step)):
        append_events(lake, table, app_id="bench", version=version)
        made += len(table)
    return Load(lake, made, chosen, seconds)
