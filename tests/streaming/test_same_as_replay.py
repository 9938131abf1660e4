"""The streaming road gives the silver rows of `replay`, however the telemetry is cut, ordered, repeated and spread."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from generators.brokerlogs.ingest import read_logs
from generators.recordings import traces
from pipelines.replication import Rules, replay
from pipelines.streaming.source.drain import closing_row
from pipelines.streaming.tables import KINDS
from tests.streaming.shell import added_up, cut, reconstruct, same_rows

SCENARIOS = traces.scenarios()


@pytest.fixture(scope="module")
def events_of():
    read = {}

    def events(scenario):
        if scenario not in read:
            read[scenario] = read_logs([traces.path(scenario)], scenario)
        return read[scenario]

    return events


def closing(events):
    """The row that `--drain` appends."""
    row = closing_row(events["cluster"][0].as_py(), pc.max(events["ts"]).as_py(), 0)
    return pa.Table.from_pylist([row], events.schema)


def streamed(events, buckets, seed, repeated=0.0):
    return reconstruct([*cut(events, seed, repeated=repeated), [closing(events)]], Rules(), buckets)


def replayed(events):
    return replay(pa.concat_tables([events, closing(events)]))


def assert_same_silver(facts, expected):
    for kind in KINDS:
        if kind != "minute_stats":
            assert same_rows(getattr(facts, kind)) == same_rows(getattr(expected, kind)), kind


def assert_same_minutes(facts, expected):
    got, want = added_up(facts.minute_stats), added_up(expected.minute_stats)
    assert {key: (got.get(key), want.get(key)) for key in got | want if got.get(key) != want.get(key)} == {}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize(("buckets", "seed"), [(1, 1), (4, 2)])
def test_any_cut_order_and_number_of_buckets(events_of, scenario, buckets, seed):
    expected = replayed(events_of(scenario))
    assert len(expected.partition_hw) > 1000
    assert_same_silver(streamed(events_of(scenario), buckets, seed), expected)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_any_cut_gives_the_same_minutes(events_of, scenario):
    assert_same_minutes(streamed(events_of(scenario), 4, 2), replayed(events_of(scenario)))


def test_repeats_change_nothing(events_of):
    facts, expected = streamed(events_of("leader_crash"), 1, 1, repeated=0.01), replayed(events_of("leader_crash"))
    assert_same_silver(facts, expected)
    assert_same_minutes(facts, expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("sourceless", [False, True])
@pytest.mark.parametrize("buckets", [1, 4])
def test_a_broken_broker_wide_row_is_set_aside_once(events_of, buckets, sourceless):
    events = events_of("leader_crash")
    wide = pc.less(events["partition"], 0)
    broken = pc.and_(wide, pc.equal(pc.bit_wise_and(events["source_seq"], 3), 0))
    kinds = pc.if_else(broken, "rumour", events["event_type"])
    nobody = pc.and_(broken, sourceless)
    sources = pc.if_else(nobody, pa.scalar(None, pa.string()), events["source_id"])
    for name, column in (("event_type", kinds), ("source_id", sources)):
        at = events.schema.get_field_index(name)
        events = events.set_column(at, pa.field(name, pa.string()), column)
    facts, expected = streamed(events, buckets, 3), replayed(events)
    assert len(expected.quarantine) == pc.sum(broken).as_py() > 10
    assert same_rows(facts.quarantine) == same_rows(expected.quarantine)
    if not sourceless:  # numbers that nobody reports are missing telemetry
        assert_same_minutes(facts, expected)
