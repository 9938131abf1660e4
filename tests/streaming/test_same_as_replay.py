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


def assert_same(facts, expected):
    for kind in KINDS:
        if kind != "minute_stats":
            assert same_rows(getattr(facts, kind)) == same_rows(getattr(expected, kind)), kind
    assert added_up(facts.minute_stats) == added_up(expected.minute_stats)


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize(("buckets", "seed"), [(1, 1), (4, 2), (7, 3)])
def test_any_cut_order_repeats_and_number_of_buckets(events_of, scenario, buckets, seed):
    events = events_of(scenario)
    facts = reconstruct([*cut(events, seed, window_ms=20_000), [closing(events)]], Rules(), buckets)
    expected = replay(events)
    assert len(expected.partition_hw) > 1000
    assert_same(facts, expected)
