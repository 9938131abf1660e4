"""Brokers with an estimate of when they have caught up, and racks as the sums of their brokers."""

from datetime import UTC, datetime, timedelta

import pytest

from pipelines.verdict.brokers import SUMS, estimated, racks

NOON = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)


def lag(seconds, records, level=3):
    return {"ts": NOON + timedelta(seconds=seconds), "lag_records": records, "level": level}


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ([lag(0, 30), lag(10, 20), lag(20, 10)], "in about 10 s (10 s to 10 s)"),
        ([lag(0, 30), lag(10, 30), lag(20, 30)], "not catching up"),
        ([lag(0, 30), lag(10, None), lag(20, 10), lag(30, 5)], "not known"),
        ([lag(0, 30, 2), lag(10, 20), lag(20, 10)], "not known"),
        ([lag(0, 30, 0), lag(10, 20), lag(20, 10)], "not known"),
        ([lag(0, 30, None), lag(10, 20), lag(20, 10)], "not known"),
        ([], "not known"),
    ],
)
def test_an_estimate_needs_every_lag_of_the_minute(points, words):
    assert estimated({"broker_id": 2}, points)["catch_up"] == words


def broker(broker_id, rack, **values):
    row = dict.fromkeys(SUMS, 0) | {"restarting_since": None, "last_reported_ts": NOON, "holds_back_of": []}
    return row | {"cluster": "prod", "broker_id": broker_id, "rack": rack} | values


def test_a_rack_is_the_sum_of_its_brokers_and_those_without_one_come_last():
    found = racks(
        [
            broker(1, "a", led=2, holds_back=None, holds_back_of=None),
            broker(2, None, led=4, last_reported_ts=None),
            broker(3, "a", led=1, holds_back=3, holds_back_of=[("1", 2), ("2", 1)], restarting_since=NOON),
            broker(4, "b", holds_back=None),
        ]
    )
    names = ("rack", "brokers", "led", "holds_back", "holds_back_of", "restarting", "last_reported_ts")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("a", [1, 3], 3, 3, {"1": 2, "2": 1}, [3], NOON),
        ("b", [4], 0, None, {}, [], NOON),
        (None, [2], 4, 0, {}, [], None),
    ]
