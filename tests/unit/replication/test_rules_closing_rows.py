"""A closing row makes final what its cluster has told up to the rows that it names, in whatever order rows come."""

from __future__ import annotations

from random import Random

import pytest

from pipelines.replication import Facts, Reconstructor, replay
from pipelines.replication.events.sharding import assign
from pipelines.replication.state.reshard import reshard
from pipelines.replication.telemetry.coverage import coverage
from pipelines.streaming.source.drain import closing_row
from tests.unit.replication.bronze import BASE_MS, Source, advances, events_of
from tests.unit.replication.test_rules_set_of_events import comparable, differences

pytestmark = pytest.mark.long


def closing(ms, number, *named, cluster="c"):
    """The closing row `number`, which names the last rows of these sources; of none: as earlier versions wrote it."""
    closes = {row["source_id"]: (row["source_epoch"], row["source_seq"]) for row in named}
    row = closing_row(cluster, (BASE_MS + ms) * 1000, number, closes or None)
    return dict.fromkeys(named[0] if named else (), None) | row


def led(broker=1, **columns):
    telemetry = Source(f"broker-{broker}/replication.log", **columns)
    return telemetry.leader(0, 0, 0, 0, [1, 2, 3])


def closed_in_the_middle():
    """Two clusters; the first is closed between a report of its HW and the fetch that would have shown it."""
    one, other = led(), led(2, cluster="other")
    one.append(10, 9).fetch(20, 2, 4).fetch(21, 3, 4).hw(30, 5)
    other.append(10, 9).fetch(20, 1, 4).fetch(21, 3, 4)
    last = one.rows[-1]
    one.fetch(40, 2, 5).fetch(41, 3, 5).append(900, 20).progress(3000)
    return one, other, last


def run(batches, restart=False):
    reconstructor, parts = Reconstructor(), []
    for rows in batches:
        if restart:
            reconstructor = Reconstructor.restore(reconstructor.snapshot())
        parts.append(reconstructor.update(events_of(rows)))
    return Facts.concat([*parts, reconstructor.finish()])


def before_and_behind():
    """Rows before a closing row, the closing row, and rows behind it."""
    one, other, last = closed_in_the_middle()
    at = one.rows.index(last) + 1
    return one.rows[:at], [closing(30, 0, last)], one.rows[at:], other.rows


def test_a_closing_row_closes_its_own_cluster_only():
    one, other, last = closed_in_the_middle()
    reconstructor = Reconstructor()
    at = one.rows.index(last) + 1
    reconstructor.update(events_of([*one.rows[:at], *other.rows]))
    facts = reconstructor.update(events_of([closing(30, 0, last)]))
    assert {row["cluster"] for row in facts.partition_hw.to_pylist()} == {"c"}
    assert reconstructor.finish().partition_hw["cluster"].unique().to_pylist() == ["other"]


def test_a_closing_row_takes_effect_behind_the_rows_that_it_names_however_rows_come():
    before, closes, behind, others = before_and_behind()
    expected = comparable(run([before, closes, behind, others]))
    pulled_apart = [before + behind, closes, others]
    assert differences(comparable(run(pulled_apart)), expected) != {}, "the closing row has to be told from none"
    orders = [
        [closes, before, behind, others],
        [closes + behind, before, others],
        [others + before[:2] + closes, behind + before[2:]],
        [before + closes + behind + others],
        [[*behind, *closes, *before, *others]],
    ]
    for batches in orders:
        for restart in (False, True):
            assert differences(comparable(run(batches, restart)), expected) == {}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.sampled(3)
def test_several_closing_rows_take_effect_one_after_the_other(seed):
    random, one = Random(seed), led()
    rows, batches = [], []
    for number in range(3):
        ms = 1000 * number
        more = len(one.rows)
        one.append(ms + 10, 9 * (number + 1)).fetch(ms + 20, 2, 9 * number + 4).hw(ms + 30, 9 * number + 5)
        part = [*([] if number else one.rows[:more]), *one.rows[more:]]
        part.append(closing(ms + 30, number, one.rows[-1]))
        batches.append(part)
        rows += part
    expected = comparable(run(batches))
    assert differences(comparable(run([random.sample(rows, len(rows))])), expected) == {}
    own, closes = ([r for r in rows if (r["source_id"] == "hwmark/drain") is it] for it in (False, True))
    cut = random.randint(0, len(own))
    assert differences(comparable(run([closes, own[:cut], own[cut:]])), expected) == {}


