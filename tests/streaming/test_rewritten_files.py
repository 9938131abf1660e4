"""A footer that is not of its rows is not believed: the facts are those of the rows, however a tool has changed them.

pyarrow keeps a footer's text in the schema of the table that it reads, and writes it into the next footer.
"""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pipelines.lake import bucket_layout
from pipelines.lake.bronze import append_events, bronze, bronze_uri
from pipelines.lake.bucket_layout import COVERAGE, KEY, coverage_in, coverage_text
from pipelines.lake.data_file import DataFile, Written, statistics
from pipelines.lake.file_systems import file_system
from pipelines.lake.row_groups import row_groups
from pipelines.lake.table import add_files
from pipelines.replication.telemetry.coverage import coverage
from pipelines.streaming.source.suitable import UnreadableFileError
from schemas import replication_events
from tests.streaming.planned import PlannedJob
from tests.streaming.test_time_order import assert_read_as_one, clusters, slices

HOUR_US = 3_600_000_000


def put(events, name, values):
    at = events.schema.get_field_index(name)
    return events.set_column(at, events.schema.field(at), values.cast(events.schema.field(at).type))


def rename(name, old, new):
    return lambda events: put(events, name, pc.replace_substring_regex(events[name].cast(pa.string()), old, new))


def later(events):
    return put(events, "ts", pc.add(events["ts"].cast(pa.int64()), HOUR_US).cast(events["ts"].type))


CHANGES = {
    "another cluster": rename("cluster", "^.*$", "other"),
    "topics without their names": rename("topic", "^", "anonymous-"),
    "a source with another name": rename("source_id", "broker-2", "broker-8"),
    "an hour later": later,
    "other numbers": lambda events: put(events, "source_seq", pc.add(events["source_seq"], 5000)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("passed_on", [False, True], ids=["read by those who need it", "passed on"])
def test_rows_that_a_tool_changed_where_they_lay(tmp_path, monkeypatch, change, passed_on):
    monkeypatch.setattr(bucket_layout, "ROWS", 64)
    live, _ = clusters()
    for number, events in enumerate(slices(live, 20)):
        append_events(str(tmp_path / "ours"), events, app_id="test", version=number, layout="buckets")
    for uri in bronze(str(tmp_path / "ours")).file_uris():
        write_anew(tmp_path / "theirs", uri, change)
    assert_read_as_one(tmp_path / "theirs", PlannedJob(tmp_path / "theirs", 3_000, 4, passed_on=passed_on).run())


def write_anew(lake, uri, change):
    """Each row group by itself, as tools do that change what is too large for their memory."""
    ours, name = pq.ParquetFile(uri), uri.rsplit("/", 1)[1]
    schema = pa.schema(ours.schema_arrow, metadata=ours.read_row_group(0).schema.metadata)
    assert KEY in schema.metadata
    table = bronze(str(lake))
    with pq.ParquetWriter(f"{bronze_uri(str(lake))}/{name}", schema) as writer:
        for group in range(ours.num_row_groups):
            writer.write_table(change(ours.read_row_group(group)).cast(schema))
    commit(table, name, writer.writer.metadata)


def commit(table, name, metadata):
    stats = statistics(metadata, replication_events.ARROW)
    add_files(table, [Written("replication_events", name, 1, metadata.num_rows, 0, stats)], {name: 0})


def _of_source(name, **changes):
    return lambda run: run | {k: run[k] + by for k, by in changes.items()} if run["source_id"].startswith(name) else run


CLAIMS = {
    "more numbers": _of_source("broker-2", seq_to=500),
    "fewer numbers": _of_source("broker-2", seq_to=-500),
    "other numbers": _of_source("broker-2", seq_from=3000, seq_to=3000),
    "later": _of_source("", since=HOUR_US, latest=HOUR_US),
    "earlier": _of_source("", since=-HOUR_US, latest=-HOUR_US),
    "another cluster": lambda run: run | {"cluster": "other"},
    "another source": lambda run: run | {"source_id": run["source_id"].replace("broker-1", "broker-0")},
    "no source": lambda run: None if run["source_id"].startswith("broker-2") else run,
    "nothing": lambda run: None,
}


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_a_footer_that_claims_other_rows(tmp_path, claim):
    for path in write_claimed(tmp_path, claim):
        assert coverage_in(pq.read_metadata(path)) is None
    assert_read_as_one(tmp_path, PlannedJob(tmp_path, 3_000).run())


def test_a_footer_that_fits_and_names_a_source_which_the_rows_do_not_have(tmp_path):
    """Statistics tell the first and the last name only: the file is refused once its rows are read."""
    forged = list(
        write_claimed(tmp_path, lambda run: run | {"source_id": run["source_id"].replace("broker-2", "broker-23")})
    )
    assert None not in [coverage_in(pq.read_metadata(path)) for path in forged]
    with pytest.raises(UnreadableFileError, match="its footer names other sources than its rows have"):
        PlannedJob(tmp_path, 3_000).run()


def write_claimed(lake, claim):
    """Files whose footers say of each run that claim says; their paths."""
    live, _ = clusters()
    table, uri = bronze(str(lake)), bronze_uri(str(lake))
    for events in slices(live, 20):
        runs = [told for run in coverage(events).to_pylist() if (told := claim(run))]
        groups = row_groups(events)
        claimed = pa.Table.from_pylist(runs, coverage(events).schema)
        file = DataFile(file_system(uri), "replication_events", events.schema)
        for group in groups:
            file.write(group)
        file.describe(COVERAGE, coverage_text([len(group) for group in groups], claimed, file.size()))
        written = file.close()
        add_files(table, [written], {written.path: 0})
        yield f"{uri}/{written.path}"
