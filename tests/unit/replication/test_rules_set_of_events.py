"""Facts are a function of the set of events: not of cuts, order, repeats, restarts or buckets."""

from __future__ import annotations

from collections import Counter
from random import Random

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pipelines.replication import Reconstructor, Rules, replay
from pipelines.replication.events.sharding import assign
from pipelines.replication.facts.tables import Facts
from pipelines.replication.telemetry.coverage import coverage
from tests.unit.replication.bronze import Source, events_of
from tests.unit.replication.random_cluster import ARRIVAL_MS, Cluster, deliver, deliver_by_source

pytestmark = pytest.mark.long

RULES = Rules(lag_max_ms=4000, reorder_grace_ms=ARRIVAL_MS + 3000)
SIZE = {"seed": st.integers(0, 10_000), "steps": st.integers(1, 80)}
HISTORIES = st.builds(Cluster, **SIZE)
examples = settings(
    max_examples=12, deadline=None, derandomize=True, database=None, phases=[Phase.generate, Phase.shrink]
)


def comparable(facts):
    """Per table its rows as a multiset; minute_stats added up over batches and buckets."""
    rows = {
        name: Counter(repr(sorted(row.items())) for row in table.to_pylist())
        for name, table in facts.tables().items()
        if name not in ("minute_stats", "coverage")
    }
    return rows | {"minute_stats": minutes(facts), "coverage": stretches(facts)}


def stretches(facts):
    """Until when each stretch goes as of its last row."""
    last = {}
    for row in facts.coverage.to_pylist():
        to_ts = row.pop("to_ts")
        key = repr(sorted(row.items()))
        last[key] = max(last.get(key, to_ts), to_ts)
    return last


def minutes(facts):
    total = {}
    for row in facts.minute_stats.to_pylist():
        counts = total.setdefault((row["cluster"], row["broker_id"], row["minute"]), Counter())
        counts.update(dict(row["counts"]))
        for name in ("append_to_hw", "lag"):
            counts.update({(name, k): v for k, v in enumerate(row[name])})
    return {place: {k: v for k, v in counts.items() if v} for place, counts in total.items()}


def whole(cluster):
    return run([cluster.rows])


def run(batches, restart=False):
    reconstructor, parts = Reconstructor(RULES), []
    for number, rows in enumerate(batches):
        if restart:
            reconstructor = Reconstructor.restore(reconstructor.snapshot())
        parts.append(reconstructor.update(events_of(rows), batch_id=number))
    return comparable(Facts.concat([*parts, reconstructor.finish(len(batches))]))


def run_in_buckets(batches, buckets):
    shards = [Reconstructor(RULES, bucket=bucket, buckets=buckets) for bucket in range(buckets)]
    parts = []
    for number, rows in enumerate(batches):
        events = events_of(rows)
        bucket_of, telemetry = assign(events, buckets), coverage(events)
        for bucket, shard in enumerate(shards):
            mine = events.filter(pa.array((bucket_of == bucket) | (bucket_of < 0)))
            parts.append(shard.update(mine, telemetry, batch_id=number))
    return comparable(Facts.concat([*parts, *(shard.finish(len(batches)) for shard in shards)]))


def differences(one, other):
    """What only one of the two has, per table: empty when they are the same."""
    found = {}
    for name in one:
        if isinstance(one[name], Counter):
            found[name] = {"missing": list(one[name] - other[name]), "extra": list(other[name] - one[name])}
        else:
            places = set(one[name]) | set(other[name])
            uneven = {
                p: (one[name].get(p), other[name].get(p)) for p in places if one[name].get(p) != other[name].get(p)
            }
            found[name] = {"uneven": list(uneven.items())}
    return {name: kinds for name, kinds in found.items() if any(kinds.values())}


@pytest.mark.nightly
@examples
@given(HISTORIES, st.integers(0, 1000))
def test_the_order_of_rows_does_not_matter(cluster, seed):
    shuffled = Random(seed).sample(cluster.rows, len(cluster.rows))
    assert differences(whole(cluster), run([shuffled])) == {}


@pytest.mark.nightly
@examples
@given(HISTORIES, st.integers(0, 1000))
def test_repeats_do_not_matter(cluster, seed):
    repeated = cluster.rows + Random(seed).choices(cluster.rows, k=20)
    assert differences(whole(cluster), run([repeated])) == {}


@pytest.mark.nightly
@examples
@given(HISTORIES, st.integers(0, 1000), st.integers(2, 9))
def test_how_events_are_cut_into_batches_does_not_matter(cluster, seed, batches):
    assert differences(whole(cluster), run(deliver(cluster.rows, Random(seed), batches, repeats=0))) == {}


