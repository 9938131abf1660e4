"""The faults that a watcher and the brokers' logs are both asked about: those of `hwmark try`, and calm ones."""

from __future__ import annotations

import time

from pipelines.commands.try_kafka.faults import FAULTS as TRIED
from pipelines.commands.try_kafka.faults import LAG_MS, SETTINGS, Fault, Say, Topic
from pipelines.local_kafka.cluster import BROKERS, Cluster
from pipelines.local_kafka.processes import wait_until

__all__ = ["CALM", "FAULTS", "LAG_MS", "SAMPLE", "SETTINGS"]

WITHIN_S = 60
CALM_S = 12
_THREE = [[1, 2, 3], [2, 3, 1]]


def _calm(cluster: Cluster, topic: str, say: Say) -> None:
    say(f"nothing happens to {topic} for {CALM_S} s")
    time.sleep(CALM_S)


def _restart_all(cluster: Cluster, topic: str, say: Say) -> None:
    """A rolling restart: every step is a controlled shutdown."""

    def whole() -> bool:
        seen = cluster.described()
        return seen is not None and topic in seen.topic_numbers and len(seen.isr.values) == len(seen.replicas.values)

    for node in BROKERS:
        say(f"broker {node} restarts")
        cluster.stop(node)
        cluster.start(node)
        cluster.wait_until_up(node)
        wait_until(whole, WITHIN_S, f"all replicas of {topic} in sync", every_s=0.5)


FAULTS: dict[str, Fault] = {
    "calm": Fault("nothing happens", Topic("orders", _THREE, {}), _calm),
    **TRIED,
    "rolling-restart": Fault("every broker restarts, one after the other", Topic("orders", _THREE, {}), _restart_all),
}
CALM = ("calm", "rolling-restart")
"""Those in which nobody falls behind, and nothing is lost."""
SAMPLE = ("freeze-follower", "unclean-election")
"""Those that run where nobody asks for others."""
