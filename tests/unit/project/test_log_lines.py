"""Lines on stderr: plain, or JSON for what collects logs, from a level on."""

import json
import logging

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.commands import common_options, log
from pipelines.commands.progress import progress


@pytest.fixture(autouse=True)
def _style_restored(monkeypatch):
    monkeypatch.setattr(common_options, "_log_options", {})
    yield
    log.set_style()


def lines(err):
    return [json.loads(line) for line in err.splitlines()]


@pytest.mark.parametrize(
    "words",
    [
        ["--log-format", "json", "show", "verdict", "--lake", "nowhere"],
        ["show", "verdict", "--lake", "nowhere", "--log-format", "json"],
        ["show", "verdict", "--lake", "nowhere", "--log-format=json"],
    ],
)
def test_the_option_may_stand_anywhere_and_an_error_is_a_json_line_with_its_status(words):
    result = CliRunner().invoke(app, words)
    (line,) = lines(result.stderr)
    assert result.exit_code == line["status"] == 2
    assert line["level"] == "error"
    assert "nowhere" in line["message"]


def test_options_of_one_command_are_not_those_of_the_next():
    for words, style in ((["--log-format", "json", "--log-level", "error"], (True, False)), ([], (False, True))):
        CliRunner().invoke(app, [*words, "show", "verdict", "--lake", "nowhere"])
        assert (log.is_json(), log.shows(logging.INFO)) == style


def test_the_environment_chooses_the_format(monkeypatch, tmp_path):
    monkeypatch.setenv("HWMARK_LOG__FORMAT", "json")
    result = CliRunner().invoke(app, ["show", "verdict", "--lake", str(tmp_path)])
    assert lines(result.stderr)[0]["level"] == "error"


@pytest.mark.parametrize("words", [["--log-format", "xml"], ["--log-level", "loud"]])
def test_a_format_or_level_that_does_not_exist_is_wrong_usage(words):
    result = CliRunner().invoke(app, [*words, "show", "verdict"])
    assert result.exit_code == 2
    assert words[1] in result.stderr


def test_a_batch_has_its_id_in_a_field(capsys):
    log.set_style("json")
    with progress("run") as say:
        say("batch 7: 3 events", batch_id=7)
    (line,) = lines(capsys.readouterr().err)
    assert (line["logger"], line["message"], line["batch_id"]) == ("hwmark.run", "batch 7: 3 events", 7)
    assert line["ts"].endswith("Z")


def test_lines_below_the_level_are_left_out(capsys):
    log.set_style("json", "warning")
    with progress("run") as say:
        say("batch 7")
    logging.getLogger("hwmark.run").warning("slow")
    (line,) = lines(capsys.readouterr().err)
    assert (line["level"], line["logger"], line["message"]) == ("warning", "hwmark.run", "slow")
