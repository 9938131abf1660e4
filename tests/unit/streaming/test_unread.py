"""What the job has yet to read of each cluster, from its checkpoint and bronze's Delta log, without Spark."""

import json
from datetime import timedelta

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from pipelines.lake.bronze import append_events, bronze
from pipelines.lake.lake import Lake
from pipelines.streaming.checkpoint.offsets import begun, committed_offset, interval, remember_interval
from pipelines.streaming.source import unread
from pipelines.streaming.source.unread import bronze_of
from schemas import replication_events
from tests.unit.streaming.checkpoints import NOON, planned


def events(*clusters):
    row = {
        "source_id": "s", "source_epoch": 0, "seq": 0, "ts": NOON, "broker_id": 1, "event_type": "progress",
        "partition": -1, "level": 3,
    }  # fmt: skip
    rows = [row | {"cluster": name, "source_seq": n} for n, name in enumerate(clusters)]
    return pa.Table.from_pylist(rows, schema=replication_events.ARROW)


def commit(lake, *clusters, version=None):
    """One more commit of bronze, made so many minutes after NOON as it has versions."""
    table = DeltaTable(f"{lake}/{replication_events.TABLE.path}") if version else None
    number = table.version() if table else 0
    append_events(str(lake), events(*clusters), app_id="test", version=number)
    made = number + 1
    path = lake / f"bronze/replication_events/_delta_log/{made:020}.json"
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        if "commitInfo" in action:
            action["commitInfo"]["timestamp"] = int((NOON + timedelta(minutes=made)).timestamp() * 1000)
    path.write_text("".join(json.dumps(action) + "\n" for action in actions))


def arrow(version, index=0, snapshot=3, count=0):
    return {"snapshot": snapshot, "version": version, "index": index, "events": count}


def delta(version, index, starting=False):
    return {"sourceVersion": 1, "reservoirVersion": version, "index": index, "isStartingVersion": starting}


@pytest.fixture
def lake(tmp_path):
    """Version 1 has a and b, 2 only a, 3 only b, 4 only c; each but the first is a commit of two rows."""
    commit(tmp_path, "a", "b")
    for name in "abc":
        commit(tmp_path, name, name, version=True)
    return tmp_path


def backlogs(lake):
    return {
        name: (found.events, (found.oldest - NOON) // timedelta(minutes=1))
        for name, found in (bronze_of(Lake(str(lake))).backlogs or {}).items()
    }


EVERYTHING = {"a", "b", "c"}


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        pytest.param(arrow(5), {}, id="all read"),
        pytest.param(arrow(4), {"c": (2, 4)}, id="all but the last commit"),
        pytest.param(arrow(2, snapshot=1), {"a": (2, 2), "b": (2, 3), "c": (2, 4)}, id="all but three"),
        pytest.param(arrow(2, index=1, snapshot=1), {"b": (2, 3), "c": (2, 4)}, id="the first file of a commit"),
        pytest.param(delta(5, -1), {}, id="all read by Delta's own source"),
        pytest.param(delta(4, -1), {"c": (2, 4)}, id="Delta's index of -1 stands before a version"),
        pytest.param(delta(3, 0), {"b": (2, 3), "c": (2, 4)}, id="a version read in part counts as unread"),
    ],
)
def test_what_lies_behind_the_committed_offset_is_unread(lake, offset, expected):
    planned(lake, 0, offset)
    assert backlogs(lake) == expected


@pytest.mark.parametrize(("index", "names"), [(0, EVERYTHING), (4, set())])
def test_a_snapshot_may_be_read_in_part(lake, index, names):
    """Its files are read in order of time, which here is the same for all."""
    planned(lake, 0, arrow(4, index=index, snapshot=4))
    assert set(backlogs(lake)) == names


def test_without_a_checkpoint_nothing_is_read(lake):
    assert set(backlogs(lake)) == EVERYTHING
    assert committed_offset(Lake(str(lake))) is None


def test_what_a_batch_in_flight_reads_is_not_read(lake):
    planned(lake, 0, arrow(4))
    planned(lake, 1, arrow(5), done=False)
    assert backlogs(lake) == {"c": (2, 4)}


def test_compacted_files_are_no_news(lake):
    planned(lake, 0, arrow(4))
    bronze(str(lake)).optimize.compact()
    assert backlogs(lake) == {"c": (2, 4)}


def test_where_the_log_is_gone_nothing_counts_as_read(lake):
    planned(lake, 0, arrow(2, snapshot=1))
    DeltaTable(f"{lake}/bronze/replication_events").create_checkpoint()
    (lake / "bronze/replication_events/_delta_log/00000000000000000003.json").unlink()
    assert set(backlogs(lake)) == EVERYTHING


def test_statistics_name_the_clusters_and_else_the_file_does(lake, monkeypatch):
    planned(lake, 0, arrow(4))
    monkeypatch.setattr(unread, "TRUSTED", 1)  # as if the names were so long that statistics cut them off
    assert backlogs(lake) == {"c": (2, 4)}
    assert bronze_of(Lake(str(lake))).clusters == {"c"}


def test_the_clusters_of_bronze_are_known_though_all_is_read(lake):
    planned(lake, 0, arrow(5))
    assert bronze_of(Lake(str(lake))).clusters == EVERYTHING


def test_no_bronze_has_no_clusters(tmp_path):
    assert bronze_of(Lake(str(tmp_path))).clusters == frozenset()


def test_the_batch_in_flight_says_what_it_reads_and_since_when(lake):
    planned(lake, 0, arrow(4, count=10))
    assert begun(Lake(str(lake))) is None
    planned(lake, 1, arrow(5, count=17), done=False, at=NOON)
    flight = begun(Lake(str(lake)))
    assert (flight.batch_id, flight.events, flight.at) == (1, 7, NOON)


def test_the_first_batch_in_flight_is_seen(lake):
    planned(lake, 0, arrow(5, count=17), done=False)
    assert (begun(Lake(str(lake))).batch_id, begun(Lake(str(lake))).events) == (0, 17)


def test_the_interval_is_that_of_the_job_that_ran_last(tmp_path):
    assert interval(Lake(str(tmp_path))) is None
    remember_interval(Lake(str(tmp_path)), 600)
    assert interval(Lake(str(tmp_path))) == 600
    remember_interval(Lake(str(tmp_path)), None)
    assert interval(Lake(str(tmp_path))) is None
