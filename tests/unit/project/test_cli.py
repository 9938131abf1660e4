"""The command: exit statuses, one-line errors, help."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from pipelines.alerting.state import AlertState
from pipelines.cli import app
from pipelines.commands import jobs
from pipelines.commands.progress import batch_line
from pipelines.lake.roles import hold
from pipelines.quality.results import CheckSummary, Result
from pipelines.streaming.follow import Batch, InFlight
from tests.unit.project.lakes import NOON, health, sound

COMMANDS = [
    "schema",
    "ingest logs",
    "simulate",
    "run",
    "check",
    "notify",
    "note",
    "show",
    "gate",
    "demo",
    "maintain",
    "forget",
    "catalog",
]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def lake(tmp_path):
    """The default lake, with one partition."""
    sound(tmp_path / "lake", health("orders", 0))
    return tmp_path / "lake"


def hwmark(*words):
    return CliRunner().invoke(app, list(words))


def alert(state, severity="critical"):
    return AlertState("a", "offline", severity, state, "broker 1", NOON, NOON, "gone", {"cluster": "prod"}, NOON)


@pytest.fixture
def checked(monkeypatch, lake):
    """`check` without Spark: the expectation holds, unless `failed`, and the alerts are those given."""

    def give(*states, failed=False):
        result = Result("silver", "no_loss", "silver/hw_regressions", 0, 1, not failed, "1 new row")
        monkeypatch.setattr(jobs, "check", lambda settings, now, say: CheckSummary(now, [result]))
        monkeypatch.setattr(jobs, "alerts", lambda settings, now: [alert(state) for state in states])

    return give


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_examples(command):
    done = hwmark(*command.split(), "--help")
    assert done.exit_code == 0
    assert f"Examples:\n    hwmark {command}" in done.output


def test_help_lists_the_commands():
    listed = hwmark("--help").output
    assert [name for name in COMMANDS if f"  {name.split()[0]} " not in listed] == []


def test_schema_prints_tables_columns_and_meanings():
    done = hwmark("schema", "hw_regressions")
    assert done.exit_code == 0
    assert done.output.startswith("silver/hw_regressions: one fall of a high watermark")
    assert "lost_from            bigint     null  first lost offset, at least" in done.output
    assert hwmark("schema").output.count(": one ") > 8


def test_schema_prints_the_tables_of_the_truth_beside_those_of_a_lake():
    assert hwmark("schema", "--truth").output.count("\ntruth_") == 4
    assert "first committed record that is gone" in hwmark("schema", "--truth", "truth_regressions").output
    assert "did you mean truth_hw?" in hwmark("schema", "--truth", "partition_hw").output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["schema", "hw_regression"], "there is no table hw_regression; did you mean hw_regressions?"),
        (["show", "hw", "--since", "x"], "--since x is no time"),
        (["run", "--drain"], "--drain closes what is there and needs --once"),
        (["run", "--once", "--interval", "5s"], "leave out --interval 5s"),
        (["run", "--fail-on-alert"], "--fail-on-alert needs --once"),
        (["run", "--once", "--buckets", "0"], "--buckets is 0"),
        (["check", "--config", "none.toml"], "cannot read the configuration none.toml"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(words, said):
    done = hwmark(*words)
    assert done.exit_code == 2
    assert done.output.startswith("hwmark: ")
    assert said in done.output
    assert done.output.count("\n") == 1


@pytest.mark.parametrize(
    "words", [["bogus"], ["show", "everything"], ["ingest", "logs"], ["show", "hw", "--limit", "0"]]
)
def test_what_the_command_line_cannot_be_is_status_2(words):
    assert hwmark(*words).exit_code == 2


def test_a_wrong_key_in_the_environment_is_status_2(monkeypatch):
    monkeypatch.setenv("HWMARK_RUN__BUCKET", "3")
    done = hwmark("check")
    assert (done.exit_code, done.output) == (
        2,
        "hwmark: the environment sets HWMARK_RUN__BUCKET, which is no setting; did you mean HWMARK_RUN__BUCKETS?\n",
    )


def test_nothing_to_read_is_one_line_and_status_2(tmp_path):
    done = hwmark("ingest", "logs", str(tmp_path / "none.log"), "--cluster", "prod", "--lake", str(tmp_path / "lake"))
    assert done.exit_code == 2
    assert done.output.startswith("hwmark: ")
    assert "none.log" in done.output
    assert done.output.count("\n") == 1


def test_an_unforeseen_error_is_one_line_and_debug_shows_the_trace(monkeypatch, lake):
    def fail(settings, now, say):
        raise RuntimeError("the disk\nis full")

    monkeypatch.setattr(jobs, "check", fail)
    done = hwmark("check")
    assert (done.exit_code, done.output.splitlines()[-1]) == (
        1,
        "hwmark: RuntimeError: the disk is full (--debug shows the trace)",
    )
    assert "Traceback" not in done.output
    assert hwmark("check", "--debug").exit_code == 1


def test_debug_prints_the_trace(monkeypatch, lake):
    monkeypatch.setattr(jobs, "check", lambda settings, now, say: 1 / 0)
    assert hwmark("check", "--debug").exit_code == 1
    assert "ZeroDivisionError" in hwmark("check", "--debug").output


ON_ALERT, ON_CHECK = "--fail-on-alert", "--fail-on-check"


@pytest.mark.parametrize(
    ("states", "failed", "options", "status"),
    [
        (["firing"], False, [], 0),
        (["firing"], False, [ON_ALERT], 3),
        (["resolved"], False, [ON_ALERT], 0),
        ([], False, [ON_ALERT], 0),
        (["firing"], False, [ON_CHECK], 0),
        ([], True, [], 0),
        ([], True, [ON_ALERT], 0),
        ([], True, [ON_CHECK], 4),
        (["resolved"], True, [ON_ALERT, ON_CHECK], 4),
        (["firing"], True, [ON_ALERT, ON_CHECK], 3),
        (["firing"], True, [ON_CHECK], 4),
        ([], False, [ON_ALERT, ON_CHECK], 0),
    ],
)
def test_check_exits_with_3_or_4_only_when_asked(checked, states, failed, options, status):
    checked(*states, failed=failed)
    done = hwmark("check", *options)
    lines = done.output.splitlines()
    assert done.exit_code == status
    assert lines[0].startswith("prod: ")
    assert f"1 expectations, {int(failed)} failed{': silver/hw_regressions no_loss' * failed}" in lines
    assert (f"{states[0].upper()} critical offline: gone" if states else "No alert is firing.") in lines
    silent = "Expectations failed: --fail-on-check makes that exit status 4."
    assert (silent in lines) == (failed and ON_CHECK not in options)


@pytest.mark.parametrize("words", ["check", "maintain", "run --once"])
def test_a_role_that_another_process_holds_is_status_75(lake, words, monkeypatch):
    monkeypatch.setattr("pipelines.quality.check.WAIT_S", 0)
    role = words.split()[0]
    with hold(str(lake), role):
        done = hwmark(*words.split(), "--lake", str(lake))
    assert done.exit_code == 75
    assert done.output.splitlines()[-1].startswith(f"hwmark: {role} of lake {lake} is held by process ")


NO_LAKE = [
    ["check"],
    ["notify", "--once"],
    ["notify", "--dry-run"],
    ["run", "--once"],
    ["maintain"],
    ["show", "health"],
    ["show", "hw", "--format", "json"],
]


@pytest.mark.parametrize("words", NO_LAKE, ids=" ".join)
def test_a_mistyped_lake_is_wrong_usage_and_creates_nothing(tmp_path, words):
    done = hwmark(*words, "--lake", "lakke")
    assert (done.exit_code, done.output) == (
        2,
        "hwmark: there is no lake lakke; `hwmark ingest logs` and `hwmark simulate` create one\n",
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", NO_LAKE, ids=" ".join)
def test_a_mistyped_lake_names_the_one_beside_it(lake, words):
    done = hwmark(*words, "--lake", "lakke")
    assert (done.exit_code, done.output) == (2, "hwmark: there is no lake lakke; did you mean lake?\n")


def test_a_folder_without_a_table_is_no_lake(tmp_path):
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake/notes.txt").touch()
    assert hwmark("check").exit_code == 2
    assert [path.name for path in (tmp_path / "lake").iterdir()] == ["notes.txt"]


def test_the_help_tells_every_exit_status():
    found = " ".join(hwmark("--help").output.split())
    for words in ("2 wrong usage", "3 alerts fire", "4 done and expectations failed", "75 another"):
        assert words in found


def test_run_passes_what_it_was_told_and_fails_on_alert(checked, monkeypatch):
    found = {}

    def reconstruct(settings, asked, on_batch, on_slow):
        names = ("once", "drain", "rebuild", "reshard", "accept_removal", "skip_files")
        found.update({name: getattr(asked, name) for name in names})
        found.update(lake=settings.lake.path, interval=settings.run.interval, buckets=settings.run.buckets)
        on_slow(InFlight(0, 9, 61.2, "Processing new data", 3, 2, 1))
        on_batch(Batch(0, 9, 3.0, 3.0, versions_behind=2))
        return SimpleNamespace(events=9, batches=1, seconds=3.0, stopped=False)

    monkeypatch.setattr(jobs, "run", reconstruct)
    checked("firing")
    done = hwmark("run", "--lake", "lake", "--once", "--drain", "--buckets", "7", "--fail-on-alert")
    assert done.exit_code == 3
    assert found == {
        "once": True,
        "drain": True,
        "rebuild": False,
        "reshard": None,
        "accept_removal": None,
        "skip_files": (),
        "lake": "lake",
        "interval": 10.0,
        "buckets": 7,
    }
    slow = "run: batch 0 of 9 events takes 61 s so far: Processing new data; 1 of 2 tasks of stage 3 done\n"
    assert slow in done.output
    assert "run: batch 0: 9 events, 3 events/s, 2 commits of bronze behind\n" in done.output
    assert "9 events in 1 batch, 3 s\n" in done.output


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (Batch(0, 1, 2.0, 0.5, 1), "batch 0: 1 event, 0 events/s, 1 commit of bronze behind"),
        (Batch(3, 0, 2.0, 0.0, 0), "batch 3: 0 events, 0 events/s, level with bronze"),
        (Batch(4, 2000, 2.0, 1000.0, 1200), "batch 4: 2,000 events, 1,000 events/s, 1,200 commits of bronze behind"),
    ],
)
def test_a_batch_is_counted_in_words(batch, said):
    assert batch_line(batch) == said


def test_demo_wants_a_new_folder(tmp_path):
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake/file").touch()
    done = hwmark("demo", "--lake", "lake")
    assert (done.exit_code, done.output) == (
        2,
        "hwmark: --lake lake has something in it already: name a new folder for the demo\n",
    )


def test_a_reader_that_goes_away_is_no_failure():
    call = f"{sys.executable} -m hwmark schema | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", call], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("141\n", "")
