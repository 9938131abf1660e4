"""Simulation events for tests, in milliseconds, of brokers of one partition."""

from __future__ import annotations

from typing import Any

from generators.simulator.cluster.settings import MS, START
from generators.simulator.cluster.simulation_event import CONTROLLER, REPLICATION, SimulationEvent

ORDERS: dict[str, Any] = {"topic": "orders", "topic_id": "AAAAAAAAAAAAAAAAAAAAAA", "partition": 0}


def event(ms: float, kind: str, broker: int = 1, source: str = REPLICATION, **more: Any) -> SimulationEvent:
    """One of `orders-0`, unless `more` names another place; `skew` (ms) puts the broker's clock wrong."""
    at = START + round(ms * MS)
    skew = more.pop("skew", 0)
    return SimulationEvent(at, at + skew * MS, broker, source, kind, **{**ORDERS, **more})


def wide(ms: float, kind: str, broker: int = 1, source: str = CONTROLLER, **more: Any) -> SimulationEvent:
    return event(ms, kind, broker, source, topic=None, topic_id=None, partition=-1, **more)


def leader(
    ms: float, epoch: int = 0, leo: int = 0, hw: int = 0, isr: tuple[int, ...] = (1, 2, 3), **more: Any
) -> SimulationEvent:
    fields = {"leader": 1, "partition_epoch": epoch, "replicas": (1, 2, 3), "min_isr": 1, "leader_leo": leo} | more
    return event(ms, "leader", leader_epoch=epoch, leo=leo, hw=hw, isr=isr, **fields)


def append(ms: float, leo: int) -> SimulationEvent:
    return event(ms, "append", leader=1, leader_epoch=0, partition_epoch=0, leader_leo=leo)


def fetch(ms: float, replica: int, leo: int, leader_leo: int) -> SimulationEvent:
    return event(
        ms, "fetch", leader=1, leader_epoch=0, partition_epoch=0, replica=replica, leo=leo, leader_leo=leader_leo
    )


def hw(ms: float, value: int) -> SimulationEvent:
    return event(ms, "hw", leader=1, leader_epoch=0, partition_epoch=0, replica=1, hw=value)
