"""The whole job on an object store: its tables are those of a disk, through faults, restarts and kills.

FAULTS=all tries more seeds, a kill with a second holder, and `check`.
"""

import os
import signal
import time

import obstore
import pytest

from pipelines.lake.file_systems import object_store
from pipelines.lake.lake import Lake
from pipelines.setup import JARS
from pipelines.streaming.hadoop import S3
from pipelines.streaming.jars import MARK
from pipelines.streaming.tables import HEALTH, KINDS, MINUTES
from tests.objectstore.store import brought, done, hwmark
from tests.streaming.shell import added_up, same_rows

ALL = os.environ.get("FAULTS") == "all"
RATE = 0.03
HELD = 75

pytestmark = [
    pytest.mark.spark,
    pytest.mark.nightly,
    pytest.mark.skipif(not (JARS / S3 / MARK).is_file(), reason="no S3 client: run `python -m pipelines.setup s3`"),
]


def run(lake, *more):
    return ["run", "--once", "--lake", lake, *more]


def lived(logs, lake, options):
    """Both parts of the logs, each with a run of its own: the second goes on from the state of the first."""
    brought(logs, lake, options, ["first ingest"])
    done(run(lake), options)
    brought(logs, lake, options, ["second ingest"])
    done(run(lake, "--drain"), options)


@pytest.fixture(scope="module")
def local(logs, tmp_path_factory):
    lake = tmp_path_factory.mktemp("local") / "lake"
    lived(logs, str(lake), {})
    return Lake(str(lake))


def equal(remote, local):
    for kind in ("replication_events", *KINDS, HEALTH, *MINUTES):
        here, there = (lake.open(kind).to_pyarrow_table() for lake in (remote, local))
        if kind == "minute_stats":
            assert added_up(here) == added_up(there)
        else:
            assert same_rows(here) == same_rows(there), kind


@pytest.mark.parametrize("seed", range(1, 5) if ALL else [1])
def test_a_run_restarted_from_its_state_in_the_store_leaves_what_it_leaves_on_a_disk(store, logs, local, lake, seed):
    store.faults(seed=seed, rate=RATE)
    lived(logs, lake, store.options)
    assert store.faults().keys() >= {"refused", "failed", "delayed", "repeated"}
    equal(Lake(lake, store.options), local)


@pytest.mark.skipif(not ALL, reason="a killed holder's lease lasts 90 s: FAULTS=all")
@pytest.mark.parametrize("part", ["offsets/0", "state/0", "batches/0.json"])
def test_a_killed_run_is_gone_on_with_once_its_lease_is_over(store, logs, local, lake, part):
    brought(logs, lake, store.options, ["first ingest"])
    with hwmark(run(lake), store.options) as running:
        while not any(part in path for path in paths(lake, store.options)):
            assert running.poll() is None
            time.sleep(0.05)
        with hwmark(run(lake), store.options) as second:
            said = second.communicate(timeout=240)[1]
            assert (second.returncode, "is held by" in said) == (HELD, True), said
        os.killpg(running.pid, signal.SIGKILL)
    deadline = time.monotonic() + 300
    while True:
        with hwmark(run(lake), store.options) as again:
            said = again.communicate(timeout=240)[1]
        if again.returncode != HELD:
            break
        assert time.monotonic() < deadline, said
        time.sleep(5)
    assert again.returncode == 0, said
    brought(logs, lake, store.options, ["second ingest"])
    done(run(lake, "--drain"), store.options)
    equal(Lake(lake, store.options), local)


def paths(lake, options):
    return [found["path"] for page in obstore.list(object_store(lake, options)) for found in page]


@pytest.mark.skipif(not ALL, reason="Great Expectations takes a minute: FAULTS=all")
def test_check_judges_a_lake_on_the_store_as_one_on_a_disk(store, logs, local, lake):
    lived(logs, lake, store.options)
    for place, options in ((lake, store.options), (local.root, {})):
        done(["check", "--lake", place], options, 600)
    results = (place.open("quality_results") for place in (Lake(lake, store.options), local))
    here, there = (table.to_pyarrow_table() for table in results)
    unlike = ["run_id", "run_ts", "version_from", "version_to", "observed", "sample"]
    assert same_rows(here, but=unlike) == same_rows(there, but=unlike)
