"""How far bronze is read: in the order of time, then commit by commit, by files, and what can go missing on the way."""

import json

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from pipelines.lake.bronze import append_events, bronze, opened
from pipelines.lake.engines import MARK
from pipelines.streaming.source.blobs import pack_table
from pipelines.streaming.source.bronze_commits import RETENTION
from pipelines.streaming.source.bronze_file import read as read_file
from pipelines.streaming.source.bronze_log import (
    BEGINNING,
    BronzeLog,
    Offset,
    RemovedRowsError,
    UnreadableTableError,
    VersionVanishedError,
    last_version_read,
)
from pipelines.streaming.source.bronze_source import in_portions, shares
from pipelines.streaming.source.unread import _unread
from tests.streaming.events import history

EVERYTHING = (1 << 62, 1 << 62)
EVENTS = history(partitions=2, rounds=6)


def put(lake, version, events):
    append_events(str(lake), events, app_id="test", version=version)


@pytest.fixture
def lake(tmp_path):
    """Three commits of ten rows each, after the one that created the table."""
    for version in range(3):
        put(tmp_path, version, EVENTS.slice(10 * version, 10))
    return tmp_path


def log_of(lake):
    return BronzeLog(opened(str(lake)).table_uri)


def rows(log, files):
    read = [
        pa.table(t)
        for share in shares(log, files, 2)
        for t in in_portions(e for part, groups in share.files for e in read_file(log, part, groups))
    ]
    return sorted(n for table in read for n in table["source_seq"].to_pylist())


def test_a_snapshot_then_commit_by_commit(lake):
    log = log_of(lake)
    first = log.advance(BEGINNING, log.latest(), *EVERYTHING)
    assert first == Offset(snapshot=3, version=4, index=0, events=30)
    assert log.advance(first, log.latest(), *EVERYTHING) == first
    put(lake, 3, EVENTS.slice(30, 10))
    second = log.advance(first, log.latest(), *EVERYTHING)
    assert second == Offset(snapshot=3, version=5, index=0, events=40)
    assert rows(log, log.between(BEGINNING, first)) == list(range(30))
    assert rows(log, log.between(first, second)) == list(range(30, 40))
    assert rows(log, log.between(BEGINNING, second)) == list(range(40))
    assert log.between(second, second) == []


@pytest.mark.parametrize("limits", [(1, 1 << 62), (1 << 62, 10), (1 << 62, 1)])
def test_batches_are_cut_by_bytes_and_rows_at_times(lake, limits):
    log, at, events = log_of(lake), BEGINNING, []
    while (behind := log.advance(at, log.latest(), *limits)) != at:
        events.append(rows(log, log.between(at, behind)))
        assert behind.events == sum(map(len, events))
        at = behind
    assert len(events) > 2
    assert all(len(read) <= max(8, limits[1]) for read in events), "a second of a small file is one step"
    assert [number for read in events for number in read] == list(range(30))


def test_the_first_batch_repeated_after_bronze_grew_reads_the_same(lake):
    log = log_of(lake)
    end = log.advance(BEGINNING, log.latest(), 1, 1)
    before = log.between(BEGINNING, end)
    put(lake, 3, EVENTS.slice(30, 10))
    assert log_of(lake).between(BEGINNING, end) == before


def test_compacted_files_are_no_news(lake):
    log = log_of(lake)
    first = log.advance(BEGINNING, log.latest(), *EVERYTHING)
    bronze(str(lake)).optimize.compact()
    then = log.advance(first, log.latest(), *EVERYTHING)
    assert then.events == first.events
    assert log.between(first, then) == []
    # A query that begins after it reads the compacted file.
    fresh = log_of(lake)
    assert rows(fresh, fresh.between(BEGINNING, fresh.advance(BEGINNING, fresh.latest(), *EVERYTHING))) == list(
        range(30)
    )


def test_files_that_aging_rewrote_are_no_news(lake):
    log = log_of(lake)
    first = log.advance(BEGINNING, log.latest(), *EVERYTHING)
    bronze(str(lake)).delete("source_seq < 5", commit_properties=CommitProperties(custom_metadata={MARK: RETENTION}))
    then = log.advance(first, log.latest(), *EVERYTHING)
    assert (then.version, then.events) == (5, first.events)
    assert log.between(first, then) == []


def test_rows_that_somebody_took_out_of_bronze_are_refused_by_version_until_accepted(lake):
    log = log_of(lake)
    first = log.advance(BEGINNING, log.latest(), *EVERYTHING)
    write_deltalake(bronze(str(lake)), EVENTS.slice(5, 10), mode="overwrite")
    with pytest.raises(RemovedRowsError, match=r"version 4 .*WRITE.*--accept-removal 4"):
        log.advance(first, log.latest(), *EVERYTHING)
    accepted = BronzeLog(log.uri, accepted=[4])
    then = accepted.advance(first, accepted.latest(), *EVERYTHING)
    assert rows(accepted, accepted.between(first, then)) == list(range(5, 15)), "what was read before is a repeat"


