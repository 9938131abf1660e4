"""`--since` in words."""

from datetime import UTC, datetime, timedelta

import pytest

from pipelines.errors import UsageError
from pipelines.verdict.since import since_of, starts

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("90m", timedelta(minutes=90)),
        ("3d", timedelta(days=3)),
        ("2026-01-01T13:00:00+01:00", NOON),
        ("2026-01-01T12:00:00", NOON),
        ("all", None),
    ],
)
def test_since(words, meant):
    assert since_of(words) == meant


def test_what_is_no_time_is_refused():
    with pytest.raises(UsageError, match="--since 5w is no time"):
        since_of("5w")


def test_a_span_ends_at_the_present_of_each_cluster():
    presents = {"a": NOON, "b": NOON - timedelta(days=9)}
    assert starts(timedelta(hours=1), presents) == {c: ts - timedelta(hours=1) for c, ts in presents.items()}
    assert starts(NOON, presents) == NOON
    assert starts(None, presents) is None
