"""silver/coverage: a stretch for each kind of evidence that a source says it would have told."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pipelines.replication import Reconstructor, replay
from pipelines.replication.state.reshard import reshard
from tests.unit.replication.bronze import Source, events_of


def stretches(*rows, kind="terms"):
    return stretches_of(replay(events_of(rows)).coverage, kind)


def stretches_of(coverage: pa.Table, kind="terms"):
    """Seconds from and to, of each stretch the last row."""
    last = {}
    for row in coverage.to_pylist():
        if row["kind"] == kind:
            key = row["source_id"], row["from_ts"]
            last[key] = max(last.get(key, row["to_ts"]), row["to_ts"])
    return sorted((since.minute * 60 + since.second, to.minute * 60 + to.second) for (_, since), to in last.items())


def source(**more) -> Source:
    return Source("broker-1/server.log", level=0, **more)


def told(of: Source, second: float, *kinds: str) -> Source:
    return of.event(second * 1000, "progress", True, covers=list(kinds))


def test_a_kind_counts_from_the_first_progress_that_names_it():
    log = source()
    told(log, 1), told(log, 2, "terms"), told(log, 9, "terms", "isr")
    assert stretches(*log.rows) == [(2, 9)]
    assert stretches(*log.rows, kind="isr") == [(9, 9)]
    assert stretches(*log.rows, kind="elections") == []


def test_a_kind_that_is_named_no_more_ends():
    log = source()
    told(log, 1, "terms"), told(log, 9, "terms"), told(log, 20), told(log, 30, "terms")
    assert stretches(*log.rows) == [(1, 9), (30, 30)]


@pytest.mark.parametrize("kind", ["lost", "unread"])
def test_what_is_lost_or_not_read_ends_a_stretch(kind):
    log = source()
    told(log, 1, "terms"), told(log, 9, "terms"), log.event(12_000, kind, True, detail="7 lines")
    told(log, 20, "terms"), told(log, 30, "terms")
    assert stretches(*log.rows) == [(1, 9), (20, 30)]


def test_a_hole_in_the_numbers_ends_a_stretch():
    log = source()
    told(log, 1, "terms"), told(log, 9, "terms")
    log.skip(1)
    told(log, 20, "terms"), told(log, 30, "terms")
    assert stretches(*log.rows) == [(1, 9), (20, 30)]


def test_a_source_that_names_no_kinds_shows_what_its_level_has():
    log = source()
    log.progress(1000), log.progress(9000)
    assert stretches(*log.rows) == []
    full = Source("broker-1/replication.log", level=3)
    full.progress(1000), full.progress(9000)
    assert stretches(*full.rows) == stretches(*full.rows, kind="hw") == [(1, 9)]


def test_a_stretch_that_goes_on_has_a_row_each_minute():
    log, reader, rows = source(), Reconstructor(), []
    for second in range(0, 180, 5):
        told(log, second, "terms")
        rows += reader.update(events_of(log.rows[-1:])).coverage.to_pylist()
    assert [row["to_ts"].minute for row in rows] == [0, 1, 2]


def test_stretches_go_on_in_another_number_of_buckets():
    log, other = source(), Source("broker-2/server.log", level=0)
    for each in (log, other):
        told(each, 1, "terms"), told(each, 9, "terms")
    shards = [Reconstructor(bucket=bucket, buckets=2) for bucket in range(2)]
    rows = events_of([*log.rows, *other.rows])
    found = [shard.update(rows).coverage for shard in shards]
    told(log, 30, "terms"), told(other, 30, "terms")
    later = events_of([log.rows[-1], other.rows[-1]])
    (one,) = (Reconstructor.restore(blob) for blob in reshard([shard.snapshot() for shard in shards], 1))
    found += [one.update(later).coverage, one.finish().coverage]
    assert stretches_of(pa.concat_tables(found)) == [(1, 30), (1, 30)]


def test_a_line_that_is_not_understood_ends_no_stretch():
    log = source()
    told(log, 1, "terms"), log.event(5000, "lost", True, detail="not understood: x"), told(log, 9, "terms")
    assert stretches(*log.rows) == [(1, 9)]


def test_what_a_bucket_knew_of_a_source_before_another_owned_it_is_forgotten():
    log = source()
    told(log, 1, "terms"), told(log, 9, "terms"), told(log, 20)
    blobs = [shard.snapshot() for shard in shards_of(log.rows[:2], 2)]
    states = [Reconstructor.restore(blob) for blob in reshard(blobs, 4)]
    rows = events_of(log.rows[2:])
    found = [state.update(rows).coverage for state in states]
    told(log, 30, "terms")
    for blob in reshard([state.snapshot() for state in states], 2):
        state = Reconstructor.restore(blob)
        found += [state.update(events_of(log.rows[3:])).coverage, state.finish().coverage]
    assert stretches_of(pa.concat_tables(found))[-1:] == [(30, 30)]


def shards_of(rows, buckets):
    shards = [Reconstructor(bucket=bucket, buckets=buckets) for bucket in range(buckets)]
    for shard in shards:
        shard.update(events_of(rows))
    return shards
