"""Facts that a task has written itself become part of their tables with the commit of the sink, and not before."""

from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.lake.lake import Lake
from pipelines.streaming.sinks.fact_files import WRITTEN, FactFiles, TaskOutput
from pipelines.streaming.tables import HEALTH, create_tables
from tests.streaming.test_sink import HEALTHY, HW, MINUTE, contents, writer, written


@pytest.fixture
def lake(tmp_path):
    lake = Lake(str(tmp_path), {})
    create_tables(lake)
    return lake


def files(lake):
    return [p for p in Path(lake.root).rglob("*.parquet") if "_delta_log" not in p.parts]


def by_hand(lake, **tables):
    with FactFiles(lake) as out:
        for kind, table in tables.items():
            out.add(kind, table)
        return out.close()


def handed_on(writer, *found):
    blobs = pa.array([t.json() for t in found], pa.binary())
    return writer.write(iter([pa.record_batch([pa.array([WRITTEN] * len(found)), blobs], names=["kind", "blob"])]))


FACTS = {"partition_hw": HW, "minute_stats": MINUTE, HEALTH: HEALTHY}


def test_what_was_written_is_told_in_full(lake):
    found = by_hand(lake, **FACTS)
    assert TaskOutput.of(found.json()) == found
    assert sorted(file.kind for file in found.files) == sorted(FACTS)
    assert found.health == 1


def test_files_of_tasks_are_committed_as_facts_in_blobs_are(lake, tmp_path):
    other = Lake(str(tmp_path / "other"), {})
    create_tables(other)
    out = writer(lake, buckets=2)
    found = [by_hand(lake, **FACTS), by_hand(lake, partition_hw=HW.slice(0, 1), **{HEALTH: HEALTHY.slice(0, 0)})]
    before = contents(lake)
    assert before["partition_hw"] == []
    out.commit([handed_on(out, found[0]), handed_on(out, found[1])], 0)
    same = writer(other, buckets=2)
    same.commit(
        [written(same, **FACTS), written(same, partition_hw=HW.slice(0, 1), **{HEALTH: HEALTHY.slice(0, 0)})], 0
    )
    assert contents(lake) == contents(other)
    assert len(contents(lake)["partition_hw"]) == len(HW) + 1


def test_files_and_blobs_of_one_task_are_told_together(lake):
    out = writer(lake)
    found = handed_on(out, by_hand(lake, partition_hw=HW), by_hand(lake, minute_stats=MINUTE))
    assert sorted(file.kind for file in found.files) == ["minute_stats", "partition_hw"]


def test_a_batch_that_is_played_again_commits_no_second_files(lake):
    out = writer(lake)
    out.commit([handed_on(out, by_hand(lake, partition_hw=HW))], 0)
    once = lake.open("partition_hw").file_uris()
    out.commit([handed_on(out, by_hand(lake, partition_hw=HW))], 0)
    assert lake.open("partition_hw").file_uris() == once


def test_a_batch_that_is_given_up_keeps_the_files_of_its_tasks(lake):
    """Some tables may have them already."""
    out = writer(lake)
    found = handed_on(out, by_hand(lake, partition_hw=HW))
    out.abort([found], 0)
    assert len(files(lake)) == 1


def test_an_error_removes_what_was_begun(lake):
    with pytest.raises(KeyError, match="no such kind"):
        by_hand(lake, **{"partition_hw": HW, "no such kind": HW})
    assert files(lake) == []
