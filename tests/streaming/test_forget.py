"""`hwmark forget`: no byte of a cluster is left in its lake, and all rows of the others stay as they were."""

import json
import shutil
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from generators.brokerlogs.ingest import ingest_logs, read_logs
from generators.recordings import traces
from pipelines.commands.forget import command
from pipelines.commands.forget.command import forget, rebuild
from pipelines.errors import UsageError
from pipelines.lake import engines, removal
from pipelines.lake.bronze import append_events, committed, read_events
from pipelines.lake.lake import Lake
from pipelines.lake.roles import RoleHeld, hold
from pipelines.replication import Rules, replay
from pipelines.replication.state import snapshot
from pipelines.streaming import job
from pipelines.streaming.checkpoint.query import StateMismatch
from pipelines.streaming.follow import RunSummary
from pipelines.streaming.options import RunOptions
from pipelines.streaming.tables import KINDS
from pipelines.streaming.unfinished import Removal
from schemas import alerts, deliveries, notes, quality_results, tables
from tests.streaming.shell import same_rows

GONE, STAYS = "xenopus", "main"
AT = datetime(2026, 11, 21, tzinfo=UTC)


class Killed(Exception):
    """What comes after it does not happen, as after a kill."""


def run(lake, **how):
    return job.run(lake.root, Rules(), RunOptions(**how))


def ingest_recording(lake, cluster):
    ingest_logs([traces.path("unclean_election")], cluster=cluster, lake=lake.root)


def with_people(lake, *clusters):
    """Rows of ops, as check, notify and people write them."""
    for cluster, number in clusters or ((GONE, "1" * 16), (STAYS, "2" * 16)):
        state = {"alert_id": number, "rule": "loss", "severity": "critical", "state": "firing", "subject": "t-0"}
        state |= {"first_ts": AT, "last_ts": AT, "summary": f"{cluster} lost", "written_at": AT}
        rows = {
            alerts: state | {"labels": [("cluster", cluster)]},
            deliveries: {"channel": "a", "outcome": "sent", "attempt": 1, "sent_at": AT, "alert_id": number},
            notes: {"cluster": cluster, "handled": False, "text": "a note", "written_at": AT},
            quality_results: {
                "run_id": "r", "run_ts": AT, "suite": "s", "expectation": "e", "table": "t", "success": False,
                "sample": json.dumps([{"cluster": cluster}]),
            },
        }  # fmt: skip
        for schema, row in rows.items():
            lake.append(schema.TABLE, pa.Table.from_pylist([row], schema.ARROW))


@pytest.fixture(scope="module")
def stored(spark, tmp_path_factory):
    """A lake of two clusters that the job has read, and with something that it has not."""
    lake = Lake(str(tmp_path_factory.mktemp("forget") / "lake"))
    ingest_recording(lake, STAYS)
    run(lake, buckets=2)
    ingest_recording(lake, GONE)
    run(lake, drain=True)
    with_people(lake)
    lake.write_durably("_alerts/step.json", json.dumps({"clocks": {"loss": {GONE: 1}}}).encode())
    return lake


@pytest.fixture
def lake(stored, tmp_path):
    shutil.copytree(stored.root, tmp_path / "lake")
    return Lake(str(tmp_path / "lake"))


def forgotten(lake, asked=None, known=lambda: None):
    def go(cluster, held):
        return job.run(lake.root, Rules(), RunOptions(forget=cluster), held=held)

    return forget(lake, asked or Removal(GONE), go, known)


def mentions(lake, root):
    """The files below a folder that have the name of the cluster, in their bytes, rows, states or own names."""
    found = []
    for path in root.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        if path.suffix == ".parquet":
            content += str(pq.read_table(path).to_pydict()).encode()
        if content.startswith(snapshot.MAGIC):
            state, *_ = snapshot.unpack(content)
            content = snapshot._encoder.encode(snapshot._rest(state, Rules(), 0, 1))
        if GONE.encode() in content or GONE in path.name:
            found.append(str(path.relative_to(root)))
    return found


def rows_of(lake, name, cluster=STAYS):
    rows = lake.rows(name).to_table()
    column = "cluster" if "cluster" in rows.column_names else None
    return same_rows(rows.filter(pc.equal(rows[column], cluster)) if column else rows, but=["quarantined_at"])


