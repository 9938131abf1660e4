"""What is removed with a cluster, and what is said to be left."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from generators.brokerlogs.ingest import read_logs
from generators.recordings import traces
from pipelines.lake.bronze import append_events
from pipelines.lake.lake import Lake
from pipelines.lake.removal import remove_unnamed
from schemas import notes


def test_a_dead_file_that_cannot_be_read_is_left_and_named(tmp_path: Path) -> None:
    """It was passed over, as if it had no rows of the cluster."""
    events = read_logs([traces.path("unclean_election")], "gone")
    append_events(str(tmp_path / "lake"), events, app_id="test", version=1)
    place = Lake(str(tmp_path / "lake"))
    folder = tmp_path / "lake" / "bronze" / "replication_events"
    (folder / "torn.parquet").write_bytes(b"PAR1 cut off")
    pq.write_table(events.slice(0, 5), folder / "dead.parquet")
    assert remove_unnamed(place, "replication_events", "another") == (0, ["torn.parquet"])
    assert remove_unnamed(place, "replication_events", "gone") == (1, ["torn.parquet"])
    assert not (folder / "dead.parquet").exists()


def test_a_file_of_a_note_that_is_not_committed_yet_is_left(tmp_path: Path) -> None:
    """`hwmark note` holds no role: its commit named a file that was gone, and no note could be read any more."""
    place, folder = Lake(str(tmp_path / "lake")), tmp_path / "lake" / "ops" / "notes"
    row = {"cluster": "another", "handled": False, "text": "", "written_at": datetime(2026, 1, 1, tzinfo=UTC)}
    place.append(notes.TABLE, pa.Table.from_pylist([row], schema=notes.ARROW))
    for cluster in ("another", "gone"):
        pq.write_table(pa.table({"cluster": [cluster]}), folder / f"{cluster}.parquet")
    assert remove_unnamed(place, "notes", "gone") == (1, [])
    assert (folder / "another.parquet").exists()
