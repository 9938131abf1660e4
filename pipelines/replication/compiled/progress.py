"""No loop of the reconstruction runs without progress: one that would raises, and names where it stands."""

from __future__ import annotations


class NoProgress(RuntimeError):
    """A loop that decides facts came to the same place again: a fault of the reconstruction, not of the telemetry."""

    @classmethod
    def at(cls, place: tuple[str, str, int], term: str, event: str) -> NoProgress:
        """The error for one partition, given as (cluster, topic, partition)."""
        cluster, topic, partition = place
        return cls(
            f"no progress at {topic}-{partition} of cluster {cluster}, {term}, {event}: this is a bug of hwmark; "
            "please report it with the events of this partition"
        )