def states(spark, lake):
    from pipelines.streaming.checkpoint.query import recorded
    from pipelines.streaming.stateful.stored_state import stored_state

    return [snapshot.unpack(blob)[0] for blob in stored_state(spark, lake, recorded(lake))]


WITH_CLUSTER = [name for name, table in tables().items() if any(c.name == "cluster" for c in table.columns)]


@pytest.mark.spark
def test_nothing_of_the_cluster_is_left_and_the_others_are_as_they_were(spark, lake, tmp_path):
    there = [name for name in WITH_CLUSTER if lake.has_table(name)]
    before = {name: rows_of(lake, name) for name in there}
    assert mentions(lake, tmp_path / "lake")
    words = list(forgotten(lake))
    assert "versions 0 to " in words[-2]
    assert mentions(lake, tmp_path / "lake") == []
    assert {name: rows_of(lake, name) for name in there} == before
    assert [len(lake.rows(name).to_table()) for name in ("alerts", "deliveries", "notes", "quality_results")] == [1] * 4
    for name in ("partition_hw", "replication_events"):
        assert spark.read.format("delta").load(lake.uri(name)).count() == len(before[name])
    for state in states(spark, lake):
        assert state.clusters.all == [(STAYS,)]
        assert {key[0] for key in state.sources.known} == {STAYS}

    ingest_recording(lake, GONE)  # it goes on, as first seen
    run(lake, drain=True)
    assert not [row for row in lake.rows("telemetry_gaps").to_table().to_pylist() if row["cluster"] == GONE]
    alone = replay(read_events(lake.root, cluster=GONE))
    for kind in ("partition_hw", "isr_changes", "hw_regressions"):
        found = lake.rows(kind).to_table()
        mine = found.filter(pc.equal(found["cluster"], GONE))
        assert same_rows(mine) == same_rows(getattr(alone, kind)), kind


@pytest.mark.spark
@pytest.mark.parametrize("lines", [0, 1, 5, 12, 15, 40])
@pytest.mark.sampled(3)
def test_killed_at_any_step_the_next_call_does_the_rest(lake, tmp_path, lines):
    before = {name: rows_of(lake, name) for name in WITH_CLUSTER if lake.has_table(name)}
    killed = forgotten(lake)
    for _, _ in zip(range(lines), killed, strict=False):
        pass
    killed.close()
    if lines:
        with pytest.raises(UsageError, match="forget --cluster xenopus` was cut off"):
            list(forgotten(lake, Removal(STAYS)))
    list(forgotten(lake))
    assert mentions(lake, tmp_path / "lake") == []
    assert {name: rows_of(lake, name) for name in before} == before
    run(lake, drain=True)
    final = [name for name in KINDS if name not in ("coverage", "minute_stats")]  # both count the closing row
    assert {name: rows_of(lake, name) for name in final} == {name: before[name] for name in final}


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize("number", range(1, 12))
@pytest.mark.parametrize("module", [removal, command])
def test_killed_inside_a_step(lake, tmp_path, monkeypatch, module, number):
    name = {removal: "replace_files", command: "clean_log"}[module]
    calls, real = [], getattr(module, name)

    def dies(*args, **how):
        calls.append(name)
        if len(calls) == number:
            raise Killed
        real(*args, **how)

    with monkeypatch.context() as dying:
        dying.setattr(module, name, dies)
        with suppress(Killed):
            list(forgotten(lake))
    list(forgotten(lake))
    assert mentions(lake, tmp_path / "lake") == []


@pytest.mark.spark
def test_before_a_time_only_older_rows_go(lake):
    rows = lake.rows("partition_hw").to_table()
    half = pc.quantile(rows["ts"].cast("int64"), 0.5, interpolation="lower")[0].as_py()
    limit = datetime.fromtimestamp(half / 1e6, UTC)
    health, events = rows_of(lake, "partition_health", GONE), read_events(lake.root, cluster=STAYS)
    list(forgotten(lake, Removal(GONE, limit)))
    expected = rows.filter(pc.or_(pc.equal(rows["cluster"], STAYS), pc.greater_equal(rows["ts"], pa.scalar(limit))))
    assert same_rows(lake.rows("partition_hw").to_table()) == same_rows(expected)
    assert rows_of(lake, "partition_health", GONE) == health
    assert len(read_events(lake.root, cluster=STAYS)) == len(events)
    summary = run(lake)
    assert summary.events == 0


