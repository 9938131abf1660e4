"""Lakes whose facts once depended on how they were read, each by its smallest rows."""

from __future__ import annotations

import pytest

from tests.properties.facts import differences, reconstruct
from tests.unit.replication.bronze import Source, controller
from tests.unit.replication.watching import Watched


def assert_read_the_same(*parts: list[dict]) -> None:
    """One batch gives what these parts give, in one bucket and in three."""
    whole = reconstruct([[row for part in parts for row in part]])
    for buckets in (1, 3, 8):
        assert differences(whole, reconstruct(parts, buckets, restart=True)) == {}


def test_lost_lines_before_a_start_begin_no_term():
    """In one batch with the start they stood in the lane that it made: a loss of 5..8, in two none."""
    log = Source().event(0, "lost", detail="7 lines").leader(10, 1, 5, 8, [1, 2, 3])
    assert_read_the_same(log.rows[:1], log.rows[1:])


@pytest.mark.parametrize("event_type", ["lost", "sample", "election", "truncate"])
def test_what_no_leader_alone_has_begins_no_term(event_type):
    log = Source().event(0, event_type, replica_id=1, leo=5, leader_id=2, leader_epoch=0)
    log.leader(10, 1, 5, 5, [1, 2, 3]).append(20, 9).fetch(30, 2, 9)
    assert_read_the_same(log.rows[:1], log.rows[1:])


def test_a_topic_id_that_samples_are_the_first_to_name_has_its_name():
    """IndexError, where the kernel had made rows of another partition in that batch."""
    log = Source().leader(0, 0, 0, 0, [1, 2, 3]).append(10, 9).fetch(20, 2, 9).fetch(21, 3, 9).progress(3000)
    watcher = Watched(2).on(topic="other", topic_id="new-id", partition=0)
    watcher.leads(100, 0, 5, 5).leads(1000, 0, 9, 9).round(1100)
    assert_read_the_same(log.rows, watcher.rows)


def test_a_gap_of_a_source_counts_the_same_in_every_bucket():
    """The bucket that owns the source need not have a partition of it, and did not know whose it is."""
    source = controller().skip(2).election(0, 2, 1, isr=[2], partition_epoch=1)
    log = Source().leader(0, 0, 0, 0, [1, 2, 3]).progress(20_000)
    assert_read_the_same(source.rows, log.rows)


def test_a_row_of_a_time_that_nothing_has_is_not_late():
    """It was in a batch with a source that is late, of whichever cluster."""
    other = Source(cluster="other").progress(20_000).progress(40_000)
    new = Source("broker-2/replication.log", cluster="other").progress(40_000)
    log = Source().hw(0, 2).hw(1, 3).progress(1000)
    log.rows[1]["ts"] = -1_000_000
    assert_read_the_same(other.rows, [*new.rows, *log.rows])


def test_a_partition_moves_in_the_gauges_of_brokers_when_it_is_decided_that_it_did():
    """Between two events: in a batch with the second it was counted there, else not at all."""
    log = Source().leader(0, 0, 0, 0, [1, 2, 3], partition_epoch=0).progress(1000)
    quorum = controller().election(2000, 2, 1, isr=[2, 3], partition_epoch=1).progress(20_000)
    first = [*log.rows, *quorum.rows]
    quorum.election(21_000, 3, 2, isr=[3], partition_epoch=2).progress(40_000)
    assert_read_the_same(first, quorum.rows[2:])


def test_a_bucket_whose_only_rows_name_no_cluster_sets_them_aside():
    """IndexError in `SourcedRows`: nulls alone have no dictionary."""
    log = Source().leader(0, 0, 0, 0, [1, 2, 3])
    nobody = Source("broker-2/replication.log").on(partition=1).leader(0, 0, 0, 0, [1, 2, 3])
    nobody.rows[0]["cluster"] = None
    assert_read_the_same([*log.rows, *nobody.rows])
