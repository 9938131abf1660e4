"""The exporter over a lake on an object store: it notices each commit, and answers from memory in between."""

from datetime import UTC, datetime

import pyarrow as pa

from pipelines.lake.lake import Lake
from pipelines.metrics.exporter import Exporter
from pipelines.verdict import Limits
from schemas import partition_health, replication_events
from tests.unit.metrics.scrape import only, samples
from tests.unit.project.lakes import at, health


def rows(table, *given):

    return pa.Table.from_pylist(list(given), schema=table.ARROW)


def test_a_lake_on_an_object_store_is_read_when_a_table_has_gone_on(lake, storage_options):
    place = Lake(lake, storage_options)
    one = Exporter(place, Limits, {}, lambda: datetime(2026, 9, 1, 12, 1, 25, tzinfo=UTC))
    assert samples(one)["lake_up", ()] == 0
    place.append("partition_health", rows(partition_health, health("orders", 0)))
    progress = {"cluster": "prod", "event_type": "progress", "partition": -1, "level": 3, "ts": at(60), "broker_id": 1}
    numbers = {"source_id": "broker-1/server.log", "source_epoch": 0, "source_seq": 0, "seq": 0}
    place.append("replication_events", rows(replication_events, progress | numbers))
    assert only(samples(one), "partitions", "condition")["in_sync",] == 1
    assert samples(one)["lake_readings_total", ()] == 1
    place.append("partition_health", rows(partition_health, health("orders", 1)))
    found = samples(one)
    assert only(found, "partitions", "condition")["in_sync",] == 2
    assert found["lake_readings_total", ()] == 2
