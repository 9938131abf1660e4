"""The public face of the reconstruction: feed events, get final facts, carry the state in a blob.

What computes takes most of a second to import: whoever only names these classes does not wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.replication.facts.tables import Facts
from pipelines.replication.rules import Rules

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.replication.facts.brokers import Present
    from pipelines.replication.state.state import State


class Reconstructor:
    """Rebuilds high watermarks, ISR changes, replica states and verdicts from replication events.

    It is shard `bucket` of `buckets`. Broker-wide events go to every shard; rows about a broker-wide series are emitted
    by the shard that owns it.
    """

    def __init__(self, rules: Rules | None = None, bucket: int = 0, buckets: int = 1) -> None:
        from pipelines.replication.batch.steps import Shard
        from pipelines.replication.state.state import State
        from pipelines.replication.telemetry.sources import Sources

        rules = rules or Rules()
        self.shard = Shard(State(Sources(rules.reorder_grace_ms * 1000)), rules, bucket, buckets)

    @property
    def state(self) -> State:
        """All that it knows."""
        return self.shard.state

    @property
    def rules(self) -> Rules:
        """The rules that it follows."""
        return self.shard.rules

    def update(self, events: pa.Table, coverage: pa.Table | None = None, batch_id: int = 0) -> Facts:
        """Facts that are final once `events` (bronze schema, in any of Arrow's types for it) are known.

        `coverage` is that of the whole micro-batch over all shards (`telemetry.coverage.coverage`); without it, it is
        computed from `events`. A closing row asks nothing of their order; where there are several shards, runs of
        coverage that end where its `closes` do keep their exact times. Raises ValueError naming a column that is
        missing, or whose type has no such values.
        """
        from pipelines.replication.events.foreign_types import cast_events

        return self.shard.update(cast_events(events), coverage, batch_id)

    def finish(self, batch_id: int = 0) -> Facts:
        """Make final what every source has reported so far."""
        return self.shard.finish(batch_id)

    def health(self) -> pa.Table:
        """The present state of every partition, in the schema of `gold/partition_health`."""
        from pipelines.replication.facts.brokers import present_partitions

        return present_partitions(self.state, self.state.low_watermarks())

    def present(self) -> Present:
        """The present state of every partition, and of brokers and replicas as far as this shard knows it."""
        from pipelines.replication.facts.brokers import present

        return present(self.state, self.state.low_watermarks())

    def snapshot(self) -> bytes:
        """The whole state as one versioned, compressed blob."""
        from pipelines.replication.state import snapshot

        shard = self.shard
        return snapshot.pack(shard.state, shard.rules, shard.bucket, shard.buckets)

    @classmethod
    def restore(cls, blob: bytes, rules: Rules | None = None) -> Reconstructor:
        """The Reconstructor whose `snapshot` this is, from here on under `rules` where they are given.

        Raises ValueError naming an unknown version, or the part of the state that is not known.
        """
        from pipelines.replication.batch.steps import Shard
        from pipelines.replication.state import snapshot
        from pipelines.replication.state.changed_rules import change_rules

        made = cls.__new__(cls)
        state, old_rules, bucket, buckets = snapshot.unpack(blob)
        made.shard = Shard(state, rules or old_rules, bucket, buckets)
        if made.rules != old_rules:
            change_rules(state, old_rules, made.rules)
        return made


def replay(events: pa.Table, rules: Rules | None = None) -> Facts:
    """All facts of a whole history: update, then finish."""
    reconstructor = Reconstructor(rules)
    return Facts.concat([reconstructor.update(events), reconstructor.finish()])
