"""Which brokers are down, from what controllers and brokers said of them in order of time."""

from datetime import UTC, datetime, timedelta

import pytest

from pipelines.verdict.sources import Reports

NOON = datetime(2026, 9, 1, 12, tzinfo=UTC)


def state(detail, epoch=None):
    return detail, epoch


@pytest.mark.parametrize(
    ("states", "down_since"),
    [
        ([state("started", 5), state("unfenced", 5)], None),
        ([state("unfenced", 5), state("controlled_shutdown", 5), state("fenced", 5)], 2),
        ([state("controlled_shutdown", 5), state("started", 6)], None),
        ([state("unregistered", 5)], 0),
        ([state("unfenced", 6), state("fenced", 5)], None),
        ([state("unfenced", 6), state("fenced")], 1),
        ([state("fenced"), state("unfenced")], None),
        ([state("fenced"), state("started", 6)], None),
        ([], None),
    ],
    ids=[
        "up", "stopped", "back", "gone", "an old incarnation reported again by a controller that restarted",
        "no epoch is that of now", "back without an epoch", "back with one", "nothing said",
    ],
)  # fmt: skip
def test_a_broker_is_down(states, down_since):
    reports = Reports()
    for second, (detail, epoch) in enumerate(states):
        row = {"event_type": "broker_state", "replica_id": 1, "broker_epoch": epoch, "detail": detail}
        reports.take(row | {"first": NOON + timedelta(seconds=second)})
    assert reports.down == ({} if down_since is None else {1: NOON + timedelta(seconds=down_since)})
