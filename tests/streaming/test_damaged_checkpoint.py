"""A checkpoint that lost a file, or whose file is damaged: restored, or refused by its name with the way out."""

import shutil

import pytest

from pipelines.lake.bronze import append_events
from pipelines.replication import Rules
from pipelines.streaming.checkpoint.query import StateMismatch
from pipelines.streaming.follow import RunFailed
from pipelines.streaming.job import run
from pipelines.streaming.options import RunOptions
from tests.streaming.events import history
from tests.streaming.test_job import assert_same_as_replay

EVENTS = history(partitions=4, rounds=30)
PARTS = [EVENTS.slice(k * len(EVENTS) // 3, len(EVENTS) // 3) for k in range(3)]

pytestmark = pytest.mark.spark


def go(lake, version=None):
    if version is not None:
        append_events(str(lake), PARTS[version], app_id="test", version=version)
    return run(str(lake), Rules(), RunOptions(buckets=2, drain=version is None))


@pytest.fixture(scope="module")
def begun(spark, tmp_path_factory):
    """A lake after two batches, with rows of a third in bronze."""
    lake = tmp_path_factory.mktemp("begun") / "lake"
    go(lake, 0)
    go(lake, 1)
    append_events(str(lake), PARTS[2], app_id="test", version=2)
    return lake


@pytest.fixture
def lake(begun, tmp_path):
    return shutil.copytree(begun, tmp_path / "lake")


def test_a_lake_that_was_moved_goes_on(lake, begun, tmp_path):
    begun.rename(tmp_path / "away")
    try:
        go(lake)
        assert not begun.exists()
    finally:
        (tmp_path / "away").rename(begun)
    assert_same_as_replay(lake)


def file_of(lake, path):
    (found,) = lake.glob(f"_run/*/{path}")
    found.with_name(f".{found.name}.crc").unlink(missing_ok=True)
    return found


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("path", ["metadata", "state/0/0/2.changelog"])
def test_a_damaged_file_is_named_with_the_way_out(lake, path):
    damaged = file_of(lake, path)
    cut(damaged)
    shown = damaged.parents[2] if "state" in path else damaged
    with pytest.raises((StateMismatch, RunFailed), match=r"(damaged|cannot be read).*run --rebuild") as got:
        go(lake)
    assert str(shown) in str(got.value)
    assert "\n" not in str(got.value)


def test_state_that_is_gone_is_named(lake):
    gone = file_of(lake, "state/0/1/2.changelog")
    gone.unlink()
    with pytest.raises(RunFailed, match=rf"state {gone} is gone.*run --rebuild"):
        go(lake)


@pytest.mark.parametrize("path", ["offsets/1", "commits/1"])
@pytest.mark.parametrize("harm", [cut, lambda path: path.unlink()])
def test_a_damaged_offset_is_restored_and_a_batch_without_its_end_is_played_again(lake, harm, path):
    harm(file_of(lake, path))
    go(lake)
    assert_same_as_replay(lake)
