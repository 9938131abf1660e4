"""`import hwmark` gives the public names and changes nothing; the command finds its own packages before others'."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.version import Version

ROOT = Path(__file__).parents[3]
PACKAGES = ("pipelines", "schemas", "generators")


def run(*words, path=(), cwd, **environment):
    """What a Python with nothing but this path printed, and its status."""
    environment = os.environ | environment | {"PYTHONPATH": os.pathsep.join(map(str, path))}
    done = subprocess.run([sys.executable, *words], cwd=cwd, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def foreign(tmp_path):
    """A folder with packages of the same names, of somebody else."""
    for name in PACKAGES:
        (tmp_path / "theirs" / name).mkdir(parents=True)
        (tmp_path / "theirs" / name / "__init__.py").write_text("raise SystemExit('theirs was imported')\n")
    return tmp_path / "theirs"


def test_the_public_names_are_those_of_the_reconstruction():
    import hwmark
    from pipelines import replication

    for name in hwmark.__all__:
        assert getattr(hwmark, name) is getattr(replication, name)
    with pytest.raises(AttributeError, match="no attribute 'Shard'"):
        hwmark.Shard  # noqa: B018 - that it raises is what is asked


UNCHANGED = """
import os, sys, numba
from numba.core import types
def globals_():
    return dict(os.environ), list(sys.path), dict(vars(numba.config)), types.Record.mangling_args
before = globals_()
from hwmark import Reconstructor, Rules, replay
Reconstructor(Rules())
print("unchanged" if before == globals_() else "changed")
"""


def test_importing_changes_nothing_of_the_process(tmp_path):
    assert run("-c", UNCHANGED, path=[ROOT], cwd=tmp_path) == (0, "unchanged\n")


def test_what_computes_is_imported_when_something_is_computed(tmp_path):
    ask = "import sys; from hwmark import Reconstructor, Rules, replay; print({'numba', 'pandas'} & set(sys.modules))"
    assert run("-c", ask, path=[ROOT], cwd=tmp_path) == (0, "set()\n")


def test_a_program_with_other_packages_of_these_names_is_refused(tmp_path, foreign):
    status, said = run("-c", "import hwmark", path=[foreign, ROOT], cwd=tmp_path)
    assert status == 1
    assert f"ImportError: hwmark needs its own package 'pipelines' in {ROOT}" in said
    assert str(foreign / "pipelines") in said
    assert "theirs was imported" not in said


@pytest.mark.parametrize("where", ["on PYTHONPATH", "in the working folder"])
def test_the_command_finds_its_own_packages_first(tmp_path, foreign, where):
    path, cwd = ([foreign, ROOT], tmp_path) if where == "on PYTHONPATH" else ([ROOT], foreign)
    script = tmp_path / "bin" / "hwmark"
    script.parent.mkdir()
    script.write_text("from hwmark.__main__ import main\nmain()\n")
    for words in (["-m", "hwmark"], [str(script)], [str(ROOT / "hwmark" / "__main__.py")]):
        status, said = run(*words, "schema", path=path, cwd=cwd)
        assert (status, "silver/hw_regressions" in said) == (0, True), said


STARTS = """
import subprocess, sys
from hwmark.__main__ import put_own_folder_first
put_own_folder_first()
subprocess.run([sys.executable, "-c", "import pipelines; print(pipelines.__file__)"])
"""


def test_processes_that_the_command_starts_find_them_first_too(tmp_path, foreign):
    script = tmp_path / "hwmark"
    script.write_text(STARTS)
    status, said = run(str(script), path=[foreign, ROOT], cwd=tmp_path)
    assert (status, said.strip()) == (0, str(ROOT / "pipelines" / "__init__.py"))


def test_no_build_after_a_release_has_its_name():
    built = Version(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])
    _, news, last, *_ = (ROOT / "CHANGELOG.md").read_text().split("\n## [")
    released = Version(last.partition("]")[0])
    assert built > released if "\n- " in news else built == released
    assert built.is_devrelease == ("\n- " in news)
