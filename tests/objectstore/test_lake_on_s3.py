"""A lake on an object store: one holder per role, events exactly once, maintained and looked at without Spark."""

import gzip
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import obstore
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from generators.brokerlogs import ingest
from generators.brokerlogs.ingest import ingest_logs, read_logs
from generators.recordings import traces
from pipelines.cli import app
from pipelines.commands.maintain.command import maintain
from pipelines.lake import lease
from pipelines.lake.bronze import append_events, read_events
from pipelines.lake.file_systems import file_system, object_store
from pipelines.lake.lake import Lake
from pipelines.lake.lease import LASTS, SKEW, LeaseLost, Signature
from pipelines.lake.roles import RoleHeld, hold, verify_role
from pipelines.replication import Rules
from pipelines.streaming.checkpoint.offsets import interval, remember_interval
from pipelines.streaming.checkpoint.query import open_query
from pipelines.streaming.sinks.sink import LakeWriter, SinkSettings
from pipelines.streaming.source.unread import bronze_of
from pipelines.streaming.tables import ROLE, create_tables
from schemas import replication_events
from tests.streaming.test_sink import HW, begun, written
from tests.unit.ingest.comparing import numbers_without_holes, reported

LOGS = traces.path("unclean_election") / "broker-1"

HOLD = """
import json, sys
from pipelines.lake.roles import hold
with hold(sys.argv[1], "run", json.loads(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_second_holder_is_refused_by_name_and_gets_the_role_when_the_first_is_done(lake, storage_options):
    call = [sys.executable, "-c", HOLD, lake, json.dumps(storage_options)]
    with subprocess.Popen(call, stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout.readline() == "held\n"
        refused = f"run of lake {lake} is held by process {other.pid} on "
        with pytest.raises(RoleHeld, match=refused), hold(lake, "run", storage_options):
            pass
        with hold(lake, "check", storage_options):
            pass
        other.stdin.close()
        other.wait()
        with hold(lake, "run", storage_options) as held:
            held.check()
            verify_role(lake, "run", held.token, storage_options)


def test_a_lease_of_a_dead_process_is_taken_over_and_the_dead_cannot_commit(lake, storage_options, monkeypatch):

    dead = Signature.new(datetime.now(UTC) - LASTS - SKEW)
    obstore.put(object_store(lake, storage_options), "_locks/run.lease", dead.content())
    assert abs(lease.age_of(object_store(lake, storage_options), "_locks/run.lease")) <= timedelta(seconds=2)
    with pytest.raises(RoleHeld, match="by the clock of the store"), hold(lake, "run", storage_options):
        pass
    monkeypatch.setattr(lease, "age_of", lambda *_: 2 * LASTS)  # the store has not seen it renewed since
    with hold(lake, ROLE, storage_options) as held:
        place = Lake(lake, storage_options)
        create_tables(place)
        for token, commits in ((dead.token, False), (held.token, True)):
            begun(place, "q")
            out = LakeWriter(SinkSettings(lake, "q", 1, storage_options=storage_options, role_token=token))
            files = [written(out, partition_hw=HW)]
            if commits:
                out.commit(files, 0)
            else:
                with pytest.raises(LeaseLost, match=f"process {os.getpid()} on "):
                    out.commit(files, 0)
        assert place.open("partition_hw").version() == 1
        assert place.open("partition_hw").to_pyarrow_table().num_rows == HW.num_rows


def test_logs_reach_the_lake_once_and_go_on_where_they_stopped(tmp_path, lake, storage_options):
    folder = tmp_path / "broker-1"
    folder.mkdir()
    content = gzip.decompress((LOGS / "replication.log.gz").read_bytes())
    half = content.rindex(b"\n", 0, len(content) // 2) + 1
    for end in (half, len(content), len(content)):
        (folder / "replication.log").write_bytes(content[:end])
        ingest_logs([folder], cluster="c", lake=lake, storage_options=storage_options)
    events = read_events(lake, storage_options=storage_options)
    assert numbers_without_holes(events)
    assert {row["source_epoch"] for row in events.select(["source_epoch"]).to_pylist()} == {0}
    assert len(reported(events)) == len(reported(read_logs([folder], "c")))


def test_an_ingest_that_loses_its_lease_stops_before_it_writes(tmp_path, lake, storage_options, monkeypatch):
    def lost(self):
        raise LeaseLost("_locks/ingest.lease", "the clock")

    monkeypatch.setattr(ingest.Held, "check", lost)
    with pytest.raises(LeaseLost):
        ingest_logs([LOGS], cluster="c", lake=lake, storage_options=storage_options)
    assert read_events(lake, storage_options=storage_options).num_rows == 0


def test_the_record_of_the_query_is_kept_there(lake, storage_options):
    place = Lake(lake, storage_options)
    create_tables(place)
    query = open_query(place, Rules(), 4, 2, "arrow", rebuild=False)
    with file_system(lake, storage_options).open_input_stream("_run/query.json") as stream:
        assert json.loads(stream.read())["query_id"] == query.query_id


def test_a_lake_is_maintained_and_shown_there(lake, storage_options, monkeypatch):
    place = Lake(lake, storage_options)
    create_tables(place)
    for batch in range(2):
        begun(place, "q")
        out = LakeWriter(SinkSettings(lake, "q", 1, storage_options=storage_options))
        out.commit([written(out, partition_hw=HW)], batch)
    lines = list(maintain(lake, storage_options=storage_options))
    assert any(line.startswith("silver/partition_hw: 2 files into 1") for line in lines)
    for name, value in storage_options.items():
        monkeypatch.setenv(f"HWMARK_LAKE__STORAGE_OPTIONS__{name}", value)
    shown = CliRunner().invoke(app, ["show", "hw", "--lake", lake, "--format", "json"])
    assert shown.exit_code == 0, shown.output
    assert len(json.loads(shown.output)) == 2 * HW.num_rows


def test_what_the_job_has_not_read_is_known_there(lake, storage_options, monkeypatch):
    """Its checkpoint, the log of bronze, and a file of two clusters are read from the store."""
    place = Lake(lake, storage_options)
    for version, names in enumerate((["a"], ["b"], ["a", "c"])):
        append_events(lake, progress_of(*names), app_id="t", version=version, storage_options=storage_options)
    files = place.files()
    offset = {"snapshot": 1, "version": 2, "index": 0, "events": 1}
    kept = {"query.json": {"query_id": "q"}, "q/commits/0": {}, "q/offsets/0": offset}
    for name, content in kept.items():
        with files.open_output_stream(f"_run/{name}") as stream:
            stream.write(f"v1\n{{}}\n{json.dumps(content)}".encode() if "/" in name else json.dumps(content).encode())
    found = bronze_of(place)
    assert found.clusters == {"a", "b", "c"}
    assert {name: backlog.events for name, backlog in found.backlogs.items()} == {"a": 1, "b": 1, "c": 1}
    remember_interval(place, 60)
    assert interval(place) == 60
    for name, value in storage_options.items():
        monkeypatch.setenv(f"HWMARK_LAKE__STORAGE_OPTIONS__{name}", value)
    shown = CliRunner().invoke(app, ["show", "verdict", "--lake", lake])
    assert (shown.exit_code, [line.split(":")[0] for line in shown.output.splitlines()]) == (0, ["a", "b", "c"])
    mistyped = CliRunner().invoke(app, ["check", "--lake", f"{lake}x"])
    assert (mistyped.exit_code, mistyped.output.startswith(f"hwmark: there is no lake {lake}x; ")) == (2, True)


def progress_of(*clusters):
    """One `progress` row of each cluster."""
    row = {
        "source_id": "s", "source_epoch": 0, "seq": 0, "ts": datetime(2026, 9, 1, tzinfo=UTC), "broker_id": 1,
        "event_type": "progress", "partition": -1, "level": 3,
    }  # fmt: skip
    rows = [row | {"cluster": name, "source_seq": n} for n, name in enumerate(clusters)]
    return pa.Table.from_pylist(rows, schema=replication_events.ARROW)
