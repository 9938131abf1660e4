"""The tables about brokers and replicas come out the same, however many buckets the partitions are in."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from pipelines.replication import Reconstructor, Rules
from pipelines.replication.telemetry.coverage import coverage
from pipelines.streaming.sinks import gauges
from pipelines.streaming.source.blobs import pack_table, unpack
from schemas import broker_lag, brokers, replica_lag
from tests.unit.replication.bronze import Source, controller, table

T0 = datetime(2026, 11, 23, tzinfo=UTC)


def events():
    """Two leaders of 12 partitions each; broker 3 follows both and stays behind, the more the higher the partition."""
    sources = [controller()]
    sources[0].event(1, "config", True, replica_id=3, detail="rack=c").broker_state(2, 3, "unfenced", 7)
    for leader in (1, 2):
        source = Source(f"broker-{leader}/replication.log")
        for partition in range(12):
            source.on(topic=f"t{leader}", partition=partition).leader(0, 0, 0, 0, [leader, 3], replicas=[leader, 3])
            source.append(1, 100 + partition).fetch(2, 3, 50).append(3, 200 + partition)
        sources.append(source.progress(15_000))
    return table(*sources)


def parts(buckets):
    """What each of so many buckets reports, by table."""
    fed, whole = events(), coverage(events())
    (packed,) = pack_table(fed, list(range(buckets)))
    found = {kind: [] for kind in ("brokers", "broker_lag", "replica_lag")}
    for bucket in range(buckets):
        one = Reconstructor(Rules(), bucket, buckets)
        mine = [r for r in packed.to_pylist() if r["key"] == bucket]
        rows, _ = unpack([r["kind"] for r in mine], [r["blob"] for r in mine])
        one.update(rows, whole)
        one.finish()
        for kind, tables in found.items():
            tables.append(getattr(one.present(), kind))
    return found


def test_the_shares_of_several_buckets_make_the_tables_of_one():
    one = gauges.merged([gauges.shares(parts(1))])
    split = parts(5)
    tasks = [gauges.shares({kind: tables[k::2] for kind, tables in split.items()}) for k in range(2)]
    several = gauges.merged(tasks)
    assert several == one
    (third,) = [row for row in one["brokers"].to_pylist() if row["broker_id"] == 3]
    assert (third["followed"], third["holds_back"], third["rack"]) == (24, 24, "c")
    assert third["holds_back_of"] == [("1", 12), ("2", 12)]
    assert third["lag_records"] == 161
    assert one["replica_lag"].num_rows == 24


def test_of_several_buckets_the_worst_replicas_are_kept(monkeypatch):
    monkeypatch.setattr(replica_lag, "WORST", 3)
    merged = gauges.merged([gauges.shares(parts(4))])["replica_lag"].to_pylist()
    assert [row["lag_records"] for row in merged] == [161, 161, 160]


def test_a_count_that_no_bucket_knows_is_unknown_and_one_that_some_know_is_theirs():
    def share(**values):
        row = dict.fromkeys(brokers.ARROW.names, 0) | {"cluster": "c", "broker_id": 1, "holds_back_of": []}
        nothing = dict.fromkeys(f.name for f in brokers.ARROW if pa.types.is_timestamp(f.type) or f.type == pa.string())
        nothing.pop("cluster")
        return pa.Table.from_pylist([row | nothing | values], brokers.ARROW)

    none = gauges.merge("brokers", [share(out_of_sync=None), share(out_of_sync=None)]).to_pylist()
    some = gauges.merge("brokers", [share(out_of_sync=None), share(out_of_sync=2, level=3)]).to_pylist()
    assert ([r["out_of_sync"] for r in none], [(r["out_of_sync"], r["level"]) for r in some]) == ([None], [(2, 0)])


def test_a_cluster_that_stood_still_has_no_new_row():
    def lag(cluster, seconds):
        counts = {"followed": 1, "known": 1, "behind": 0}
        return {"cluster": cluster, "broker_id": 1, "ts": T0 + timedelta(seconds=seconds), **counts}

    rows = pa.Table.from_pylist([lag("ended", 0), lag("live", 10), lag("new", 0)], broker_lag.ARROW)
    kept = gauges.news(rows, {"ended": T0, "live": T0})
    assert kept["cluster"].to_pylist() == ["live", "new"]
