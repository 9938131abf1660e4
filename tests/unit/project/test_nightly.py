"""`make nightly`: every part is tried, and the status says whether one failed. `make test-wheel`: which Pythons."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests import nightly
from tests.faults import campaign
from tests.wheel import trial

REPOSITORY = Path(__file__).parents[3]
MAKEFILE = """
good:
	@echo well
bad:
	@echo ill; exit 3
slow:
	@sleep 60
"""


@pytest.fixture
def makefile(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("Makefile").write_text(MAKEFILE)


def test_parts_are_targets():
    targets = re.findall(r"^([a-z-]+):.*##", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert {name for name, _ in nightly.PARTS} <= {*targets} - {"nightly"}
    assert len(dict(nightly.PARTS)) == len(nightly.PARTS)
    assert sum(minutes for _, minutes in nightly.PARTS) <= 60 * nightly.HOURS


def test_every_part_can_be_looked_through_and_one_be_named():
    """Nothing is run: neither a target, nor what a campaign prepares."""
    words = [sys.executable, "-m", "tests.nightly", "--list"]
    said = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    assert [line.partition(",")[0] for line in said.splitlines() if line[0] != " "] == [*dict(nightly.PARTS)]
    one = subprocess.run([*words, "test-months"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    assert [line for line in one.splitlines() if line[0] == " "] == ["  .venv/bin/python -m tests.months.campaign"]
    wrong = subprocess.run([*words, "test-month"], cwd=REPOSITORY, capture_output=True, text=True)
    assert (wrong.returncode, wrong.stderr) == (1, "nightly: no part is named test-month: see --list\n")


def test_the_faults_are_not_prepared_to_be_listed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(campaign, "prepare", None)
    monkeypatch.setattr(sys, "argv", ["campaign", "--list", "--folder", str(tmp_path)])
    campaign.main()
    assert "ingest" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_a_part_that_fails_ends_no_other(makefile, capsys):
    assert nightly.main([("bad", 1), ("good", 1)]) == 1
    found = [re.sub(r"\d+ s", "0 s", line) for line in capsys.readouterr().out.splitlines()]
    assert found == ["nightly: bad 0 s: FAILED, see build/nightly/bad.log", "nightly: good 0 s: done"]
    assert Path("build/nightly/good.log").read_text() == "well\n"
    assert nightly.main([("good", 1)]) == 0


def test_a_part_that_takes_too_long_is_stopped_and_others_not_begun(makefile, capsys):
    assert nightly.main([("slow", 0.01), ("good", 1)]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("STOPPED after 0 minutes, see build/nightly/slow.log")
    assert second.endswith("done")
    assert nightly.main([("good", 1)], hours=0) == 1
    assert "not begun" in capsys.readouterr().out


def test_pythons_are_those_that_run():
    here = "{}.{}".format(*sys.version_info)
    assert trial.python_of(here) is not None
    assert trial.python_of("3.99") is None
    said = trial.trial("newest:3.99", None, False, Path(), {})
    assert said == "wheel: newest:3.99: there is no Python 3.99 here, left out"


def test_the_upper_end_of_pythons_is_one_that_the_wheel_is_tried_on():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.11,<3.14"
    tried = re.findall(r"(?:newest|lowest):3\.(\d+)", (REPOSITORY / "Makefile").read_text())
    assert {*tried} == {"11", "12", "13"}
    assert "pyspark>=4.1.4,!=4.2.0,<4.4" in project["dependencies"], "4.2.0 keeps sockets, decision 0015"


def test_resolutions_are_of_what_pyproject_asks_for():
    from packaging.requirements import Requirement

    asked = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["dependencies"]
    for name in trial.RESOLVED:
        found = [Requirement(line) for line in (trial.HERE / f"{name}.txt").read_text().splitlines()]
        pinned = {one.name.replace("_", "-"): next(iter(one.specifier)).version for one in found}
        for one in map(Requirement, asked):
            assert one.specifier.contains(pinned[one.name.replace("_", "-")]), (name, one)


@pytest.mark.nightly
def test_one_environment_can_hold_dbt_mlflow_and_datacontract_too(tmp_path):
    """Bounds on protobuf, pyarrow and typer pushed dbt, mlflow and datacontract-cli back; nothing is installed here."""
    others = tmp_path / "others.in"
    others.write_text("dbt-core>=1.12,<2\ndbt-duckdb\nmlflow>=3.17\ndatacontract-cli>=1.2\n")
    words = [*trial.UV, *trial.COMPILE.split(), "highest", "--extra", "delta", REPOSITORY / "pyproject.toml", others]
    found = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert re.search(r"^dbt-core==1\.", found.stdout, re.MULTILINE)
    assert re.search(r"^delta-spark==4\.4\.0", found.stdout, re.MULTILINE)
