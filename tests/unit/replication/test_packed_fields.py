"""Numbers that share 64 bits, or have a sentinel beside them, at both edges (docs/state-format.md has the list).

The last value that fits counts where it stands, one beyond goes to quarantine, and neither changes anything of another
topic, broker or cluster.
"""

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipelines.replication import Reconstructor, Rules, replay
from pipelines.replication.compiled.hash_index import Keys
from pipelines.replication.events.row_rules import ROW_RULES
from pipelines.replication.telemetry.coverage import SourcedRows
from schemas import replication_events
from tests.unit.replication.bronze import Source, events_of, table
from tests.unit.replication.test_row_rules import event

pytestmark = pytest.mark.long

INT, LONG = (1 << 31) - 1, (1 << 62) - 1
"""The last of Kafka's ints, and the last 64-bit number below NEVER."""
EDGES = {
    **dict.fromkeys(("partition", "broker_id", "leader_id"), (-1, INT)),
    **dict.fromkeys(("leader_epoch", "partition_epoch", "controller_epoch"), (-1, INT)),
    **dict.fromkeys(("leo", "leader_leo", "hw", "hw_before", "log_start", "broker_epoch"), (-1, LONG)),
    **dict.fromkeys(("seq", "source_seq"), (0, LONG)),
    "replica_id": (0, INT), "source_epoch": (0, INT), "min_isr": (1, INT), "lag_max_ms": (1, INT), "level": (0, 3),
}  # fmt: skip
"""By column the first and the last value that counts. An int has none beyond INT."""
UNBOUNDED = {"repeats"}
"""Cut off at MOST_REPEATS where it is packed."""
CARRIERS = {"replica_id": "fetch", "leader_leo": "append", "hw": "follower", "hw_before": "hw", "broker_epoch": "fetch",
            "min_isr": "config", "lag_max_ms": "config"}  # fmt: skip
BESIDE = {"leo": {"hw": -1}, "hw": {"leo": LONG}, "replica_id": {"replicas": None}}


def story():
    source = Source().leader(0, 0, 0, 0, [1, 2], replicas=[1, 2]).append(100, 10).fetch(200, 2, 10, 10).hw(200, 10)
    return source.append(1000, 20).fetch(40_000, 2, 20, 20).hw(40_000, 20).progress(60_000)


def of_clicks(facts):
    return {
        name: sorted(map(repr, rows.filter(pc.equal(rows["topic"], "clicks")).to_pylist()))
        for name, rows in vars(facts).items()
        if "topic" in rows.column_names
    }


def test_every_number_of_bronze_has_its_edges():
    integer = {field.name for field in replication_events.ARROW if pa.types.is_integer(field.type)}
    assert integer == EDGES.keys() | UNBOUNDED
    rules = {rule.name for rule in ROW_RULES}
    assert all(f"{name}_below_{least}" in rules for name, (least, _) in EDGES.items())
    assert all(f"{name}_above_{most}" in rules for name, (_, most) in EDGES.items() if most != INT)


@pytest.mark.parametrize("name", EDGES)
def test_the_last_value_that_fits_counts_and_one_beyond_goes_to_quarantine(name):
    kind, (least, most) = CARRIERS.get(name, "leader"), EDGES[name]
    clicks = of_clicks(replay(table(story())))
    for value in (least - 1, least, most, most + 1):
        if not -INT - 1 <= value <= INT and replication_events.ARROW.field(name).type == pa.int32():
            continue
        given = {"topic": "other", "source_id": "broker-1/other"} | BESIDE.get(name, {}) | {name: value}
        if name in ("broker_id", "partition") and value == -1:
            given |= {"event_type": "progress", "partition": -1, "topic": None}
        row = event(kind, **given)
        facts = replay(pa.concat_tables([table(story()), events_of([row])]))
        assert facts.quarantine["source_id"].to_pylist() == ([] if least <= value <= most else ["broker-1/other"]), (
            value
        )
        assert of_clicks(facts) == clicks, value


