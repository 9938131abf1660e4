"""silver/replica_hw: the HWs of followers, as computed and as they report them."""

from __future__ import annotations

import pyarrow as pa

from pipelines.replication.batch.read import Batch
from pipelines.replication.batch.run_terms import TermResults
from pipelines.replication.compiled.types import I64
from pipelines.replication.facts.columns import replica_hw
from pipelines.replication.facts.tables import SCHEMAS, table
from pipelines.replication.rules import Rules
from pipelines.replication.state.state import State


def replica_hws(state: State, batch: Batch, results: TermResults, rules: Rules) -> pa.Table:
    """silver/replica_hw; the reported ones only where the rules ask for the table."""
    computed = replica_hw(state, results.sync)
    if not rules.replica_hw:
        return computed
    rows = results.follower_hws[0]
    return pa.concat_tables([computed, _reported(batch, rows[batch.accepted.dropped[rows] == 0])])


def _reported(batch: Batch, rows: I64) -> pa.Table:
    """The HWs that brokers report as followers in these rows of the micro-batch."""
    events, schema = batch.events.take(pa.array(rows)), SCHEMAS["replica_hw"]
    columns = {f.name: events[f.name] for f in schema if f.name in events.column_names}
    columns |= {"hw": pa.nulls(len(rows)), "reported_hw": events["hw"]}
    return table(schema, columns)