@pytest.mark.spark
@pytest.mark.parametrize("killed_after", [3, None], ids=["killed on the way", "in one go"])
def test_one_cluster_is_made_anew_from_bronze(lake, killed_after):
    final = [name for name in KINDS if name not in ("coverage", "minute_stats")]
    names = [*final, "partition_health", "cluster_minute", "replication_events"]
    before = {name: (rows_of(lake, name), rows_of(lake, name, GONE)) for name in names}
    ids = {name: lake.open(name).metadata().id for name in names}

    def go(cluster, held):
        return job.run(lake.root, Rules(), RunOptions(forget=cluster), held=held)

    if killed_after:
        killed = rebuild(lake, GONE, go, lambda: None)
        for _, _ in zip(range(killed_after), killed, strict=False):
            pass
        killed.close()
        with pytest.raises(UsageError, match="run --once --rebuild --cluster xenopus` was cut off"):
            run(lake)
    list(rebuild(lake, GONE, go, lambda: None))
    after = {name: (rows_of(lake, name), rows_of(lake, name, GONE)) for name in names}
    assert {name: len(rows) for name, (_, rows) in after.items()} == {n: len(rows) for n, (_, rows) in before.items()}
    assert after == before
    assert {name: lake.open(name).metadata().id for name in names} == ids


@pytest.mark.spark
def test_the_lock_of_a_reader_that_began_meanwhile_stays(lake):
    """It was removed while it was held: a second reader of the same log could begin."""
    steps, role = forgotten(lake), f"ingest:{GONE}/a-new-log"
    next(steps)
    with hold(lake.root, role):
        list(steps)
        with pytest.raises(RoleHeld), hold(lake.root, role):
            pass


def test_it_waits_for_nobody_who_writes(tmp_path):
    lake = Lake(str(tmp_path))
    ingest_recording(lake, GONE)
    for role in ("run", "maintain", "notify"):
        with hold(lake.root, role), pytest.raises(RoleHeld, match=f"{role} of lake"):
            list(forgotten(lake))
    with hold(lake.root, f"ingest:{GONE}/any"), pytest.raises(RoleHeld, match="ingest:xenopus"):
        list(forgotten(lake))
    list(forgotten(lake))
    assert mentions(lake, tmp_path) == []
    ingest_recording(lake, GONE)
    assert len(read_events(lake.root)) == len(read_logs([traces.path("unclean_election")], GONE))


def lake_of(tmp_path, *clusters):
    lake = Lake(str(tmp_path / "lake"))
    for cluster in clusters:
        ingest_recording(lake, cluster)
    return lake


def test_before_a_time_writers_go_on_from_where_they_are(tmp_path):
    """The next `ingest` read the whole log again; a watcher began at epoch 0, whose rows passed for repeats."""
    lake = lake_of(tmp_path, GONE)
    append_events(lake.root, read_events(lake.root).slice(0, 0), app_id=f"watch-epoch:{GONE}", version=5)
    ts = read_events(lake.root)["ts"].cast("int64")
    limit = datetime.fromtimestamp(pc.quantile(ts, 0.5, interpolation="lower")[0].as_py() / 1e6, UTC)
    list(forgotten(lake, Removal(GONE, limit)))
    left = len(read_events(lake.root))
    ingest_recording(lake, GONE)
    assert 0 < len(read_events(lake.root)) == left < len(ts)
    assert committed(lake.root, [f"watch-epoch:{GONE}"]) == {f"watch-epoch:{GONE}": 5}


def test_a_cluster_whose_name_begins_with_that_of_the_forgotten_one_keeps_its_writers(tmp_path):
    other = f"{GONE}/eu"
    lake = lake_of(tmp_path, GONE, other)
    list(forgotten(lake))
    left = len(read_events(lake.root))
    ingest_recording(lake, other)
    assert len(read_events(lake.root)) == left > 0


