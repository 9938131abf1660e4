"""A lake with a watcher that commit a2bf53c has run half-way goes on to the facts of the whole."""

import io
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.replication import Facts, Reconstructor, Rules, replay
from pipelines.replication.events.sharding import assign
from pipelines.replication.telemetry.coverage import coverage
from schemas.event_types import TOPIC_GONE
from tests.unit.replication.bronze import events_of
from tests.unit.replication.test_rules_set_of_events import comparable, differences
from tests.unit.replication.watching import cluster, in_time

STORED = Path(__file__).parents[2] / "golden" / "watched" / "a2bf53c.zip"
"""By number of buckets the states after the first half, and its facts, as that commit has written them."""
RULES = Rules(lag_max_ms=2000, reorder_grace_ms=5000, min_isr=1)
CUT_MS, END_MS, GONE = 12_000, 60_000, "deleted"
BUCKETS = 1, 2


def story():
    """Rows of a watcher of seven partitions, (first half, second half). Until the cut all offsets only grow but

    - 0: a follower stays behind, until later;
    - 1: its leader falls silent, another one begins with less than was sampled;
    - 2: one replica is not answered, and is again later;
    - 3: a row comes later, so that others wait for it over the cut;
    - 4: the topic is made anew, 5: another one is deleted;
    - 6: under min ISR, its HW not known at first.
    """
    one, two, three = brokers = cluster()
    one.config(0, lag_max_ms=2000).config(1, topic="few", min_isr=2)
    places = [("clicks", n) for n in range(4)] + [("anew", 4), (GONE, 5), ("few", 6)]
    for topic, partition in places:
        for broker in brokers:
            broker.on(topic=topic, topic_id=f"{topic}-id", partition=partition)
        _first_half(partition, *brokers)
        _second_half(partition, *brokers)
    for broker in brokers:
        broker.on(topic="anew", topic_id="second-id", partition=4)
    one.seen(25_000, 1, 0).leads(25_100, 0, 5, 0).leads(27_000, 0, 50, 40)
    two.follows(25_100, 0).follows(27_000, 50)
    three.follows(27_000, 50)
    one.round(*range(1000, 11_001, 1000), *range(15_000, END_MS, 1000))
    for broker in (two, three):
        broker.round(*range(1000, END_MS, 1000))
    rows = sorted(in_time(*brokers), key=lambda row: row["ts"])
    first = rows[0]["ts"]
    late = [row for row in rows if row["partition"] == 3 and row["seq"] == 4 and row["broker_id"] == 2]
    ends = {(row["source_id"], row["source_seq"]) for row in late}
    halves = [], []
    for row in rows:
        late_one = (row["source_id"], row["source_seq"]) in ends
        halves[row["ts"] - first > CUT_MS * 1000 or late_one].append(row)
    return halves


def _first_half(partition, one, two, three):
    isr = [1, 2] if partition == 6 else [1, 2, 3]
    one.seen(500, 1, 0, isr=isr).began(900, 0, 40, isr=isr)
    for n, ms in enumerate((1000, 3000, 5000, 7000, 9000, 11_000)):
        leo = 100 + 50 * n
        hw = None if partition == 6 and ms < 5000 else leo - 20
        one.leads(ms, 0, leo, hw, isr=[1] if partition == 6 and ms > 6000 else isr)
        two.follows(ms, leo)
        if partition == 2 and ms == 9000:
            three.unanswered(ms)
        elif not (partition == 0 and ms > 9000) and not (partition == 2 and ms > 9000):
            three.follows(ms, leo - 10 * (partition == 1))
    if partition == 6:
        one.seen(6500, 1, 0, isr=[1])


