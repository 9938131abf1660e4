"""Lines that two appenders write into two files: the stock log4j2.yaml merged with a snippet for the same loggers.

The stock files have INFO and above, without threads and numbers: state-change.log the terms, server.log the ISR
changes and cuts. Each is a source of its own; who reads server.log alone knows neither topic ids nor leader epochs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from generators.simulator.cluster.happening import REPLICATION, Happening
from generators.simulator.cluster.settings import Settings
from generators.simulator.telemetry.levels import INFO, telling

_OF_ONE_FILE = ("append", "replica_leo", "hw")
"""What `hwmark ingest logs` reads from one file of a broker only, the one that tells more."""
STATE_CHANGE, SERVER = "state-change", "server"
FILES = (STATE_CHANGE, SERVER)


class SecondFile:
    """The rows of a broker's stock files, beside those of its other one."""

    def __init__(self, settings: Settings) -> None:
        self._printed = telling(INFO, settings)

    def observe(self, happening: Happening) -> Iterator[Happening]:
        if happening.source == REPLICATION or happening.kind == "broker_state":
            yield from self._rows(self._printed.observe(happening))
        if happening.source == REPLICATION and happening.kind == "broker_state":
            yield happening._replace(source=SERVER, broker_epoch=None)

    def settle(self) -> Iterator[Happening]:
        yield from self._rows(self._printed.settle())

    def _rows(self, happenings: Iterable[Happening]) -> Iterator[Happening]:
        for h in happenings:
            if h.source == REPLICATION and h.kind not in _OF_ONE_FILE:
                yield _of_state_change(h) if _is_state_change(h) else _of_server(h)


def _is_state_change(h: Happening) -> bool:
    """What state.change.logger prints."""
    return h.kind in ("leader", "follower") or (h.kind == "isr" and h.detail == "metadata")


def _of_state_change(h: Happening) -> Happening:
    return h._replace(source=STATE_CHANGE, min_isr=None, lag_max_ms=None, log_start=None)


def _of_server(h: Happening) -> Happening:
    leads = h.leader == h.broker
    return h._replace(
        source=SERVER, topic_id=None, leader=h.leader if leads else None, leader_epoch=None,
        partition_epoch=h.partition_epoch if h.kind == "isr" else None, replicas=None, log_start=None,
    )  # fmt: skip
