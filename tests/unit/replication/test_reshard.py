"""A state that is merged and split at any moment goes on to the same facts, whatever the numbers of buckets."""

from __future__ import annotations

from dataclasses import fields
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.replication import Reconstructor, replay
from pipelines.replication.events.sharding import assign
from pipelines.replication.facts.tables import Facts
from pipelines.replication.state import snapshot
from pipelines.replication.state.reshard import reshard
from pipelines.replication.state.state import State
from pipelines.replication.telemetry.coverage import coverage
from tests.unit.replication.bronze import Source, events_of
from tests.unit.replication.random_cluster import Cluster, deliver
from tests.unit.replication.test_rules_copied_lines import second_file, silver, story
from tests.unit.replication.test_rules_set_of_events import (
    HISTORIES,
    RULES,
    SIZE,
    comparable,
    differences,
    examples,
    run,
    whole,
)
from tests.unit.replication.watching import cluster, each_partition, in_time, rounds

pytestmark = pytest.mark.long

fewer = settings(examples, max_examples=10)
CHANGING = st.builds(Cluster, **SIZE, losses=st.booleans(), configs=st.just(True))
BUCKETS = st.lists(st.integers(1, 5), min_size=2, max_size=4)


def begin(buckets, rules=RULES):
    return [Reconstructor(rules, bucket, buckets).snapshot() for bucket in range(buckets)]


def go_on(blobs, events, number):
    """Facts of one micro-batch, and the snapshots of all buckets after it."""
    bucket_of, telemetry = assign(events, len(blobs)), coverage(events)
    shards, facts = [Reconstructor.restore(blob) for blob in blobs], []
    for bucket, shard in enumerate(shards):
        mine = events.filter(pa.array((bucket_of == bucket) | (bucket_of < 0)))
        facts.append(shard.update(mine, telemetry, batch_id=number))
    return facts, [shard.snapshot() for shard in shards]


def run_with(batches, buckets):
    """Facts of these micro-batches, with another number of buckets from each on to the next in turn."""
    blobs, facts = begin(buckets[0]), []
    for number, rows in enumerate(batches):
        found, blobs = go_on(blobs, events_of(rows), number)
        facts += found
        blobs = list(reshard(blobs, buckets[(number + 1) % len(buckets)]))
    ends = [Reconstructor.restore(blob).finish(len(batches)) for blob in blobs]
    return comparable(Facts.concat([*facts, *ends]))


@examples
@given(HISTORIES, st.integers(0, 1000), st.integers(2, 9), BUCKETS)
@pytest.mark.nightly
def test_states_that_are_merged_and_split_go_on_to_equal_facts(cluster, seed, batches, buckets):
    parts = deliver(cluster.rows, Random(seed), batches, repeats=20)
    assert differences(whole(cluster), run_with(parts, buckets)) == {}


@pytest.mark.nightly
@fewer
@given(CHANGING, st.integers(0, 1000), st.integers(2, 6), BUCKETS)
def test_so_do_states_with_lost_telemetry_and_changed_configurations(cluster, seed, batches, buckets):
    """A gap's broker, which minutes count it under, is known to a bucket with rows of that source only."""
    parts = deliver(cluster.rows, Random(seed), batches, repeats=20)
    assert differences(run(parts), run_with(parts, buckets)).keys() <= {"minute_stats"}


@fewer
@given(HISTORIES, st.integers(0, 1000), st.integers(2, 5))
def test_split_and_merged_a_state_has_the_size_that_it_had(cluster, seed, buckets):
    parts, blobs = deliver(cluster.rows, Random(seed), 3, repeats=0), begin(1)
    for number, rows in enumerate(parts[:-1]):
        _, blobs = go_on(blobs, events_of(rows), number)
    (again,) = reshard(list(reshard(blobs, buckets)), 1)
    before, after = (Reconstructor.restore(blob).state for blob in (blobs[0], again))
    for name in ("partitions", "lanes", "series", "pending_rows", "recent_hws", "recorded_epochs", "lines_read"):
        assert getattr(after, name).count == getattr(before, name).count, name
    assert sorted(map(after.place, range(after.partitions.count))) == sorted(
        map(before.place, range(before.partitions.count))
    )


def test_a_copy_that_comes_after_resharding_is_still_recognised():
    parts = [in_partition(partition) for partition in range(4)]
    rows = [row for part in parts for row in part]
    copies = [row for part in parts for row in second_file(part, part[0]["source_id"] + "-copy")]
    blobs, facts, kept = begin(3), [], []
    for number, part in enumerate((rows, copies)):
        found, blobs = go_on(blobs, events_of(part), number)
        facts += found
        blobs = list(reshard(blobs, 2))
        kept.append(sum(Reconstructor.restore(blob).state.lines_read.count for blob in blobs))
    facts += [Reconstructor.restore(blob).finish() for blob in blobs]
    assert kept[0] == 4 * len(second_file(parts[0]))
    assert silver(Facts.concat(facts)) == silver(replay(events_of(rows), RULES))


