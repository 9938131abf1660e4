"""The questions of docs/sql.md, asked in DuckDB, Polars and Spark SQL of one lake whose answers are known."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from schemas import tables
from tests.unit.project.lakes import at, health, loss, sound, write

GUIDE = Path(__file__).parents[2] / "docs/sql.md"
TEXT = GUIDE.read_text()
QUESTIONS = dict(re.findall(r"### ([^\n]*\?|[^\n]*minute)\n(?:(?!###).)*?```sql\n(.*?)```", TEXT, re.DOTALL))

ANSWERS = {
    "Up to when is each cluster judged, and at which level?": [("prod", at(60), 2, 5)],
    "What is lost?": [
        ("prod", "clicks", 0, "unclean_loss", "critical", "proven", 120, 300),
        ("prod", "clicks", 2, "unclean_loss", "warning", "unproven", 120, 300),
    ],
    "Of which losses is it not known?": [("prod", "clicks", 1)],
    "How do partitions stand, unknown ones apart?": [
        ("prod", "in service", 2), ("prod", "offline", 1), ("prod", "under min ISR", 1), ("prod", "unknown", 1),
    ],
    "How often did the ISR change, and why?": [
        ("prod", "expand", "caught_up", 1), ("prod", "shrink", "controller_fenced", 1), ("prod", "shrink", "lag", 1),
    ],
    "Which HW reports does the reconstruction not explain?": [("prod", "disagree", 1), ("prod", "exact", 2)],
    "who holds back whom now?": [("prod", 2, 1, 14_000), ("prod", 3, 1, 14_000)],
    "ISR shrinks for lag by minute": [("prod", at(60), 3)],
}  # fmt: skip


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Something for every question, with revisions, a change that was taken back, and what is not known."""
    lake = str(tmp_path_factory.mktemp("guide") / "lake")
    sound(
        lake,
        health("orders", 0, level=2),
        health("orders", 1, offline=True, leader_id=-1),
        health("orders", 2, under_min_isr=True),
        health("orders", 3, offline=None, under_min_isr=None),
        health("orders", 4, stalled_ms=14_000, holding_replicas=[2, 3]),
    )
    write(
        lake,
        "hw_regressions",
        loss(),
        loss(regression_id="revised", partition=1),
        loss(regression_id="revised", partition=1, revision=2, severity="info", **{"class": "stale_leader_hw"}),
        loss(regression_id="perhaps", partition=2, severity="warning", proof="unproven"),
        loss(regression_id="open", partition=3, severity="info", **{"class": "loss_not_excluded"}),
    )
    shrink = {"change": "shrink", "isr_before": [1, 2], "isr_after": [1], "removed": [2], "added": []}
    taken_back = {"isr_before": [1], "isr_after": [1], "removed": []}
    write(
        lake,
        "isr_changes",
        {**shrink, "partition_epoch": 7, "cause": "lag", "revision": 1},
        {**shrink, "partition_epoch": 7, "cause": "controller_fenced", "revision": 2, "ts": at(1)},
        {**shrink, "cause": "lag", "revision": 1, "ts": at(3)},
        {**shrink, "partition_epoch": 8, "cause": "lag", "revision": 1},
        {**shrink, "partition_epoch": 8, "cause": "lag", "revision": 2, **taken_back},
        {**shrink, "partition_epoch": 9, "cause": "lag", "revision": 1, "change": "retracted"},
        {"change": "expand", "partition_epoch": 10, "cause": "caught_up", "revision": 1, "isr_after": [1, 2]},
    )
    reports = [("exact", 1), ("exact", 2), ("disagree", 3), ("unreported", None)]
    write(lake, "partition_hw", *({"agreement": word, "reported_hw": hw, "kind": "advance"} for word, hw in reports))
    for number, shrinks in enumerate([[("election", 2)], [("lag", 3)], None]):
        write(lake, "cluster_minute", {"minute": at(60 * number - 60 * (number == 2)), "shrinks": shrinks})
    return lake


def connect(engine):
    """The function of that name which the guide defines for an engine."""
    (code,) = re.findall(rf"### {engine}\n.*?```python\n(.*?)```", TEXT.partition("\n## In every")[0], re.DOTALL)[:1]
    names = {}
    exec(compile(code, f"{GUIDE.name}: {engine}", "exec"), names)
    return names["connect"]


def of(engine):
    """The questions for an engine: those for all, and its own."""
    others = [f"{name}: " for name in ("DuckDB", "Polars", "Spark SQL") if name != engine]
    return [question for question in QUESTIONS if not question.startswith(tuple(others))]


def answer(question):
    return ANSWERS[question.rpartition(": ")[2]]


def test_the_guide_has_these_questions():
    assert {question.rpartition(": ")[2] for question in QUESTIONS} == set(ANSWERS)
    assert TEXT.count("```sql") == len(QUESTIONS)


@pytest.mark.parametrize("question", of("DuckDB"))
def test_duckdb_answers(lake, question):
    assert connect("DuckDB")(lake).execute(QUESTIONS[question]).fetchall() == answer(question)


@pytest.mark.parametrize("question", of("Polars"))
def test_polars_answers(lake, question):
    assert connect("Polars")(lake).execute(QUESTIONS[question]).rows() == answer(question)


@pytest.mark.spark
@pytest.mark.nightly
def test_spark_sql_answers_and_takes_the_ddl(lake, spark, tmp_path):
    session = connect("Spark SQL")(spark, lake)
    ask = {question: session.sql(QUESTIONS[question]) for question in of("Spark SQL")}
    found = {question: [tuple(row) for row in utc(rows).collect()] for question, rows in ask.items()}
    assert found == {question: timeless(answer(question)) for question in ask}

    for statement in statements("--lake", lake):
        spark.sql(statement)
    assert spark.table("default.hw_regressions").count() == 5
    spark.sql(f"CREATE DATABASE made LOCATION '{tmp_path}'")
    for statement in statements():
        spark.sql(statement.replace("NOT EXISTS ", "NOT EXISTS made.", 1))
    for name, table in tables().items():
        made = spark.table(f"made.{name}").schema
        assert [(f.name, f.dataType) for f in made] == [(f.name, f.dataType) for f in table.spark()], name
        assert [f.metadata["comment"] for f in made] == [column.words for column in table.columns]


def statements(*options):
    """Those of `hwmark schema --format ddl`."""
    printed = CliRunner().invoke(app, ["schema", "--format", "ddl", *options]).output
    return [statement for statement in printed.split(";\n") if statement.strip()]


def utc(rows):
    """Times as text: pyspark hands them out in the zone of this process."""
    from pyspark.sql import functions as F

    return rows.select(*(F.col(n).cast("string") if t == "timestamp" else F.col(n) for n, t in rows.dtypes))


def timeless(rows):
    return [tuple(f"{cell:%Y-%m-%d %H:%M:%S}" if hasattr(cell, "tzinfo") else cell for cell in row) for row in rows]