@pytest.mark.parametrize(
    ("name", "is_its"),
    [
        ("watch:prod", True), ("watch-epoch:prod", True), ("simulate/prod", True), ("ingest:prod/broker-1/a.log", True),
        ("ingest:prod/eu/server.log", False), ("watch:prod/eu", False), ("watch-epoch:prod/eu", False),
        ("simulate/prod/eu", False), ("ingest:production/a", False), ("run", False), ("other:prod", False),
    ],
)  # fmt: skip
def test_whose_writer_an_id_names(name, is_its):
    assert removal.is_writer(name, "prod", ["prod/eu", "dev"]) is is_its


def test_a_lake_of_one_cluster_whose_alerts_are_gone_is_no_reason_to_stop(tmp_path):
    """A second call, or one after a kill, failed on the empty table of alerts, and no run went on before it ended."""
    lake = lake_of(tmp_path, GONE)
    with_people(lake, (GONE, "1" * 16))
    list(forgotten(lake))
    assert len(lake.rows("alerts").to_table()) == 0
    ingest_recording(lake, GONE)
    list(forgotten(lake))
    assert len(lake.rows("deliveries").to_table()) == 0


def test_deliveries_of_alerts_that_go_by_their_time_go_with_them(tmp_path):
    """A log that is read late: its alert is of January, and was sent in November. Nothing else names its cluster."""
    lake = lake_of(tmp_path, GONE)
    with_people(lake)
    lake.append("deliveries", pa.Table.from_pylist(
        [{"channel": "a", "outcome": "sent", "attempt": 1, "sent_at": AT + timedelta(days=9), "alert_id": "1" * 16}],
        deliveries.ARROW,
    ))  # fmt: skip
    list(forgotten(lake, Removal(GONE, AT + timedelta(days=1))))
    assert lake.rows("deliveries").to_table()["alert_id"].to_pylist() == ["2" * 16]


def test_results_of_another_cluster_with_a_topic_of_that_name_stay(tmp_path):
    lake = lake_of(tmp_path, GONE)
    with_people(lake)
    row = {
        "run_id": "r", "run_ts": AT, "suite": "s", "expectation": "e", "table": "t", "success": False,
        "sample": json.dumps([{"cluster": STAYS, "topic": GONE}]),
    }  # fmt: skip
    lake.append("quality_results", pa.Table.from_pylist([row], quality_results.ARROW))
    list(forgotten(lake))
    assert len(lake.rows("quality_results").to_table()) == 2


def test_nothing_is_taken_where_another_engine_writes_bronze_on_a_disk(tmp_path, monkeypatch):
    lake = lake_of(tmp_path, GONE)
    monkeypatch.setattr(engines, "other_engine", lambda table: "Apache-Spark/4.1.4 Delta-Lake/4.4.0")
    with pytest.raises(engines.OtherEngineError, match=r"Apache-Spark/4\.1\.4"):
        list(forgotten(lake))
    assert len(read_events(lake.root))


@pytest.mark.spark
@pytest.mark.parametrize("removes", [forget, lambda lake, asked, *more: rebuild(lake, asked.cluster, *more)])
def test_a_job_that_was_asked_to_stop_has_not_read_all(lake, removes):
    """Rows of the forgotten cluster that the job had not read were written again."""
    before = len(lake.rows("partition_hw").to_table())
    with pytest.raises(UsageError, match="stopped before the job had read all of bronze: call this again"):
        list(removes(lake, Removal(GONE), lambda *_: RunSummary(stopped=True), lambda: None))
    assert len(lake.rows("partition_hw").to_table()) == before
    run(lake)


@pytest.mark.spark
def test_a_job_that_refuses_takes_nothing_and_can_be_mended(lake, tmp_path):
    """`run --rebuild`, which the refusal names, was refused in its turn, for the removal that could not go on."""
    killed = forgotten(lake)
    next(killed)
    killed.close()
    shutil.rmtree(tmp_path / "lake/silver/coverage")
    with pytest.raises(StateMismatch, match="--rebuild"):
        list(forgotten(lake))
    run(lake, rebuild=True)
    list(forgotten(lake))
    assert mentions(lake, tmp_path / "lake") == []
