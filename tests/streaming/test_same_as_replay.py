"""The streaming road gives the silver rows of `replay`, however the telemetry is cut, ordered, repeated and spread."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from generators import traces
from generators.brokerlogs.ingest import read_logs
from pipelines.replication import Rules, replay
from pipelines.streaming.drain import closing_row
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
