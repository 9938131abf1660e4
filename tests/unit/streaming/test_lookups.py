"""Who asks a compacted `silver/partition_hw` for one thing opens few of its files."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from pipelines.lake.compaction import compact
from pipelines.lake.lake import Lake
from schemas import partition_hw

BEGIN = datetime(2026, 8, 1, tzinfo=UTC)
DAYS, CLUSTERS, TOPICS, PARTITIONS = 90, 4, 25, 10


def day(rows, number, seed):
    """Rows of one day as the job leaves them, spread over partitions that each have a leader, an ISR and offsets."""
    random = np.random.default_rng(seed)
    at = np.sort(random.integers(0, 86_400_000_000, rows)) + int(BEGIN.timestamp() * 1e6) + number * 86_400_000_000
    places = random.integers(
        0, CLUSTERS * TOPICS * PARTITIONS, rows
    )  # of each the leader, the ISR and the offsets are its own
    leader, base = places * 7919 % 101, places * 1_000_003
    columns = {
        "cluster": pa.array([f"cluster-{k:03}" for k in places % CLUSTERS]),
        "topic": pa.array([f"topic-{k:03}" for k in places // CLUSTERS % TOPICS]),
        "partition": pa.array(places // CLUSTERS // TOPICS),
        "kind": pa.array(["advance"] * rows),
        "ts": pa.array(at).cast(pa.timestamp("us", "UTC")),
        "leader_id": pa.array(leader),
        "leader_epoch": pa.array(leader * 3 + 1),
        "isr": pa.array(np.stack([leader, leader + 1, leader + 2], axis=1).tolist()),
        **{name: pa.array(base + at // 1_000_000) for name in ("hw", "reported_hw", "leader_leo")},
    }
    whole = [columns[f.name].cast(f.type) if f.name in columns else pa.nulls(rows, f.type) for f in partition_hw.ARROW]
    return pa.table(whole, schema=partition_hw.ARROW)


def opened(lake, since, until, **first):
    """How many of the files may have rows from `since` to `until` with these values, by Delta's statistics; of all."""
    rows = pa.table(lake.open("partition_hw").get_add_actions(flatten=True)).to_pylist()
    wanted = tuple(first.values())

    def may(row):
        least, most = (tuple(row[f"{end}.{name}"] for name in first) for end in ("min", "max"))
        return all(a <= b <= c for a, b, c in zip(least, wanted, most, strict=True)) and (
            row["min.ts"] <= until and row["max.ts"] >= since
        )

    return sum(map(may, rows)), len(rows)


def lookups(lake, until):
    """One partition a day, one cluster an hour, one topic a week."""
    yield opened(lake, until - timedelta(days=1), until, cluster="cluster-002", topic="topic-007", partition=3)
    yield opened(lake, until - timedelta(hours=1), until, cluster="cluster-001")
    yield opened(lake, until - timedelta(days=7), until, cluster="cluster-003", topic="topic-020")


@pytest.mark.nightly
def test_three_lookups_of_ten_million_rows_open_a_tenth_of_the_files(tmp_path):
    lake = Lake(str(tmp_path))
    for number in range(DAYS):
        for part in range(4):
            lake.append("partition_hw", day(10_000_000 // DAYS // 4, number, 4 * number + part))
    compact(lake, "partition_hw", target_bytes=128 << 17)
    for may, of in lookups(lake, BEGIN + timedelta(days=80, hours=12)):
        assert may <= of / 10, (may, of)


def test_one_partition_of_a_day_is_in_one_of_its_files_and_only_what_came_since_is_sorted(tmp_path):
    lake = Lake(str(tmp_path))
    for part in range(20):
        lake.append("partition_hw", day(2_000, 0, part))
    size = sum(lake.open("partition_hw").get_add_actions(flatten=True)["size_bytes"].to_pylist())
    compact(lake, "partition_hw", target_bytes=size // 8)
    where = {"cluster": "cluster-002", "topic": "topic-007", "partition": 3}
    may, of = opened(lake, BEGIN, BEGIN + timedelta(days=1), **where)
    assert of >= 5
    assert may <= of // 3  # a file across the end of a cluster has all topics between its bounds
    before = set(lake.open("partition_hw").file_uris())
    assert compact(lake, "partition_hw", target_bytes=size // 8).removed == 0
    for part in range(2):
        lake.append("partition_hw", day(1_000, 0, 100 + part))
    compact(lake, "partition_hw", target_bytes=size // 8)
    assert before <= set(lake.open("partition_hw").file_uris())
    assert lake.rows("partition_hw").count_rows() == 42_000
