"""`run --accept-removal VERSION` takes a version that took rows out of bronze, and no other number."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from pipelines.errors import UsageError
from pipelines.lake.bronze import append_events
from pipelines.lake.lake import Lake
from pipelines.streaming.checkpoint.offsets import accepted_removals
from pipelines.streaming.job import _accept_removal
from schemas import replication_events

ROW = {"cluster": "c", "source_id": "s", "source_epoch": 0, "broker_id": 1, "event_type": "progress", "partition": -1}
ROW |= {"ts": datetime(2026, 1, 1, tzinfo=UTC), "level": 3}


@pytest.fixture
def lake(tmp_path):
    place = Lake(str(tmp_path))
    for number in range(2):
        rows = pa.Table.from_pylist([ROW | {"source_seq": number, "seq": number}], replication_events.ARROW)
        append_events(place.root, rows, app_id="w", version=number)
    return place


@pytest.mark.parametrize("version", [1, 3, 4])
def test_a_number_that_is_no_removal_is_refused_and_not_recorded(lake, version):
    """A DELETE may make it later: that would be read over in silence."""
    with pytest.raises(UsageError, match=rf"version {version} of bronze .* took no rows out.*newest is 2"):
        _accept_removal(lake, version)
    assert accepted_removals(lake) == []


def test_a_removal_is_recorded_and_may_be_named_again(lake, monkeypatch):
    lake.open(replication_events.TABLE).delete("source_seq = 0")
    _accept_removal(lake, 3)
    monkeypatch.setattr("pipelines.streaming.job.actions", lambda *args: [])
    _accept_removal(lake, 3)
    assert accepted_removals(lake) == [3]
