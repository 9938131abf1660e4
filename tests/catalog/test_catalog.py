"""What others get of a lake's tables: Delta's own schema, a metastore, a data contract, a dbt project."""

import json
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from generators.brokerlogs.ingest import read_logs
from generators.recordings import traces
from pipelines.cli import app
from pipelines.commands.catalog import contract, ddl, yaml
from pipelines.errors import UsageError
from pipelines.lake.bronze import append_events
from pipelines.lake.lake import KEY, Lake, declared
from pipelines.lake.removal import remove_rows
from pipelines.lake.retention import remove_older
from pipelines.replication import Rules, replay
from pipelines.setup import jars_dir
from schemas import MODULES, tables
from tests.environments import install


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A lake with every table, some of them with the rows of a recorded incident."""
    lake = Lake(str(tmp_path_factory.mktemp("catalog") / "lake"))
    events = read_logs([traces.path("unclean_election")], "main")
    append_events(lake.root, events, app_id="test", version=0)
    for name, rows in replay(events, Rules()).tables().items():
        if len(rows):
            lake.append(name, rows.select(declared(name).arrow().names))
    for name in MODULES:
        lake.create_with_columns(name)
    return lake


def catalog(lake, *options):
    done = CliRunner().invoke(app, ["catalog", "--lake", lake.root, *map(str, options)])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("name", MODULES)
def test_delta_knows_what_schemas_say(lake, name):
    declared, table = tables()[name], lake.open(name)
    protocol, fields = table.protocol(), table.schema().fields
    assert (protocol.min_reader_version, protocol.min_writer_version, protocol.writer_features) == (1, 2, None)
    assert table.metadata().description == declared.words
    assert [(f.name, f.nullable, f.metadata["comment"]) for f in fields] == [
        (c.name, c.null, c.words) for c in declared.columns
    ]
    assert table.metadata().configuration.get(KEY, "") == ",".join(declared.key)


@pytest.mark.parametrize("name", [name for name, table in tables().items() if table.key])
def test_no_two_rows_have_the_same_key(lake, name):
    key = list(tables()[name].key)
    rows = lake.rows(name).to_table(columns=key)
    assert len(rows.group_by(key).aggregate([])) == len(rows)


def test_the_guide_names_the_keys():
    guide = (Path(__file__).parents[2] / "docs/tables.md").read_text()
    named = dict(re.findall(r"^\| `(\w+/\w+)` \| (.+) \|$", guide, re.MULTILINE))
    assert named == {t.path: ", ".join(f"`{name}`" for name in t.key) for t in tables().values() if t.key}


def test_comments_stay_when_rows_are_overwritten_and_come_with_new_columns(tmp_path):
    lake = Lake(str(tmp_path))
    less = pa.schema([field for field in declared("brokers").arrow() if field.name != "rack"])
    DeltaTable.create(lake.uri("brokers"), less)  # as an earlier version made it
    table = lake.create_with_columns("brokers")
    assert [f.metadata for f in table.schema().fields if f.name == "rack"] == [{"comment": words("brokers", "rack")}]
    from pipelines.lake.table import add_files

    table = lake.create("partition_health")
    add_files(table, [], {"q": 0}, "overwrite")
    assert all(field.metadata["comment"] for field in lake.open("partition_health").schema().fields)


def words(name, column):
    return next(c.words for c in tables()[name].columns if c.name == column)


BRONZE = "replication_events"


def table_with(tmp_path, properties=None, column=None, **protocol):
    """A lake whose bronze has these properties, metadata of its first column, and protocol in a second commit."""
    lake = Lake(str(tmp_path))
    lake.create(BRONZE)
    log = Path(lake.uri(BRONZE)) / "_delta_log"
    lines = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    about = next(line for line in lines if "metaData" in line)
    schema = json.loads(about["metaData"]["schemaString"])
    schema["fields"][0]["metadata"] |= column or {}
    about["metaData"] |= {"schemaString": json.dumps(schema)}
    about["metaData"]["configuration"] |= properties or {}
    versions = {"minReaderVersion": 1, "minWriterVersion": 2} | protocol
    (log / f"{1:020}.json").write_text(f"{json.dumps(about)}\n{json.dumps({'protocol': versions})}\n")
    return lake


def ingest_into(lake):
    append_events(lake.root, read_logs([traces.path("unclean_election")], "main"), app_id="a", version=0)


@pytest.mark.parametrize(
    "feature", ["deletionVectors", "columnMapping", "rowTracking", "clustering", "domainMetadata", "one of 2027"]
)
def test_a_table_that_deltalake_cannot_write_is_refused_by_name(tmp_path, feature):
    readers = [feature] if feature in ("deletionVectors", "columnMapping") else []
    features = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": readers, "writerFeatures": [feature]}
    with pytest.raises(UsageError, match=f"has {feature}, which deltalake cannot write"):
        ingest_into(table_with(tmp_path, **features))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        pytest.param(
            {"properties": {"delta.constraints.numbered": "seq >= 0"}, "minWriterVersion": 3},
            "the CHECK constraint numbered, which hwmark does not ask",
            id="a CHECK constraint",
        ),
        pytest.param(
            {"column": {"delta.invariants": '{"expression": {"expression": "cluster != 1"}}'}},
            "delta.invariants of a column, which hwmark does not ask",
            id="an invariant",
        ),
        pytest.param(
            {"column": {"delta.generationExpression": "upper(cluster)"}, "minWriterVersion": 4},
            "delta.generationExpression of a column, which hwmark does not ask",
            id="a generated column",
        ),
        pytest.param({"minWriterVersion": 6}, "identityColumns, which deltalake cannot write", id="writer version 6"),
    ],
)
def test_a_table_with_a_rule_that_our_commits_do_not_ask_is_refused_by_name(tmp_path, made, said):
    with pytest.raises(UsageError, match=f"has {said}"):
        ingest_into(table_with(tmp_path, **made))


FEED, APPENDED = "delta.enableChangeDataFeed", "delta.appendOnly"


@pytest.mark.parametrize(("name", "version", "on"), [(FEED, 4, "true"), (APPENDED, 2, "true"), (APPENDED, 2, "TRUE")])
def test_where_rows_are_replaced_a_table_that_records_changes_or_allows_none_is_refused(tmp_path, name, version, on):
    lake = table_with(tmp_path, {name: on}, minWriterVersion=version)
    ingest_into(lake)  # which takes nothing away
    with pytest.raises(UsageError, match=rf"has {name} .*UNSET TBLPROPERTIES \({name}\)"):
        remove_rows(lake, BRONZE, "main", pc.max(lake.rows(BRONZE).to_table(["ts"])["ts"]).as_py())
    lake.create("brokers").alter.set_table_properties({name: "true"})
    with pytest.raises(UsageError, match=f"has {name} "):
        lake.create_with_columns("brokers")


def test_files_as_a_whole_leave_a_change_data_feed_as_it_is_and_no_append_only_table(tmp_path):
    feed = table_with(tmp_path / "feed", {FEED: "true"}, minWriterVersion=4)
    ingest_into(feed)
    assert remove_older(feed, BRONZE, datetime(2100, 1, 1, tzinfo=UTC)) > 0
    kept = table_with(tmp_path / "kept", {APPENDED: "true"})
    ingest_into(kept)
    with pytest.raises(UsageError, match=f"has {APPENDED} "):
        remove_older(kept, BRONZE, datetime(2100, 1, 1, tzinfo=UTC))


def test_yaml_is_what_its_value_is(lake):
    read = pytest.importorskip("yaml").safe_load
    made = contract(lake, tables())
    assert read(yaml(made)) == made
    assert [one["name"] for one in made["schema"]] == list(MODULES)
    assert read(yaml({"a": [{"b": [1, "x: y"]}, 2], "c": None})) == {"a": [{"b": [1, "x: y"]}, 2], "c": None}


def test_the_ddl_names_each_table_of_the_lake(lake, tmp_path):
    printed = catalog(lake)
    assert [f"hwmark.{name} USING DELTA\nLOCATION '{lake.uri(name)}'" in printed for name in MODULES] == [True] * len(
        MODULES
    )
    assert "CREATE DATABASE IF NOT EXISTS other;" in catalog(lake, "--database", "other")
    catalog(lake, "--out", tmp_path / "out")
    assert (tmp_path / "out/tables.sql").read_text() == printed.rstrip("\n")


def test_names_and_addresses_are_those_that_spark_takes(tmp_path):
    lake = Lake("s3://b/lake")
    made = {name: tables()[name] for name in ("brokers", "partition_hw")}
    for database, name in {
        "kafka-telemetry": "`kafka-telemetry`",
        "main.hwmark": "main.hwmark",
        "a`b.2026": "`a``b`.`2026`",
    }.items():
        printed = ddl(lake, made, database)
        assert printed.startswith(f"CREATE DATABASE IF NOT EXISTS {name};\n")
        assert f"{name}.brokers USING DELTA\nLOCATION 's3a://b/lake/gold/brokers'" in printed


@pytest.mark.parametrize(("root", "kind"), [("s3://b/l", "s3"), ("abfss://c@a/l", "azure"), ("gs://b/l", "custom")])
def test_a_server_of_the_contract_has_the_tables_of_one_layer(root, kind):
    made = contract(Lake(root), {name: tables()[name] for name in ("brokers", "partition_hw")})
    place = [(one["server"], one["type"], one["location"]) for one in made["servers"]]
    assert place == [("gold", kind, f"{root}/gold/{{model}}"), ("silver", kind, f"{root}/silver/{{model}}")]


METASTORE = """
import sys
from glob import glob
from pyspark.sql import SparkSession
jars, folder, script = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]").config("spark.jars", ",".join(glob(jars + "/*.jar")))
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.sql.warehouse.dir", folder + "/warehouse").config("spark.ui.enabled", "false")
    .config("spark.driver.extraJavaOptions", "-Dderby.system.home=" + folder)
    .enableHiveSupport().getOrCreate()
)
for statement in open(script).read().split(";\\n"):
    if statement.strip(" ;\\n"):
        spark.sql(statement.strip(" ;\\n"))
described = {row.col_name: row.comment for row in spark.sql("DESCRIBE TABLE hwmark.hw_regressions").collect()}
print("FOUND", spark.conf.get("spark.sql.catalogImplementation"), spark.table("hwmark.hw_regressions").count(),
      len(spark.catalog.listTables("hwmark")), described["proof"])
"""


@pytest.mark.nightly
@pytest.mark.spark
def test_spark_registers_them_in_hives_metastore(lake, tmp_path):
    (tmp_path / "made.sql").write_text(catalog(lake))
    words = [sys.executable, "-c", METASTORE, str(jars_dir()), str(tmp_path), str(tmp_path / "made.sql")]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    rows = len(lake.rows("hw_regressions").to_table())
    assert f"FOUND hive {rows} {len(MODULES)} proven, bounded or unproven" in done.stdout, done.stderr[-2000:]


@pytest.mark.nightly
def test_datacontract_cli_takes_the_contract(lake, tmp_path):
    catalog(lake, "--out", tmp_path)
    (tmp_path / "s3.odcs.yaml").write_text(yaml(contract(Lake("s3://b/lake"), tables())))
    bin = install(tmp_path / "venv", "datacontract-cli>=1.2")
    for file in ("contract.odcs.yaml", "s3.odcs.yaml"):
        words = [bin / "datacontract", "lint", tmp_path / file]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300)
        assert (done.returncode, "is valid" in done.stdout) == (0, True), done.stdout


@pytest.mark.nightly
def test_the_dbt_project_runs(lake, tmp_path):
    catalog(lake, "--out", tmp_path)
    # dbt-core 1.12 fetches a part of itself from GitHub while it is installed.
    bin = install(tmp_path / "venv", "dbt-core>=1.10,<1.12", "dbt-duckdb", "deltalake", "pyarrow", "pandas", "duckdb")
    shutil.copytree(tmp_path / "dbt", tmp_path / "project")
    env = {**os.environ, "DBT_PROFILES_DIR": str(tmp_path / "project"), "PYTHONPATH": ""}
    done = subprocess.run(
        [bin / "dbt", "run"], cwd=tmp_path / "project", env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout
    lost = lake.rows("hw_regressions").to_table().to_pylist()
    with duckdb.connect(str(tmp_path / "project/lake.duckdb"), read_only=True) as made:
        (count,) = made.sql("SELECT count(*) FROM losses").fetchall()
    assert count == (len({row["regression_id"] for row in lost if row["severity"] == "critical"}),)