def test_an_older_copy_of_bronze_is_refused_and_counts_as_unread(lake):
    """What was written to it was passed over, as the versions that it got had been read."""
    log = log_of(lake)
    at = log.advance(BEGINNING, log.latest(), *EVERYTHING)
    assert _unread(log, log.files(3, 3), at.json(), 3) == []
    (lake / "bronze/replication_events/_delta_log/00000000000000000003.json").unlink()
    for grown in (2, 3, 4):
        older = log_of(lake)
        refused = rf"at version {grown}, and its version 3 is not the one .* read: .*run --rebuild"
        with pytest.raises(RemovedRowsError, match=refused):
            older.advance(at, older.latest(), *EVERYTHING)
        present = older.files(grown, grown)
        assert _unread(older, present, at.json(), grown) == present
        put(lake, grown + 10, EVENTS.slice(0, 10))


def test_retention_of_an_earlier_version_is_known_by_its_condition(lake):
    log = log_of(lake)
    first = log.advance(BEGINNING, log.latest(), *EVERYTHING)
    bronze(str(lake)).delete("ts < '2026-01-01T00:00:00.005+00:00'")
    assert log.advance(first, log.latest(), *EVERYTHING).events == first.events


def test_a_commit_that_is_gone_says_how_to_go_on(lake):
    log = log_of(lake)
    (lake / "bronze/replication_events/_delta_log/00000000000000000002.json").unlink()
    with pytest.raises(VersionVanishedError, match=r"version 2 .* is gone.*run --rebuild"):
        log.advance(Offset(0, 1), 3, *EVERYTHING)


def test_a_snapshot_that_is_gone_says_how_to_go_on(lake):
    end = log_of(lake).advance(BEGINNING, 3, 1, 1)
    table = bronze(str(lake))
    put(lake, 3, EVENTS.slice(30, 10))
    table = DeltaTable(table.table_uri)
    table.create_checkpoint()
    for version in range(4):
        (lake / f"bronze/replication_events/_delta_log/{version:020}.json").unlink()
    with pytest.raises(VersionVanishedError, match=r"version 3 .* is gone.*run --rebuild"):
        log_of(lake).between(BEGINNING, end)


def test_a_file_that_is_gone_says_how_to_go_on(lake):
    log = log_of(lake)
    files = log.between(BEGINNING, log.advance(BEGINNING, 3, *EVERYTHING))
    (lake / "bronze/replication_events" / files[1].path).unlink()
    with pytest.raises(VersionVanishedError, match=rf"file {files[1].path} .*run --rebuild"):
        rows(log, files)


def test_a_table_with_features_this_source_does_not_read_is_refused(lake):
    commit = lake / "bronze/replication_events/_delta_log/00000000000000000004.json"
    features = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}
    commit.write_text(json.dumps({"protocol": features | {"writerFeatures": ["deletionVectors"]}}))
    with pytest.raises(UnreadableTableError, match=r"reader version 3.*delta"):
        log_of(lake).advance(Offset(3, 4), 4, *EVERYTHING)


def test_a_large_file_is_shared_by_row_groups(tmp_path):
    from deltalake import WriterProperties, write_deltalake

    table = bronze(str(tmp_path))
    properties = WriterProperties(max_row_group_size=8)
    write_deltalake(table, EVENTS, mode="append", writer_properties=properties)
    log = log_of(tmp_path)
    files = log.between(BEGINNING, log.advance(BEGINNING, log.latest(), *EVERYTHING))
    made = shares(log, files, 2)
    assert len(files) == 1
    assert len(made) == 2
    assert [len(share.files[0][1]) for share in made] == [3, 3]
    assert rows(log, files) == list(range(len(EVENTS)))


def test_columns_without_values_are_not_read(lake):
    log = log_of(lake)
    (file, *_) = log.between(BEGINNING, log.advance(BEGINNING, 3, *EVERYTHING))
    (read,) = in_portions(read_file(log, file.part))
    assert "unclean" not in read.column_names
    assert "isr" in read.column_names
    assert (
        read.select(["cluster", "source_seq", "ts"]).to_pylist()
        == EVENTS.slice(0, 10).select(["cluster", "source_seq", "ts"]).to_pylist()
    )


def test_a_file_of_broker_wide_rows_can_be_packed(lake):
    put(lake, 3, EVENTS.filter(pc.less(EVENTS["partition"], 0)))
    log = log_of(lake)
    (file,) = log.between(Offset(3, 4), Offset(3, 5))
    (read,) = in_portions(read_file(log, file.part))
    assert [len(packed) for packed in pack_table(read, [0, 1])] == [4]


def test_offsets_of_either_source_say_what_is_read():
    assert last_version_read(Offset(3, 7, 2, 99).json()) == 6
    assert last_version_read({"reservoirVersion": 7, "index": -1}) == 6
