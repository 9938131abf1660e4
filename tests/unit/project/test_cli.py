"""The command: exit statuses, one-line errors, help."""

from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from pipelines import jobs
from pipelines.cli import app

COMMANDS = ["schema", "ingest logs", "simulate", "run", "check", "show", "demo", "maintain", "bench"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def hwmark(*words):
    return CliRunner().invoke(app, list(words))


def alert(state):
    return SimpleNamespace(state=state, firing=state == "firing", severity="critical", rule="loss", summary="gone")


@pytest.fixture
def checked(monkeypatch):
    """`check` without Spark: the suites pass, and the alerts are those given."""

    def give(*states):
        monkeypatch.setattr(
            jobs, "judge", lambda settings: SimpleNamespace(lines=lambda: ["12 expectations, 0 failed"])
        )
        monkeypatch.setattr(jobs, "alerts", lambda settings: [alert(state) for state in states])

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


def test_what_fails_is_one_line_and_status_1(tmp_path):
    done = hwmark("ingest", "logs", str(tmp_path / "none.log"), "--cluster", "prod", "--lake", str(tmp_path / "lake"))
    assert done.exit_code == 1
    assert done.output.startswith("hwmark: ")
    assert "none.log" in done.output
    assert done.output.count("\n") == 1


def test_an_unforeseen_error_is_one_line_and_debug_shows_the_trace(monkeypatch):
    def fail(settings):
        raise RuntimeError("the disk\nis full")

    monkeypatch.setattr(jobs, "judge", fail)
    done = hwmark("check")
    assert (done.exit_code, done.output) == (
        1,
        "hwmark: RuntimeError: the disk is full (--debug shows the trace)\n",
    )
    assert "Traceback" not in done.output
    assert hwmark("check", "--debug").exit_code == 1


def test_debug_prints_the_trace(monkeypatch, capfd):
    monkeypatch.setattr(jobs, "judge", lambda settings: 1 / 0)
    assert hwmark("check", "--debug").exit_code == 1
    assert "ZeroDivisionError" in hwmark("check", "--debug").output


@pytest.mark.parametrize(
    ("states", "options", "status"),
    [
        (["firing"], [], 0),
        (["firing"], ["--fail-on-alert"], 3),
        (["resolved"], ["--fail-on-alert"], 0),
        ([], ["--fail-on-alert"], 0),
    ],
)
def test_check_exits_with_3_only_when_asked_and_firing(checked, states, options, status):
    checked(*states)
    done = hwmark("check", *options)
    assert done.exit_code == status
    assert done.output.splitlines()[0] == "12 expectations, 0 failed"
    assert done.output.splitlines()[1] == (
        f"{states[0].upper()} critical loss: gone" if states else "No alert is firing."
    )


def test_run_passes_what_it_was_told_and_fails_on_alert(checked, monkeypatch):
    told = {}

    def reconstruct(settings, on_batch, **how):
        told.update(how, lake=settings.lake.path, interval=settings.run.interval, buckets=settings.run.buckets)
        on_batch(SimpleNamespace(batch_id=0, events=9, events_per_second=3.0, versions_behind=2))
        return SimpleNamespace(events=9, batches=1, seconds=3.0, stopped=False)

    monkeypatch.setattr(jobs, "reconstruct", reconstruct)
    checked("firing")
    done = hwmark("run", "--lake", "here", "--once", "--drain", "--buckets", "7", "--fail-on-alert")
    assert done.exit_code == 3
    assert told == {"once": True, "drain": True, "rebuild": False, "lake": "here", "interval": 10.0, "buckets": 7}
    assert "run: batch 0: 9 events, 3 events/s, 2 commits of bronze behind\n" in done.output
    assert "9 events in 1 batch, 3 s\n" in done.output


def test_demo_wants_a_new_folder(tmp_path):
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake/file").touch()
    done = hwmark("demo", "--lake", "lake")
    assert (done.exit_code, done.output) == (
        2,
        "hwmark: --lake lake has something in it already: name a new folder for the demo\n",
    )
