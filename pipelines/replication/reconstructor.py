"""The public face of the reconstruction: feed events, get final facts, carry state in a blob."""

from __future__ import annotations

import pyarrow as pa

from pipelines.replication.facts import Facts
from pipelines.replication.rules import Rules


class Reconstructor:
    """Rebuilds high watermarks, ISR changes, replica states and verdicts from replication events.

    `bucket` of `buckets`: one shard; broker-wide events go to every shard, and what is said about a
    broker-wide series is emitted by its owner shard only.
    """

    def __init__(self, rules: Rules | None = None, bucket: int = 0, buckets: int = 1) -> None:
        self.rules = rules or Rules()
        self.bucket, self.buckets = bucket, buckets

    def update(self, events: pa.Table, coverage: pa.Table | None = None, batch_id: int = 0) -> Facts:
        """Facts that are final once `events` (bronze schema) are known.

        `coverage` says what each source has told, over all shards (`sources.coverage` of the whole
        batch); without it, it is computed from `events`.
        """
        raise NotImplementedError

    def finish(self, batch_id: int = 0) -> Facts:
        """Makes final what every source has told so far."""
        raise NotImplementedError

    def health(self) -> pa.Table:
        """The present state of every partition, in the schema of `gold/partition_health`."""
        raise NotImplementedError

    def snapshot(self) -> bytes:
        """The whole state as one versioned, compressed blob."""
        raise NotImplementedError

    @classmethod
    def restore(cls, blob: bytes) -> Reconstructor:
        """The Reconstructor whose `snapshot` this is. Raises ValueError naming an unknown version."""
        raise NotImplementedError


def replay(events: pa.Table, rules: Rules | None = None) -> Facts:
    """All facts of a whole history: update, then finish."""
    reconstructor = Reconstructor(rules)
    return Facts.concat([reconstructor.update(events), reconstructor.finish()])
