"""Lines that two appenders write into two files: the stock log4j2.yaml merged with a snippet for the same loggers.

The stock files have INFO and above, without threads and numbers: state-change.log the terms, server.log the ISR changes
and truncations. Each is a source of its own; server.log alone has neither topic ids nor leader epochs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from generators.simulator.cluster.settings import Settings
from generators.simulator.cluster.simulation_event import REPLICATION, SimulationEvent
from generators.simulator.telemetry.levels import INFO, level_filter

_OF_ONE_FILE = ("append", "replica_leo", "hw")
"""Events that `hwmark ingest logs` reads from one file of a broker only, the more detailed one."""
STATE_CHANGE, SERVER = "state-change", "server"
FILES = (STATE_CHANGE, SERVER)


class SecondFile:
    """The events of a broker's stock files, in addition to those of its other one."""

    def __init__(self, settings: Settings) -> None:
        self._printed = level_filter(INFO, settings)

    def observe(self, event: SimulationEvent) -> Iterator[SimulationEvent]:
        if event.source == REPLICATION or event.kind == "broker_state":
            yield from self._rows(self._printed.observe(event))
        if event.source == REPLICATION and event.kind == "broker_state":
            yield event._replace(source=SERVER, broker_epoch=None)

    def settle(self) -> Iterator[SimulationEvent]:
        yield from self._rows(self._printed.settle())

    def _rows(self, events: Iterable[SimulationEvent]) -> Iterator[SimulationEvent]:
        for event in events:
            if event.source != REPLICATION or event.kind in _OF_ONE_FILE:
                continue
            if event.kind in ("leader", "follower") or (event.kind == "isr" and event.detail == "metadata"):
                yield event._replace(source=STATE_CHANGE, min_isr=None, lag_max_ms=None, log_start=None)
                continue
            yield event._replace(
                source=SERVER, topic_id=None, leader=event.leader if event.leader == event.broker else None,
                leader_epoch=None, partition_epoch=event.partition_epoch if event.kind == "isr" else None,
                replicas=None, log_start=None,
            )  # fmt: skip