def test_a_closing_row_that_comes_again_changes_nothing():
    before, closes, behind, others = before_and_behind()
    expected = comparable(run([before, closes, behind, others]))
    assert differences(comparable(run([before, closes * 2, closes + behind, others + closes])), expected) == {}


def test_a_closing_row_of_an_earlier_version_closes_what_came_before_it_or_with_it():
    one, _, _ = closed_in_the_middle()
    old = closing(30, 0)
    assert old["closes"] is None
    reconstructor = Reconstructor()
    assert advances(reconstructor.update(events_of([old, *one.rows[:3]]))) == []
    assert advances(reconstructor.update(events_of([closing(30, 1), one.rows[3]]))) == [(21, 4)]


@pytest.mark.parametrize(
    "wrong", [{"event_type": "rumour"}, {"partition": 3, "topic": "t"}, {"ts": 0}, {"source_seq": None}]
)
def test_a_closing_row_that_breaks_a_row_rule_closes_nothing(wrong):
    before, (row,), _, _ = before_and_behind()
    reconstructor = Reconstructor()
    reconstructor.update(events_of(before))
    facts = reconstructor.update(events_of([row | wrong]))
    assert advances(facts) == []
    assert len(facts.quarantine) == 1


def test_rows_that_never_come_are_waited_for_until_the_grace_or_the_next_closing_row():
    """Retention of bronze takes rows away that an old closing row names."""
    one = led()
    one.append(10, 9).fetch(20, 2, 4).fetch(21, 3, 4)
    gone = {"source_id": "broker-9/replication.log", "source_epoch": 0, "source_seq": 70}
    waits = [*one.rows, closing(21, 0, one.rows[-1], gone)]
    behind = one.fetch(12_000, 2, 6).rows[-1]
    assert advances(Reconstructor().update(events_of(waits))) == []
    assert advances(Reconstructor().update(events_of([*waits, behind])))[:1] == [(21, 4)]
    assert advances(Reconstructor().update(events_of([*waits, closing(22, 1, one.rows[-2])]))) == [(21, 4)]


def test_buckets_agree_on_what_a_closing_row_closes():
    one, other, last = closed_in_the_middle()
    at = one.rows.index(last) + 1
    wholes = run([one.rows[:at], [closing(30, 0, last)], one.rows[at:] + other.rows])
    rows = [closing(30, 0, last), *one.rows, *other.rows]
    shards, parts = [Reconstructor(bucket=bucket, buckets=3) for bucket in range(3)], []
    for cut in (rows[:4], rows[4:]):
        events = events_of(cut)
        bucket_of, covered = assign(events, 3), coverage(events)
        for bucket, shard in enumerate(shards):
            parts.append(shard.update(events.take([k for k, b in enumerate(bucket_of) if b in (bucket, -1)]), covered))
        blobs = list(reshard([shard.snapshot() for shard in shards], 3))
        shards = [Reconstructor.restore(blob) for blob in blobs]
    facts = Facts.concat([*parts, *(shard.finish() for shard in shards)])
    assert differences(comparable(facts), comparable(wholes)) == {}


def test_finish_is_the_same_as_a_closing_row_of_every_cluster():
    one, other, _ = closed_in_the_middle()
    rows = one.rows + other.rows
    last = [closing(0, 0, one.rows[-1]), closing(0, 0, other.rows[-1], cluster="other")]
    reconstructor = Reconstructor()
    closed = Facts.concat([reconstructor.update(events_of(rows)), reconstructor.update(events_of(last))])
    for name, table in replay(events_of(rows)).tables().items():
        if name != "minute_stats":
            assert sorted(map(str, table.to_pylist())) == sorted(map(str, getattr(closed, name).to_pylist())), name
