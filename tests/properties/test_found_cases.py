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
