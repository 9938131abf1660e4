"""A run with nothing new starts no JVM, and refuses a lake that does not belong together all the same."""

import shutil

import pytest
from deltalake import DeltaTable

from pipelines.commands.exits import DONE, FAILED
from pipelines.lake.bronze import append_events
from pipelines.replication import Rules
from pipelines.streaming.job import run
from tests.no_java import without_java
from tests.streaming.events import history

EVENTS = history(partitions=4, rounds=60)
PARTS = [EVENTS.slice(k * len(EVENTS) // 3, len(EVENTS) // 3) for k in range(3)]
NOTHING = "nothing new: all of bronze is reconstructed\n"
NO_JAVA = "Java"

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def level(spark, tmp_path_factory):
    """A lake whose job has read all of bronze, in two batches."""
    lake = tmp_path_factory.mktemp("level") / "lake"
    for version in range(2):
        append_events(str(lake), PARTS[version], app_id="test", version=version)
        run(str(lake), Rules())
    return lake


@pytest.fixture
def lake(level, tmp_path):
    return shutil.copytree(level, tmp_path / "lake")


def once(lake, *more):
    return without_java("run", "--once", "--lake", str(lake), *more)


def test_nothing_new_needs_no_java(lake):
    for _ in range(2):
        done = once(lake)
        assert (done.stdout, done.returncode) == (NOTHING, DONE), done.stderr


def more_events(lake):
    append_events(str(lake), PARTS[2], app_id="test", version=2)


def compaction(lake):
    DeltaTable(str(lake / "bronze/replication_events")).optimize.compact()


def an_unfinished_batch(lake):
    (commit,) = lake.glob("_run/*/commits/1")
    commit.unlink()
    commit.with_name(".1.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("something", [more_events, compaction, an_unfinished_batch])
def test_something_new_does(lake, something):
    something(lake)
    done = once(lake)
    assert done.returncode == FAILED
    assert NO_JAVA in done.stderr


@pytest.mark.parametrize("asked", ["--drain", "--rebuild"])
def test_what_is_asked_for_does(lake, asked):
    done = once(lake, asked)
    assert done.returncode == FAILED
    assert NO_JAVA in done.stderr


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def of_the_checkpoint(name):
    def harm(lake):
        (path,) = lake.glob(f"_run/*/{name}")
        cut(path)

    return harm


def no_table(lake):
    shutil.rmtree(lake / "silver/partition_hw")


def an_older_table(lake):
    (newest,) = (lake / "silver/partition_hw/_delta_log").glob(f"{versions(lake)[-1]:020}.json")
    newest.unlink()


def versions(lake):
    return [entry["version"] for entry in DeltaTable(str(lake / "silver/partition_hw")).history()][::-1]


def no_file(lake):
    DeltaTable(str(lake / "silver/partition_hw"))
    newest = max((lake / "silver/partition_hw").glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    newest.unlink()


def other_bronze(lake):
    shutil.rmtree(lake / "bronze/replication_events")
    for version in range(2):
        append_events(str(lake), PARTS[version], app_id="test", version=version)


def no_bronze(lake):
    shutil.rmtree(lake / "bronze/replication_events")


HARM = [
    (of_the_checkpoint("metadata"), "metadata is damaged"),
    (of_the_checkpoint("batches/1.json"), "batches/1.json is damaged"),
    (no_table, "silver/partition_hw is gone"),
    (an_older_table, "has batch 0 as its last one"),
    (no_file, "which is not there"),
    (other_bronze, "another one than batch 1 has read"),
    (no_bronze, "another one than batch 1 has read"),
]


@pytest.mark.parametrize(("harm", "words"), HARM, ids=[words for _, words in HARM])
def test_a_lake_that_does_not_belong_together_is_refused(lake, harm, words):
    harm(lake)
    done = once(lake)
    assert done.returncode == FAILED
    assert words in done.stderr
    assert NO_JAVA not in done.stderr


def test_a_batch_whose_end_is_damaged_is_played_again(lake):
    of_the_checkpoint("commits/1")(lake)
    done = once(lake)
    assert done.returncode == FAILED
    assert "batch 1 is played again: its end in the checkpoint was damaged" in done.stderr
    assert NO_JAVA in done.stderr


def test_a_lost_plan_of_the_checkpoint_is_restored(lake):
    (plan,) = lake.glob("_run/*/offsets/1")
    before = plan.read_bytes()
    plan.unlink()
    done = once(lake)
    assert (done.stdout, done.returncode) == (NOTHING, DONE)
    assert "restored what batch 1 reads" in done.stderr
    assert plan.read_bytes() == before