def test_high_watermarks_move_back_across_a_reshard():
    log = Source()
    for _ in each_partition(4, log):
        log.leader(0, 0, 0, 0, [1]).append(10, 9).hw(10, 9)
    first, log.rows = log.progress(50_000).rows, []
    for _ in each_partition(4, log):
        log.hw(51_000, 2).hw(52_000, 3)
    found = run_with([first, log.progress(99_000).rows], [1, 3])["hw_regressions"]
    assert len(found) == 4


@pytest.mark.parametrize("buckets", [[1, 3], [4, 1], [2, 3, 5, 1]])
@pytest.mark.parametrize("logs", [0, 1])
def test_samples_of_a_watcher_are_moved(buckets, logs):
    """A loss, a replica out of sync and an ISR change in each of four partitions, met over six batches; where a log
    of the leader ends at 2 s, HWs are held meanwhile."""
    rows = sorted(watched_story(logs), key=lambda row: row["ts"])
    parts = [rows[len(rows) * number // 6 : len(rows) * (number + 1) // 6] for number in range(6)]
    whole = comparable(replay(events_of(rows), RULES))
    assert all(whole[name] for name in ("partition_hw", "replica_sync", "isr_changes", "hw_regressions"))
    assert differences(whole, run_with(parts, buckets)) == {}


def watched_story(logs):
    """Rows of a watcher: the leader stops at 5 s; a broker with fewer records takes over, and its follower hangs."""
    one, two, three = cluster()
    one.config(0, lag_max_ms=2000)
    log = Source()
    for _ in each_partition(4, log, one, two, three):
        log.leader(0, 0, 40, 40, [1, 2, 3]).append(500, 100).fetch(600, 2, 90, 100).fetch(600, 3, 90, 100).hw(600, 90)
        one.seen(0, 1, 0).began(900, 0, 40).leads(1000, 0, 100, 90).leads(4000, 0, 170, 150)
        two.follows(1000, 100).began(9100, 1, 140, isr=[2]).leads(9100, 1, 160, 155, isr=[2])
        two.leads(20_000, 1, 400, 390, isr=[2, 3]).seen(20_500, 2, 1, isr=[2, 3]).leads(31_000, 1, 500, 390, isr=[2, 3])
        three.follows(1000, 100).follows(4000, 170).seen(9000, 2, 1, isr=[2]).follows(19_000, 390, log_epoch=1)
    one.round(*range(1000, 5001, 1000))
    rounds(50_000, two, three)
    return in_time(one, two, three, *[log.progress(2000)][:logs])


def in_partition(partition):
    """The story in one partition, from a source of its own."""
    return story(Source(f"broker-{partition + 1}/replication.log").on(partition=partition)).progress(30_000).rows


def test_a_state_with_a_bucket_missing_is_refused():
    with pytest.raises(ValueError, match=r"not the state of all buckets of one query: found \[0\] of 2"):
        list(reshard(begin(2)[:1], 3))


MOVED = {
    "sources", "clusters", "topics", "topic_ids", "source_names", "series_keys", "partition_keys", "lane_keys",
    "series", "partitions", "lanes", "replicas", "pending_rows", "recent_hws", "timeline", "recorded_epochs",
    "earlier_terms",
    "reported_epochs", "requested_epochs", "wrong_clocks", "clock_offsets", "lines_read", "waiting",
    "queued_events", "ended_terms", "histories", "encoded_histories", "due", "lost_numbers", "gap_times",
    "misread_times", "last_gaps", "last_misreads",
    "reported_losses", "assignments", "pending_starts", "first_terms", "watched",
    "sampled", "held_hws", "held_changes", "closings", "held",
}  # fmt: skip
NUMBERS = {"partition", "topic", "cluster", "home", "topic_id", "source", "lane", "series", "key"}
"""Columns of records that hold numbers of the state; hashes are none."""


def test_whatever_a_state_has_is_moved():
    """A field or column that is new here is one that `state/shard.py` has to move, too, with its number made anew."""
    assert {field.name for field in fields(State) if not field.name.startswith("_")} == MOVED
    layouts = snapshot.RECORDS | snapshot.SAMPLES_HELD
    numbered = {name: NUMBERS & set(layout.names) for name, layout in layouts.items()}
    assert {name: sorted(columns) for name, columns in numbered.items() if columns} == {
        "series": ["lane", "partition", "source"],
        "partitions": ["topic_id"],
        "lanes": ["cluster", "home", "partition", "topic", "topic_id"],
        "pending_rows": ["lane", "topic_id"],
        "recent_hws": ["lane"],
        "earlier_terms": ["lane"],
        "recorded_epochs": ["key", "topic_id"],
        "reported_epochs": ["key", "series", "topic_id"],
        "requested_epochs": ["key", "series", "topic_id"],
        "clock_offsets": ["key"],
        "lines_read": ["key", "partition", "source"],
        "held_hws": ["lane", "topic_id"],
        "held_changes": ["lane", "topic_id"],
    }
