"""Ports for brokers that come back on them."""

from __future__ import annotations

import random
import socket
from pathlib import Path

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on, outside the range that outgoing connections draw from.

    From inside it a port could be taken while its broker is down.
    """
    first = int(RANGE.read_text().split()[0]) if RANGE.exists() else 32768
    low, high = (10_000, first) if first > 12_000 else (40_000, 60_000)
    found: list[int] = []
    for port in random.sample(range(low, high), high - low):
        if _free(port):
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"no {count} free ports from {low} to {high}")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
