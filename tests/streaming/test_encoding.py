"""Times and numbers are kept as differences in every file of a lake, whoever writes it; other columns repeat."""

import pyarrow.parquet as pq
import pytest

from pipelines.commands.maintain.command import maintain
from pipelines.lake.bronze import append_events, bronze
from pipelines.lake.data_file import DIFFERENCES, counted
from pipelines.lake.lake import Lake
from pipelines.streaming.tables import create_tables
from schemas import partition_hw, replication_events
from tests.streaming.events import history
from tests.streaming.test_sink import HW, writer, written


@pytest.fixture
def lake(tmp_path):
    """A lake of two commits of bronze and two of silver."""
    place, events = Lake(str(tmp_path), {}), history()
    create_tables(place)
    for version in range(2):
        append_events(str(tmp_path), events.slice(100 * version, 100), app_id="test", version=version)
        out = writer(place)
        out.commit([written(out, partition_hw=HW)], version)
    return place


def encodings(table):
    """By column, how the one file of a table keeps it."""
    (file,) = [pq.ParquetFile(path).metadata.row_group(0) for path in table.file_uris()[:1]]
    columns = [file.column(number) for number in range(file.num_columns)]
    return {column.path_in_schema.split(".")[0]: column.encodings for column in columns}


def test_the_counted_columns_are_times_and_64_bit_numbers():
    assert counted(partition_hw.ARROW) == ["ts", "hw", "reported_hw", "leader_leo"]
    assert {"source_seq", "seq", "ts", "leo", "hw"} <= set(counted(replication_events.ARROW))


@pytest.mark.parametrize("maintained", [False, True])
def test_they_are_kept_as_differences_before_and_after_compaction(lake, maintained):
    if maintained:
        assert "2 files into 1" in "".join(maintain(lake.root))
    for table, schema in ((bronze(lake.root), replication_events.ARROW), (lake.open("partition_hw"), HW.schema)):
        found = encodings(table)
        assert {name for name, kept in found.items() if DIFFERENCES in kept} == set(counted(schema))
        assert all("RLE_DICTIONARY" in found[name] for name in ("cluster", "topic", "partition"))
