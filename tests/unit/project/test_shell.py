"""What people have around hwmark: scripts that read exit statuses and schemas, completion, narrow terminals."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.commands import exits
from pipelines.commands.show.command import COLUMNS as COLUMNS_OF
from pipelines.commands.show.tables import as_table
from schemas import MODULES, tables
from tests.unit.project.lakes import at, health, sound, write

REPOSITORY = Path(__file__).parents[3]


def hwmark(*words):
    return CliRunner().invoke(app, list(words))


def documented():
    """The table of the page; a later one says what a check with such a status has not checked."""
    table, _, _ = (REPOSITORY / "docs/exit-statuses.md").read_text().partition("\n## ")
    return {int(status): words for status, words in re.findall(r"^\| (\d+) \| (.*) \|$", table, re.MULTILINE)}


def test_help_and_documentation_have_the_exit_statuses_of_the_code():
    assert documented() == exits.STATUSES
    shown = [line for line in hwmark("--help").output.splitlines() if re.match(r" +\d+  ", line)]
    assert shown == [f"  {status:5}  {words}" for status, words in exits.STATUSES.items()]
    assert max(map(len, shown)) <= 80


def test_no_command_ends_with_a_status_that_the_table_lacks():
    names = {name for name in vars(exits) if name.isupper() and isinstance(getattr(exits, name), int)}
    assert {getattr(exits, name) for name in names} == set(exits.STATUSES)
    code = [path.read_text() for path in (REPOSITORY / "pipelines").rglob("*.py")]
    ends = {end for text in code for end in re.findall(r"typer\.Exit\((.*?)\)", text)}
    assert ends <= names | {"", "_status(error"}


def test_the_version_is_that_of_the_package():
    project = (REPOSITORY / "pyproject.toml").read_text()
    (version,) = re.findall(r'^version = "(.*)"$', project, re.MULTILINE)
    assert hwmark("--version").output == f"hwmark {version}\n"


def completed(*words):
    """What bash offers for the last word, and which heavy packages it took."""
    program = (
        "import atexit, sys; atexit.register(lambda: print('#', *sorted({'pyspark', 'numba', 'pandas', 'duckdb', "
        "'deltalake', 'fastapi'} & set(sys.modules)))); from pipelines.cli import app; app(prog_name='hwmark')"
    )
    asked = {"_HWMARK_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | asked, capture_output=True, text=True, check=True
    )
    *offered, heavy = done.stdout.split("\n")[:-1]
    return {line.split("\t")[0] for line in offered if line}, heavy


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("hwmark", "sc"), {"schema"}),
        (("hwmark", "show", "reg"), {"regressions"}),
        (("hwmark", "show", "hw", "--for"), {"--format"}),
        (("hwmark", "show", "hw", "--format", "j"), {"json"}),
        (("hwmark", "schema", "partition_h"), {"partition_hw", "partition_health"}),
    ],
)
def test_completion_offers_what_fits_and_loads_nothing_heavy(words, offered):
    assert completed(*words) == (offered, "#")


def test_the_schema_is_data():
    found = json.loads(hwmark("schema", "--format", "json").output)
    assert list(found) == list(MODULES)
    assert found["hw_regressions"]["path"] == "silver/hw_regressions"
    assert {
        "name": "lost_to",
        "type": "bigint",
        "nullable": True,
        "description": "first offset not lost, at least",
    } in (found["hw_regressions"]["columns"])
    assert list(json.loads(hwmark("schema", "alerts", "--format", "json").output)) == ["alerts"]


def test_the_ddl_makes_tables_or_names_those_of_a_lake(tmp_path, monkeypatch):
    made = hwmark("schema", "broker_lag", "--format", "ddl").output
    assert made.startswith(
        "CREATE TABLE IF NOT EXISTS broker_lag (\n  cluster STRING NOT NULL COMMENT 'cluster name',\n"
    )
    assert "of these, those below their leader\\'s LEO" in made
    assert "LOCATION" not in made
    sound(tmp_path / "lake", health("orders", 0))
    monkeypatch.chdir(tmp_path)
    named = hwmark("schema", "--format", "ddl", "--lake", "lake").output
    assert re.findall("LOCATION '(.*)'", named) == [
        f"{tmp_path}/lake/{path}" for path in ("bronze/replication_events", "silver/coverage", "gold/partition_health")
    ]  # fmt: skip
    assert "NOT NULL" not in named
    assert hwmark("schema", "--format", "ddl", "--lake", "lakke").exit_code == 2


@pytest.mark.parametrize("options", [["--lake", "x"], ["--lake", "x", "--format", "ddl", "--truth"]])
def test_a_lake_that_the_schema_does_not_take_is_refused(options):
    done = hwmark("schema", *options)
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert done.output.startswith("hwmark: --lake x is the place of a lake's tables")


ROWS = [
    {"ts": at(n), "cluster": "prod", "topic": "orders", "partition": n, "hw": 10**n, "isr": [1, 2, 3],
     "agreement": "exact", "leader_epoch": n, "kind": "advance", "reported_hw": 10**n, "leader_leo": 10**n}
    for n in range(9)
]  # fmt: skip
COLUMNS = [column for column in COLUMNS_OF["hw"].split() if column not in ("leader_id", "holding_replicas")]


@pytest.fixture
def width(monkeypatch):
    def of(columns):
        monkeypatch.setattr("pipelines.commands.show.tables.terminal_width", lambda: columns)
        monkeypatch.setattr("pipelines.commands.progress.terminal_width", lambda: columns)

    return of


@pytest.mark.parametrize("columns", [200, 120, 80, 60, 40, 20])
def test_a_row_is_one_line_at_any_width(width, columns):
    width(columns)
    lines = as_table(ROWS, COLUMNS).splitlines()
    assert max(map(len, lines)) <= columns
    rows = [line for line in lines if not line.startswith(("(", "ts")) and re.match(r"\d{4}-", line)]
    assert len(rows) == len(ROWS)


def test_what_is_left_out_is_named(width):
    width(80)
    *_, same, left_out = as_table(ROWS, COLUMNS).splitlines()
    assert same == "(the same in all rows: cluster prod, kind advance, isr 1,2,3, agreement exact)"
    assert left_out == "(too narrow for leader epoch: --format json has all)"


def test_of_other_columns_the_last_are_left_out_first(width):
    width(40)
    rows = [{"broker_id": n, **{f"column_{letter}": 10**n for letter in "abcdef"}} for n in range(5)]
    lines = as_table(rows, list(rows[0])).splitlines()
    assert lines[0].split("  ") == ["broker id", "column a", "column b", "column c"]
    assert " ".join(lines[6:]) == "(too narrow for column f, column e, column d: --format json has all)"


def test_a_pipe_gets_every_column(width):
    width(None)
    lines = as_table(ROWS, COLUMNS).splitlines()
    assert len(lines) == 1 + len(ROWS)
    assert lines[1].split()[2:] == ["prod", "orders-0", "0", "advance", "1", "1", "1", "1,2,3", "exact"]


def test_sentences_are_folded_and_nothing_of_them_is_lost(width, tmp_path):
    width(60)
    sentence = " ".join(f"word{n}" for n in range(40))
    alert = {"rule": "loss", "severity": "critical", "state": "firing", "first_ts": at(0), "last_ts": at(1)}
    sound(tmp_path, health("orders", 0))
    write(tmp_path, "alerts", {**alert, "alert_id": "a1b2", "summary": sentence, "labels": [("cluster", "prod")]})
    shown = hwmark("show", "alerts", "--lake", str(tmp_path)).output
    table = shown[shown.index("last ts") :]
    assert max(map(len, table.splitlines())) <= 60
    assert [word for word in table.split() if word.startswith("word")] == sentence.split()
    assert "a1b2" in table, "`note --incident` asks for it"


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.sampled(3)
def test_the_schema_in_words_fits_80_columns(width, name):
    width(80)
    lines = hwmark("schema", name).output.splitlines()
    assert max(map(len, lines)) <= 80
    said = " ".join(" ".join(lines).split())
    assert all(" ".join(column.words.split()) in said for column in tables()[name].columns)
