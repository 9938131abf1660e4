"""Commits of `maintain` between what the job reads of a table and what it commits: no row is lost or there twice."""

import pyarrow as pa
import pytest
from deltalake.exceptions import CommitFailedError

from pipelines.lake.compaction import compact
from pipelines.lake.data_file import write_file
from pipelines.lake.lake import Lake
from pipelines.lake.table import Replaced, add_files, committing, replace_files
from pipelines.streaming.tables import commit, create_tables
from schemas import partition_health, partition_hw

PLACE = {"cluster": "c", "topic": "orders", "leader_id": 1, "leader_epoch": 1}


@pytest.fixture
def lake(tmp_path):
    place = Lake(str(tmp_path))
    create_tables(place)
    return place


def health(lake, hw, partitions=1):
    rows = [{**PLACE, "partition": number, "hw": hw} for number in range(partitions)]
    table = pa.Table.from_pylist(rows, partition_health.ARROW)
    return write_file(lake.files("partition_health"), "partition_health", partition_health.ARROW, [table])


def hws(lake, name="partition_health"):
    return sorted(lake.rows(name).to_table(columns=["hw"])["hw"].to_pylist())


def test_a_table_that_was_compacted_meanwhile_is_overwritten_whole(lake):
    for hw in (1, 2):
        commit(lake, "partition_health", [health(lake, hw)], "q", hw)
    table = lake.open("partition_health")
    compact(lake, "partition_health")
    with pytest.raises(CommitFailedError):
        add_files(table, [health(lake, 3)], {"q": 3}, "overwrite")
    assert hws(lake) == [1, 2]
    assert commit(lake, "partition_health", [health(lake, 3)], "q", 3, overwrite=True)
    assert hws(lake) == [3]


def test_the_job_commits_again_where_another_commit_came_in_between(lake):
    commit(lake, "partition_health", [health(lake, 1)], "q", 1)
    tables = [lake.open("partition_health")]
    commit(lake, "partition_health", [health(lake, 2)], "q", 2)

    def overwrite():
        table = tables.pop() if tables else lake.open("partition_health")
        add_files(table, [health(lake, 3)], {"q": 3}, "overwrite")

    committing(overwrite)
    assert hws(lake) == [3]


def test_compaction_keeps_what_is_appended_meanwhile_and_gives_way_to_a_removal(lake):
    first = health(lake, 1)
    add_files(lake.open("partition_health"), [first], {})
    before = lake.open("partition_health")
    add_files(lake.open("partition_health"), [health(lake, 2)], {})
    replaced = [Replaced(first.path, first.size)]
    replace_files(before, replaced, [health(lake, 1)])
    assert hws(lake) == [1, 2]
    with pytest.raises(CommitFailedError):
        replace_files(before, replaced, [health(lake, 1)])
    assert hws(lake) == [1, 2]


def test_a_compacted_table_is_no_news_to_who_follows_its_commits(lake):
    from pipelines.lake.changes import since

    for hw in (1, 2):
        rows = pa.Table.from_pylist(
            [{**PLACE, "partition": 0, "kind": "advance", "hw": hw, "ts": hw}], partition_hw.ARROW
        )
        lake.append("partition_hw", rows)
    read = lake.open("partition_hw").version()
    assert compact(lake, "partition_hw").removed == 2
    assert since(lake.open("partition_hw"), read) is None
    assert hws(lake, "partition_hw") == [1, 2]
