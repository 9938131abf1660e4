"""`--since` in words."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from pipelines.errors import UsageError
from pipelines.verdict.since import since_of, starts
from schemas.replication_events import FIRST, LAST

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("90m", timedelta(minutes=90)),
        ("3d", timedelta(days=3)),
        ("2026-01-01T13:00:00+01:00", NOON),
        ("2026-01-01T12:00:00", NOON),
        ("2100-06-01", datetime(2100, 6, 1, tzinfo=UTC)),
        (LAST.isoformat(), LAST),
        ("2010-01-01", FIRST),
        ("all", None),
    ],
)
def test_since(words, meant):
    assert since_of(words) == meant


@pytest.mark.parametrize("words", ["5w", "", "-1d", "٣d", "15m;"])
def test_what_is_no_time_is_refused(words):
    with pytest.raises(UsageError, match=f"--since {re.escape(words)} is no time"):
        since_of(words)


def test_a_span_ends_at_the_present_of_each_cluster():
    presents = {"a": NOON, "b": NOON - timedelta(days=9)}
    assert starts(timedelta(hours=1), presents) == {c: ts - timedelta(hours=1) for c, ts in presents.items()}
    assert starts(NOON, presents) == NOON
    assert starts(None, presents) is None


@pytest.mark.parametrize(
    "words",
    [
        "0001-01-01",
        "2101-01-01",
        "2009-12-31T23:59:59",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31",
        "2226-01-01",
        "99999999999d",
        "9999999999999d",
    ],
)
def test_what_no_event_can_be_of_is_refused(words):
    with pytest.raises(UsageError, match=f"--since {re.escape(words)} is (outside 2010 to 2100|more than 100 years)"):
        since_of(words)