@pytest.mark.parametrize("partition", [(1 << 23) - 1, 1 << 23, (1 << 24) - 1, 1 << 24, INT])
def test_a_partition_is_booked_under_its_own_number(partition):
    """From 2^24 on it was that of the next topic, whose HW it moved."""
    many = story().on(partition=partition).leader(10, 0, 5, 5, [1], replicas=[1]).append(500, 9).progress(70_000)
    facts = replay(table(many))
    assert of_clicks(facts) != of_clicks(replay(table(story())))
    own = facts.partition_hw.filter(pc.equal(facts.partition_hw["partition"], partition))
    assert own["hw"].to_pylist() == [5, 9]
    rest = facts.partition_hw.filter(pc.equal(facts.partition_hw["partition"], 0))
    assert rest.equals(replay(table(story())).partition_hw)


@pytest.mark.parametrize("broker", [(1 << 24) - 2, (1 << 24) - 1, 1 << 24, INT])
def test_what_a_broker_does_is_counted_under_its_own_id(broker):
    """Ids made of IP addresses; from 2^24 - 1 on they were counted under another one."""
    large = Source(f"broker-{broker}/replication.log").on(topic="other")
    large.leader(0, 0, 0, 0, [broker], replicas=[broker]).append(100, 4).hw(100, 4).progress(60_000)
    facts = replay(table(story(), large))
    counted = Counter[int]()
    for row in facts.minute_stats.to_pylist():
        counted[row["broker_id"]] += dict(row["counts"]).get("events", 0)
    assert counted == {1: 8, broker: 4}
    assert facts.partition_hw.filter(pc.equal(facts.partition_hw["topic"], "other"))[
        "leader_id"
    ].unique().to_pylist() == [broker]


def test_what_a_cluster_does_is_counted_under_its_own_name():
    """The 4,097th was counted as the first."""
    rows = [event("append", cluster=f"c{k}", leader_leo=k) for k in range(4_100)]
    counted = replay(events_of(rows)).minute_stats.to_pylist()
    assert sorted(row["cluster"] for row in counted if dict(row["counts"]).get("events")) == sorted(
        row["cluster"] for row in rows
    )


@pytest.mark.nightly
@pytest.mark.parametrize("names", ["topics", "source_names"])
def test_more_topics_or_sources_than_20_bits_number(names):
    def facts(known):
        reconstructor = Reconstructor(Rules())
        for k in range(known):
            getattr(reconstructor.state, names).number("none", f"{k}", *[0] * (names == "source_names"))
        other = Source("broker-1/other.log").on(topic="other").leader(5, 0, 3, 3, [1]).append(900, 7)
        first = reconstructor.update(table(story(), other)).partition_hw
        goes_on = Reconstructor.restore(reconstructor.snapshot())
        second = goes_on.update(table(other.append(1900, 8).progress(65_000)))
        return pa.concat_tables([first, second.partition_hw, goes_on.finish().partition_hw])

    assert facts((1 << 20) - 1).equals(facts(0))


def test_sources_are_told_apart_by_cluster_id_and_epoch():
    """Beyond 2^20 ids in one micro-batch they were those of another cluster."""
    ids = [f"{k}" for k in range((1 << 20) + 2)]
    rows = pa.table({"source_id": ids}).append_column("cluster", pa.array(np.where(np.arange(len(ids)) % 2, "a", "b")))
    for name in ("source_epoch", "source_seq", "ts"):
        kind = replication_events.ARROW.field(name).type
        rows = rows.append_column(name, pa.array(np.full(len(ids), INT), pa.int64()).cast(kind))
    sourced = SourcedRows(rows)
    assert sourced.names == [("a" if k % 2 else "b", name, INT) for k, name in enumerate(ids)]
    assert np.concatenate(sourced.source_of).tolist() == list(range(len(ids)))


def test_keys_of_two_parts():
    """Both parts tell keys apart, before and after the table was made wider."""
    keys = Keys(np.array([5, 5, 6]), np.array([0, -1, 1 << 20]))
    assert (keys.keys.tolist(), keys.seconds.tolist()) == ([5, 5, 6], [0, -1, 1 << 20])
    for _, bits in itertools.pairwise(range(4)):
        keys.widen()
        assert (keys.keys.tolist(), keys.seconds.tolist()) == ([5, 5, 6], [0, -1, 1 << 20]), bits
    assert (keys.find(5), keys.find(6)) == (0, -1)
