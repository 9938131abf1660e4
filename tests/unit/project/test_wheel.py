"""What `pip install` of the wheel leaves behind is the whole program."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The wheel in an environment of its own, which borrows what hwmark depends on from the one of the tests."""
    place = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    subprocess.run(build, cwd=REPOSITORY, check=True, capture_output=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place / "env")], check=True)
    python = place / "env" / "bin" / "python"
    (wheel,) = place.glob("hwmark-*.whl")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(pip, check=True, capture_output=True)
    site = next((place / "env" / "lib").glob("python*/site-packages"))
    # Behind its own packages, and without the .pth that makes the checkout importable.
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return place / "env"


def hwmark(environment, *arguments):
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    call = [environment / "bin" / "hwmark", *arguments]
    return subprocess.run(call, cwd=environment, env=outside, capture_output=True, text=True, check=True).stdout


def test_every_file_of_conf_is_installed_as_it_is(installed):
    conf = REPOSITORY / "conf"
    shipped = sorted(path.relative_to(conf) for path in conf.rglob("*") if path.is_file())
    assert Path("prometheus/hwmark.rules.yml") in shipped
    for name in shipped:
        assert (installed / "share/hwmark/conf" / name).read_bytes() == (conf / name).read_bytes()


def test_the_runbooks_are_where_an_installed_hwmark_links_them(installed):
    ask = "import pipelines.notify.runbooks as r; print(r.runbook(r.default_folder(), 'loss'))"
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    call = [installed / "bin" / "python", "-c", ask]
    link = subprocess.run(call, cwd=installed, env=outside, capture_output=True, text=True, check=True).stdout.strip()
    assert link == str(installed / "share/hwmark/runbooks/loss.md")
    assert Path(link).read_bytes() == (REPOSITORY / "docs/runbooks/loss.md").read_bytes()


def test_its_packages_say_that_they_are_typed(installed):
    (site,) = (installed / "lib").glob("python*/site-packages")
    assert [
        name for name in ("hwmark", "pipelines", "schemas", "generators") if not (site / name / "py.typed").is_file()
    ] == []


def test_its_commands_run_with_the_rules_and_traces_that_travel_along(installed):
    assert "silver/hw_regressions" in hwmark(installed, "schema")
    assert "--fail-on-alert" in hwmark(installed, "check", "--help")
    ask = (
        "import generators.recordings.traces as t, pipelines.alerting.rules as r; "
        "print(t.__file__, len(t.scenarios()), r.load().settings['offline'].one_replica_s)"
    )
    python = subprocess.run(
        [installed / "bin" / "python", "-c", ask],
        cwd=installed, env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    where, scenarios, one_replica_s = python.stdout.split()
    assert where.startswith(str(installed))
    assert (scenarios, one_replica_s) == ("3", "300")
