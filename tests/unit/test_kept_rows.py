"""A process that looks at a table again and again reads each of its files once."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from pipelines.lake import kept_rows
from pipelines.lake.kept_rows import KeptRows
from pipelines.lake.lake import Lake
from schemas import telemetry_gaps
from tests.unit.alerting.evidence_rows import at
from tests.unit.alerting.test_evaluate import put

SCHEMA = pa.schema([telemetry_gaps.ARROW.field(name) for name in ("ts", "kind", "seq_from")])


@pytest.fixture
def lake(tmp_path):
    return str(tmp_path / "lake")


@pytest.fixture
def files_read(monkeypatch):
    """How many files each look read."""
    counts, rows_of = [], kept_rows.rows_of
    monkeypatch.setattr(kept_rows, "rows_of", lambda *a, **more: counts.append(len(a[2].files)) or rows_of(*a, **more))
    return counts


def gap(seconds, kind="gap"):
    where = {"cluster": "c", "source_id": "s", "series": "source", "source_epoch": 0, "partition": -1, "seq_to": 1}
    return where | {"ts": at(seconds), "seq_from": seconds, "kind": kind}


def seen(kept, lake, **more):
    return sorted(kept.read(Lake(lake).at_once(), **more)["seq_from"].to_pylist())


def test_each_file_is_read_once(lake, files_read):
    kept = KeptRows(telemetry_gaps.TABLE, SCHEMA)
    assert seen(kept, lake) == []
    for number in (1, 2):
        put(lake, telemetry_gaps, gap(number))
    assert [seen(kept, lake) for _ in range(2)] == [[1, 2], [1, 2]]
    put(lake, telemetry_gaps, gap(3))
    assert (seen(kept, lake), files_read) == ([1, 2, 3], [2, 1])


def test_rows_of_files_that_a_later_version_lacks_are_gone(lake):
    kept = KeptRows(telemetry_gaps.TABLE, SCHEMA)
    for number in (1, 2):
        put(lake, telemetry_gaps, gap(number))
    assert seen(kept, lake) == [1, 2]
    DeltaTable(f"{lake}/{telemetry_gaps.TABLE.path}").delete("seq_from = 1")
    assert seen(kept, lake) == [2]


def test_of_a_table_that_is_another_one_nothing_is_kept(lake, files_read):
    kept = KeptRows(telemetry_gaps.TABLE, SCHEMA)
    for number in (1, 2):
        put(lake, telemetry_gaps, gap(number))
        assert seen(kept, lake) == [number]
        shutil.rmtree(lake)
    assert files_read == [1, 1]


def test_a_file_that_is_gone_from_the_disk_is_missed_though_it_was_read(lake):
    kept = KeptRows(telemetry_gaps.TABLE, SCHEMA)
    put(lake, telemetry_gaps, gap(1))
    assert seen(kept, lake) == [1]
    Path(DeltaTable(f"{lake}/{telemetry_gaps.TABLE.path}").file_uris()[0]).unlink()
    with pytest.raises(FileNotFoundError):
        seen(kept, lake)


def test_only_rows_that_are_wanted_are_kept_and_files_without_such_are_left_out(lake, files_read):
    kept = KeptRows(telemetry_gaps.TABLE, SCHEMA, pc.field("kind") == "gap")
    put(lake, telemetry_gaps, gap(1), gap(2, "late"))
    put(lake, telemetry_gaps, gap(1_000))
    assert seen(kept, lake, files=f"ts >= '{at(500).isoformat()}'") == [1_000]
    assert seen(kept, lake) == [1, 1_000]
    assert files_read == [1, 1]


def test_a_file_that_went_between_two_looks_is_read_as_the_table_is_by_then(lake, monkeypatch):
    """The job removes what it replaced a quarter of an hour later."""
    kept, read = KeptRows(telemetry_gaps.TABLE, SCHEMA), kept_rows.rows_of
    put(lake, telemetry_gaps, gap(1))

    def removed(*a, **more):
        monkeypatch.setattr(kept_rows, "rows_of", read)
        table = DeltaTable(f"{lake}/{telemetry_gaps.TABLE.path}")
        put(lake, telemetry_gaps, gap(2), mode="overwrite")
        Path(table.file_uris()[0]).unlink()
        return read(*a, **more)

    monkeypatch.setattr(kept_rows, "rows_of", removed)
    assert seen(kept, lake) == [2]