def _second_half(partition, one, two, three):
    if partition == 1:
        two.seen(14_000, 2, 1, isr=[2, 3]).began(14_500, 1, 290, isr=[2, 3]).leads(14_500, 1, 300, 280, isr=[2, 3])
        three.follows(14_600, 300, log_epoch=1)
        for ms in range(16_000, 50_000, 2000):
            two.leads(ms, 1, ms // 10, ms // 10 - 5, isr=[2, 3])
            three.follows(ms, ms // 10 - 5, log_epoch=1)
    elif partition == 5:
        for broker in (one, two, three):
            broker.unanswered(20_000, TOPIC_GONE)
    elif partition != 4:
        isr = [1, 2] if partition == 6 else [1, 2, 3]
        for ms in range(15_000, 50_000, 2000):
            one.leads(ms, 0, ms // 10, ms // 10 - 5, isr=isr)
            two.follows(ms, ms // 10 - 5)
            if partition != 0 or ms > 30_000:
                three.follows(ms, ms // 10 - 5)


def parts(rows, count=3):
    """So many micro-batches of these rows."""
    return [events_of(rows[len(rows) * n // count : len(rows) * (n + 1) // count]) for n in range(count)]


def go_on(machines, batches):
    """The facts of micro-batches for the buckets of a job."""
    facts = []
    for events in batches:
        bucket, covered = assign(events, len(machines)), coverage(events)
        for k, machine in enumerate(machines):
            facts.append(machine.update(events.filter(pa.array((bucket == k) | (bucket < 0))), covered))
    return facts


def store(path: Path = STORED) -> None:
    """What was stored, by the code that is checked out."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as stored:
        for buckets in BUCKETS:
            machines = [Reconstructor(RULES, bucket, buckets) for bucket in range(buckets)]
            facts = Facts.concat(go_on(machines, parts(story()[0])))
            for bucket, machine in enumerate(machines):
                _add(stored, f"{buckets}/state.{bucket}", machine.snapshot())
            for name, table in facts.tables().items():
                sink = io.BytesIO()
                with pa.ipc.new_stream(sink, table.schema) as stream:
                    stream.write_table(table)
                _add(stored, f"{buckets}/{name}", sink.getvalue())


def _add(stored: zipfile.ZipFile, name: str, data: bytes) -> None:
    stored.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_LZMA)


def first_half(buckets):
    """(the machines as they were at the cut, the facts until then)"""
    with zipfile.ZipFile(STORED) as stored:
        machines = [Reconstructor.restore(stored.read(f"{buckets}/state.{bucket}")) for bucket in range(buckets)]
        now = replay(events_of([])).tables()
        tables = {name: pa.ipc.open_stream(stored.read(f"{buckets}/{name}")).read_all() for name in now}
    filled = {name: pa.concat_tables([now[name], rows], promote_options="default") for name, rows in tables.items()}
    return machines, Facts(**filled)


@pytest.mark.parametrize("buckets", BUCKETS)
def test_a_state_with_samples_goes_on_to_the_facts_of_the_whole_story(buckets):
    first, second = story()
    machines, facts = first_half(buckets)
    rest = go_on(machines, parts(second))
    assert any(machine.state.steady for machine in machines)
    whole = comparable(replay(events_of(first + second), RULES))
    assert all(whole[name] for name in ("partition_hw", "replica_sync", "isr_changes", "hw_regressions"))
    ends = [machine.finish() for machine in machines]
    assert differences(whole, comparable(Facts.concat([facts, *rest, *ends]))) == {}


@pytest.mark.parametrize("buckets", BUCKETS)
def test_it_has_what_a_watcher_leaves_between_two_micro_batches(buckets):
    """Samples of each partition, rows that wait for one before them, and a replica that was not answered."""
    machines, _ = first_half(buckets)
    sampled = [one for machine in machines for one in machine.state.watched.partitions.values()]
    assert len(sampled) == 7
    assert sum(machine.state.waiting.num_rows for machine in machines) > 0
    assert any(not replica.answers for one in sampled for replica in one.sampled.values())
    assert any(one.frozen for one in sampled)


@pytest.mark.parametrize("buckets", BUCKETS)
def test_it_goes_on_to_the_present_of_the_whole_story(buckets):
    first, second = story()
    machines, _ = first_half(buckets)
    go_on(machines, parts(second))
    whole = Reconstructor(RULES)
    whole.update(events_of(first + second))
    rows = [row for machine in machines for row in machine.health().to_pylist()]
    assert sorted(map(repr, rows)) == sorted(map(repr, whole.health().to_pylist()))
