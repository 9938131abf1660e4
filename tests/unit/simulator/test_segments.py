"""A partition's log as files: roll, sparse index, lookup, retention, and what a start does after a crash."""

from __future__ import annotations

import pytest

from generators.simulator.cluster.log import Batch, ReplicaLog
from generators.simulator.storage.segment import IndexEntry, Lookup
from generators.simulator.storage.segments import Recovery, SegmentedLog


def written(batches, count=10, size=100, segment_bytes=500, index_interval=150, **more):
    """A log of so many batches of 10 records in 100 bytes: five to a segment, an index entry at every second."""
    log = SegmentedLog(segment_bytes=segment_bytes, index_interval=index_interval, **more)
    for _ in range(batches):
        log.append(count, size)
    return log


def files(log):
    return [segment.log_file for segment in log.segments]


def file(base):
    return f"{base:020d}.log"


def indexes(log):
    return [list(segment.index) for segment in log.segments]


def test_a_segment_is_named_after_its_base_offset_in_twenty_digits():
    (segment,) = SegmentedLog(start=368_769).segments
    assert segment.log_file == "00000000000000368769.log"


def test_a_batch_that_does_not_fit_opens_a_new_segment():
    log = written(5)
    assert files(log) == [file(0)]
    assert log.append(1, 1) == 50
    assert files(log) == [file(0), file(50)]


def test_a_full_segment_rolls_only_with_the_next_batch():
    assert [(s.base, s.end, s.size) for s in written(10).segments] == [(0, 50, 500), (50, 100, 500)]


def test_a_batch_larger_than_a_segment_is_refused():
    with pytest.raises(ValueError, match="a batch of 501 bytes does not fit into a segment of 500"):
        written(0).append(1, 501)


def test_the_index_is_sparse_one_entry_per_interval():
    """An entry names the last offset of its batch; positions 200 and 400 are more than 150 past the one before."""
    assert indexes(written(5)) == [[IndexEntry(29, 200), IndexEntry(49, 400)]]


def test_exactly_the_interval_is_not_yet_enough():
    assert indexes(written(5, index_interval=200)) == [[IndexEntry(39, 300)]]


def test_an_offset_is_found_by_base_offset_then_index_then_scan():
    assert written(15).lookup(87) == Lookup(file(50), IndexEntry(79, 200), (70, 80), 300)


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, Lookup(file(0), IndexEntry(0, 0), (0,), 0)),
        (19, Lookup(file(0), IndexEntry(0, 0), (0, 10), 100)),
        (28, Lookup(file(0), IndexEntry(0, 0), (0, 10, 20), 200)),
        (29, Lookup(file(0), IndexEntry(29, 200), (20,), 200)),
        (49, Lookup(file(0), IndexEntry(49, 400), (40,), 400)),
        (50, Lookup(file(50), IndexEntry(50, 0), (50,), 0)),
    ],
)
def test_lookups_at_the_bounds_of_batches_entries_and_segments(offset, expected):
    assert written(15).lookup(offset) == expected


def test_every_offset_is_found_in_its_batch():
    log = written(40, count=7)
    for offset in range(280):
        found = log.lookup(offset)
        assert found.scanned[-1] <= offset < found.scanned[-1] + 7
        assert len(found.scanned) <= 3


@pytest.mark.parametrize("offset", [49, 150])
def test_an_offset_outside_the_log_is_out_of_range(offset):
    log = written(15)
    assert log.retain(hw=99, most_bytes=0) == (file(0),)
    with pytest.raises(ValueError, match=f"offset {offset} is out of range: this log holds 50 to 149"):
        log.lookup(offset)


def test_a_replicas_log_is_laid_out_batch_by_batch():
    replica = ReplicaLog()
    for sequence in range(0, 60, 10):
        replica.append(10, epoch=0, term=1, batch=Batch(7, 0, sequence))
    log = SegmentedLog.of(replica, record_bytes=10, segment_bytes=500, index_interval=150)
    assert [(s.base, s.end) for s in log.segments] == [(0, 50), (50, 60)]


# retention


def test_retention_by_size_deletes_whole_segments_while_enough_is_left():
    log = written(18)
    assert log.retain(hw=180, most_bytes=800) == (file(0), file(50))
    assert (log.start, log.size) == (100, 800)


def test_retention_by_size_keeps_a_segment_without_which_too_little_were_left():
    log = written(18)
    assert log.retain(hw=180, most_bytes=1301) == ()
    assert log.retain(hw=180, most_bytes=1300) == (file(0),)


def test_retention_never_deletes_at_or_above_the_high_watermark():
    log = written(15)
    assert log.retain(hw=99, most_bytes=0) == (file(0),)
    assert log.retain(hw=100, most_bytes=0) == (file(50),)
    assert log.start == 100


def test_retention_of_everything_begins_a_new_segment_first():
    log = written(15)
    assert log.retain(hw=150, most_bytes=0) == (file(0), file(50), file(100))
    assert (files(log), log.start, log.end) == ([file(150)], 150, 150)


# recovery


def test_a_roll_flushes_what_is_before_it():
    assert [written(n).recovery_point for n in (5, 6, 11)] == [0, 50, 100]


def test_after_a_clean_shutdown_nothing_is_read():
    log = written(12)
    log.stop()
    assert log.open() == Recovery(clean=True)
    assert log.recovery_point == 120


def test_a_clean_shutdown_counts_for_one_start_only():
    log = written(12)
    log.stop()
    log.open()
    log.crash()
    assert log.open().clean is False


def test_after_a_crash_only_segments_from_the_recovery_point_on_are_read():
    log = written(12)
    log.checkpoint()
    log.append(10, 100)
    log.crash()
    assert log.open() == Recovery(clean=False, read=(file(100),))
    assert log.end == 130


def test_a_recovery_point_within_a_segment_has_that_segment_read():
    log = written(8)
    log.flush()
    log.checkpoint()
    log.append(10, 100)
    log.crash()
    assert log.open().read == (file(50),)


def test_a_start_knows_only_the_recovery_point_that_was_checkpointed():
    log = written(7)
    log.checkpoint()
    for _ in range(8):
        log.append(10, 100)
    assert (log.recovery_point, log.checkpointed) == (100, 50)
    log.crash()
    assert log.open().read == (file(50), file(100))


def test_the_log_is_cut_at_the_first_torn_batch():
    log = written(15)
    log.checkpoint()
    log.crash(torn_from=125)
    assert log.open() == Recovery(clean=False, read=(file(100),), cut_at=120)
    assert (log.end, log.append(10, 100)) == (120, 120)


def test_segments_after_a_torn_batch_are_thrown_away_unread():
    """Brokers flush in the background after a roll; here the machine fails before they do."""
    log = written(15)
    log.recovery_point = 0
    log.crash(torn_from=60)
    assert log.open() == Recovery(clean=False, read=(file(0), file(50)), cut_at=60)
    assert (log.end, files(log)) == (60, [file(0), file(50)])


def test_a_rebuilt_index_is_the_one_that_was_written():
    log = written(15)
    log.checkpoint()
    before = indexes(log)
    log.crash(torn_from=150)
    assert indexes(log) == [before[0], before[1], []]
    log.open()
    assert indexes(log) == before


def test_what_was_flushed_cannot_be_torn():
    with pytest.raises(ValueError, match="offset 99 cannot be torn: all below 100 is on disk"):
        written(15).crash(torn_from=99)
