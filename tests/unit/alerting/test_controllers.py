"""Alerts of the controllers, as a watcher was told of them."""

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from pipelines.alerting.downtime import Downtime
from pipelines.alerting.evaluate import evaluate
from pipelines.alerting.incidents import OPEN, PLANNED, incidents
from pipelines.alerting.lookup import read_states
from pipelines.lake.lake import Lake
from schemas import brokers, replication_events
from tests.unit.alerting.evidence_rows import at
from tests.unit.alerting.test_evaluate import health, no_counts, progress, put

GONE, NO_SPARE = "quorum: none is reached by brokers 1, 2", "quorum: 3 voters, 2 caught up, none to spare"


def told(lake, quorum, seconds, since=100):
    rows = [no_counts("c", b, ts=at(seconds), quorum=quorum, quorum_since=at(since)) for b in (1, 2)]
    put(lake, brokers, *rows, mode="overwrite")
    put(lake, replication_events, progress(seconds) | {"topic": None, "source_seq": seconds})
    return [(s.rule, s.severity, s.firing, s.summary) for s in evaluate(lake, now=at(seconds))]


@pytest.fixture
def lake(tmp_path):
    place = str(tmp_path / "lake")
    put(place, replication_events, progress(0) | {"topic": None})
    health(place, 100)
    return place


def test_no_controller_wakes_somebody_once_a_watcher_tells_it_and_ends(lake):
    """It was asked for 40 s by then: for so long a broker may wait for a controller that hangs."""
    waiting = "quorum: not known, brokers 1, 2 got no answer of a controller"
    assert told(lake, waiting, 129, since=95) == []
    ((rule, severity, firing, summary),) = told(lake, GONE, 130)
    assert (rule, severity, firing) == ("no_controller", "critical", True)
    assert "no controller since 2026-11-21 12:01:40 UTC (told by brokers 1, 2)" in summary
    ((rule, _, firing, _),) = told(lake, "quorum: 3 voters, 3 caught up", 150, since=145)
    assert (rule, firing) == ("no_controller", False)


def test_who_may_wait_for_a_controller_that_hangs_does_not_end_what_was_told(lake):
    assert [firing for _, _, firing, _ in told(lake, GONE, 130)] == [True]
    ((_, _, firing, summary),) = told(lake, "quorum: not known, brokers 1, 2 got no answer of a controller", 150, 145)
    assert firing
    assert "not known since 2026-11-21 12:02:25 UTC" in summary


def test_a_quorum_with_none_to_spare_is_a_warning(lake):
    ((rule, severity, _, summary),) = told(lake, NO_SPARE, 160)
    assert (rule, severity) == ("quorum_no_spare", "warning")
    assert "3 voters, 2 caught up" in summary


@pytest.mark.parametrize(
    ("quorum", "brokers_away", "planned"),
    [
        ("3 voters, 2 caught up, without 2, none to spare", (2,), True),
        ("3 voters, 2 caught up, without 3, none to spare", (2,), False),
        ("5 voters, 3 caught up, without 2 3, none to spare", (2,), False),
        ("5 voters, 3 caught up, without 2 3, none to spare", None, True),
        ("3 voters, 2 caught up, none to spare", (2,), False),
    ],
)
def test_a_downtime_explains_a_quorum_that_lacks_its_brokers_alone(lake, quorum, brokers_away, planned):
    told(lake, f"quorum: {quorum}", 160)
    window = Downtime("d", "c", brokers_away, None, at(0), at(600), "kernel", None, at(0))
    (row,) = incidents(read_states(Lake(lake)), [window], at(170))
    assert row.state == (PLANNED if planned else OPEN)


def test_brokers_written_before_the_controllers_were_asked_raise_nothing(lake):
    table = brokers.ARROW
    old = [k for k, name in enumerate(table.names) if not name.startswith("quorum")]
    schema = pa.schema([table.field(k) for k in old])
    rows = pa.Table.from_pylist([no_counts("c", 1, ts=at(200))], schema)
    write_deltalake(f"{lake}/{brokers.TABLE.path}", rows)
    assert evaluate(lake, now=at(200)) == []