@pytest.mark.nightly
@examples
@given(HISTORIES, st.integers(0, 1000), st.integers(2, 9))
def test_restarts_and_late_repeats_do_not_matter(cluster, seed, batches):
    parts = deliver(cluster.rows, Random(seed), batches, repeats=20)
    assert differences(whole(cluster), run(parts, restart=True)) == {}


@examples
@given(HISTORIES, st.integers(0, 1000), st.integers(1, 6))
def test_the_number_of_buckets_does_not_matter(cluster, seed, batches):
    parts = deliver(cluster.rows, Random(seed), batches, repeats=0)
    assert differences(whole(cluster), run_in_buckets(parts, 3)) == {}


@pytest.mark.nightly
@examples
@given(st.builds(Cluster, **SIZE, losses=st.just(True)), st.integers(0, 1000), st.integers(2, 9))
def test_lost_telemetry_is_missed_at_the_same_place_however_it_is_cut(cluster, seed, batches):
    parts = deliver(cluster.rows, Random(seed), batches, repeats=0)
    assert differences(whole(cluster), run(parts, restart=True)) == {}


def test_whether_a_former_leader_was_alone_in_a_big_enough_isr_is_asked_as_of_the_end_of_its_term():
    rows = Cluster(424, 55, configs=True, losses=True).rows
    parts = deliver_by_source(rows, Random(821), 9, RULES.reorder_grace_ms - 1)
    assert differences(run([rows]), run(parts)) == {}


@pytest.mark.parametrize(
    ("seed", "steps", "order", "batches"), [(29, 35, 0, 4), (58, 60, 0, 4), (99, 45, 204, 8), (389, 62, 588, 7)]
)
def test_lost_telemetry_that_once_depended_on_the_cut(seed, steps, order, batches):
    """Of several rows behind holes the first counts; what waited is not late; a HW is asked for as of its time."""
    rows = Cluster(seed, steps, losses=True).rows
    assert differences(run([rows]), run(deliver(rows, Random(order), batches, repeats=0))) == {}


@pytest.mark.parametrize(("seed", "steps", "order", "batches"), [(54, 78, 449, 4), (62, 79, 66, 4), (130, 53, 279, 8)])
def test_sources_known_late_that_once_changed_the_facts(seed, steps, order, batches):
    """The shrink that ends a full ISR waits for settings of others; a term begins neither frozen nor thawed."""
    rows = Cluster(seed, steps, configs=True).rows
    parts = deliver_by_source(rows, Random(order), batches, RULES.reorder_grace_ms - 1)
    assert differences(run([rows]), run(parts)) == {}


@pytest.mark.nightly
@examples
@given(st.builds(Cluster, **SIZE, configs=st.just(True)), st.integers(0, 1000), st.integers(2, 9))
def test_sources_first_known_after_others_count_as_if_they_had_come_first(cluster, seed, batches):
    """No source is later than the grace: nothing differs, and nothing is called late."""
    parts = deliver_by_source(cluster.rows, Random(seed), batches, RULES.reorder_grace_ms - 1)
    assert differences(whole(cluster), run(parts, restart=True)) == {}


@examples
@given(st.builds(Cluster, **SIZE, configs=st.just(True)), st.integers(0, 1000), st.integers(2, 9))
def test_changed_settings_hold_from_the_same_time_however_they_are_cut(cluster, seed, batches):
    parts = deliver(cluster.rows, Random(seed), batches, repeats=0)
    assert differences(whole(cluster), run(parts, restart=True)) == {}


def deposed_leader_goes_on():
    """Broker 1 does not know of broker 2's term, in which its follower 3 fetches from it all the same, for 3 s."""
    old, new = Source("broker-1/replication.log"), Source("broker-2/replication.log")
    old.leader(0, 0, 0, 0, [1, 3], replicas=[1, 2, 3]).append(10, 50).fetch(20, 3, 5)
    new.leader(100, 1, 5, 5, [2], replicas=[1, 2, 3]).progress(40_000)
    for k in range(6, 12):
        old.fetch(500 * (k - 5), 3, k).hw(500 * (k - 5), k)
    old.progress(4000).fetch(20_000, 3, 20).hw(20_000, 20).progress(40_000)
    return sorted(old.rows + new.rows, key=lambda row: row["ts"])


def test_what_a_deposed_leader_still_commits_is_published_the_same_however_it_is_cut():
    rows = deposed_leader_goes_on()
    expected = run([rows])
    losses = [(row["revision"], row["lost_to"]) for row in replay(events_of(rows), RULES).hw_regressions.to_pylist()]
    assert losses == [(1, None), (2, 11), (3, 20)]
    for cut in (1, 2, 5):
        pieces = [rows[k : k + cut] for k in range(0, len(rows), cut)]
        assert differences(run(pieces), expected) == {}
        assert differences(run(pieces, restart=True), expected) == {}
