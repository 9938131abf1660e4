"""silver/replica_hw: the HWs of followers, as computed and as they report them."""

from __future__ import annotations

import pyarrow as pa

from pipelines.replication.batch.read import Batch
from pipelines.replication.batch.run_terms import TermResults
from pipelines.replication.facts.tables import SCHEMAS, table


def with_reported_hws(computed: pa.Table, batch: Batch, results: TermResults) -> pa.Table:
    """The computed HWs of followers, and those that brokers report as followers in rows of the micro-batch."""
    rows = results.follower_hws[0]
    events, schema = batch.events.take(pa.array(rows[batch.accepted.dropped[rows] == 0])), SCHEMAS["replica_hw"]
    columns = {f.name: events[f.name] for f in schema if f.name in events.column_names}
    columns |= {"hw": pa.nulls(len(events), pa.int64()), "reported_hw": events["hw"]}
    return pa.concat_tables([computed, table(schema, columns)])
