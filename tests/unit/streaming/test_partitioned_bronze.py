"""Bronze that another writer partitioned: what hwmark adds is in its partitions, or nothing is written."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from deltalake import QueryBuilder, write_deltalake

from pipelines.errors import UsageError
from pipelines.lake.bronze import append_events, bronze, read_events
from pipelines.lake.compaction import compact
from pipelines.lake.data_file import write_file
from pipelines.lake.lake import Lake
from pipelines.lake.table import add_files
from pipelines.streaming.source.bronze_file import read
from pipelines.streaming.source.bronze_log import BronzeLog
from pipelines.streaming.source.drain import close_sources
from pipelines.streaming.source.skipped import skip_file, skipped
from schemas import replication_events
from schemas.replication_events import TABLE

T0 = datetime(2026, 1, 1, tzinfo=UTC)
DECLARED = replication_events.ARROW
NULLABLE = pa.schema([field.with_nullable(True) for field in DECLARED])
ODD = "a b/ü=%"


def row(number, cluster="c", source="broker-1/server.log", **more):
    at = {"cluster": cluster, "source_id": source, "source_epoch": 0, "source_seq": number, "seq": number}
    what = {"broker_id": 1, "event_type": "progress", "partition": -1, "level": 3}
    return at | what | {"ts": T0 + timedelta(seconds=number)} | more


def rows(*dictionaries):
    return pa.Table.from_pylist(dictionaries, DECLARED)


@pytest.fixture(params=[DECLARED, NULLABLE], ids=["not null", "nullable"])
def lake(request, tmp_path):
    place = Lake(str(tmp_path))
    write_deltalake(
        place.uri(TABLE), pa.Table.from_pylist([row(0), row(0, ODD)], request.param), partition_by=["cluster"]
    )
    return place


def clusters(lake):
    """Of each row its cluster, as every reader has it."""
    table = lake.open(TABLE)
    log = BronzeLog(lake.uri(TABLE), {}, skipped=skipped(lake))
    last = log.latest()

    def of_files(files):
        return [c for file in files if file.rows for t in read(log, file.part) for c in t["cluster"].to_pylist()]

    found = {
        "dataset": read_events(lake.root)["cluster"].to_pylist(),
        "sql": QueryBuilder().register("t", table).execute("SELECT cluster FROM t").read_all()["cluster"].to_pylist(),
        "one": [r for c in ("c", ODD) for r in read_events(lake.root, cluster=c)["cluster"].to_pylist()],
        "snapshot": of_files(log.files(last, last)),
        "commits": of_files([file for version in range(last + 1) for file in log.files(version, 0)]),
    }
    return {reader: sorted(values) for reader, values in found.items()}


def everywhere(*values):
    return dict.fromkeys(("dataset", "sql", "one", "snapshot", "commits"), sorted(values))


def test_an_append_of_several_clusters(lake):
    for version, source in enumerate(("broker-2/server.log", "broker-3/server.log")):
        append_events(lake.root, rows(row(0, source=source), row(0, ODD, source)), app_id="w", version=version)
    assert clusters(lake) == everywhere(*["c", ODD] * 3)
    bounds = pa.table(lake.open(TABLE).get_add_actions(flatten=True))
    assert sorted(bounds["partition.cluster"].to_pylist()) == sorted(["c", ODD] * 3)


def test_an_append_by_bucket(lake, monkeypatch):
    monkeypatch.setattr("pipelines.lake.bucket_layout.ROWS", 4)
    some = [row(number, c, topic="t", partition=number % 4) for c in ("c", ODD) for number in range(40)]
    append_events(lake.root, rows(*some), app_id="w", version=0, layout="buckets")
    assert clusters(lake) == everywhere(*["c", ODD] * 41)


def test_closing_rows(lake):
    assert close_sources(lake) == 2
    assert close_sources(lake) == 2
    assert clusters(lake) == everywhere(*["c", ODD] * 3)


def test_a_file_of_several_clusters_is_refused_before_it_is_committed(lake):
    made = write_file(lake.files(TABLE), "replication_events", DECLARED, [rows(row(1), row(2, ODD))])
    with pytest.raises(UsageError, match="partitioned by cluster, and a file to be added has several values of it"):
        add_files(bronze(lake.root), [made], {"simulate": 0})
    assert lake.open(TABLE).version() == 0


def test_a_skipped_file(lake):
    append_events(lake.root, rows(row(1), row(1, ODD)), app_id="w", version=0)
    (first, *_) = lake.open(TABLE).get_add_actions(flatten=True)["path"].to_pylist()
    skip_file(lake, first)
    found = clusters(lake)
    assert found["dataset"] == found["snapshot"]
    assert set(found["snapshot"]) == {"c", ODD}


def test_compaction_stays_in_its_partition(lake):
    for version in range(3):
        append_events(lake.root, rows(row(version + 1), row(version + 1, ODD)), app_id="w", version=version)
    compact(lake, "replication_events")
    found = clusters(lake)
    assert found["dataset"] == found["sql"] == found["snapshot"] == sorted(["c", ODD] * 4)
    bounds = pa.table(lake.open(TABLE).get_add_actions(flatten=True))
    assert sorted(bounds["partition.cluster"].to_pylist()) == sorted(["c", ODD])


def test_a_table_partitioned_by_what_no_bounds_are_kept_of_is_refused_before_anything_is_written(tmp_path):
    lake = Lake(str(tmp_path))
    write_deltalake(lake.uri(TABLE), rows(row(0)), partition_by=["level"])
    files = sorted(tmp_path.rglob("*"))
    with pytest.raises(
        UsageError, match="partitioned by level, and hwmark writes to one that is partitioned by cluster"
    ):
        append_events(lake.root, rows(row(1)), app_id="w", version=0)
    assert sorted(tmp_path.rglob("*")) == files
