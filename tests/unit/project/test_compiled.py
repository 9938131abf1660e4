"""Compiled kernels are found again where the project was moved to, and not after their source has changed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

COMPILED = Path(__file__).parents[3] / "pipelines/replication/compiled/decorators.py"
KERNEL = """
from pipelines.replication.compiled.decorators import compiled
from pipelines.replication.term import layout
from pipelines.replication.term.constants import TWO

@compiled
def double(x: int) -> int:
    return x * TWO * layout.ONE
"""
ASK = "from pipelines.replication.term.rule import double; print(double(21), sum(double.stats.cache_hits.values()))"


def ask(root):
    outside = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"} | {"PYTHONPATH": str(root)}
    outside["XDG_CACHE_HOME"] = str(root.with_name("cache"))
    done = subprocess.run(
        [sys.executable, "-c", ASK], cwd=root, env=outside, capture_output=True, text=True, check=True
    )
    value, hits = done.stdout.split()
    assert value == "42"
    return int(hits)


def test_kernels_move_with_the_project_until_a_source_changes(tmp_path, monkeypatch):
    package = tmp_path / "here" / "pipelines" / "replication"
    for folder in (package / "compiled", package / "term"):
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    shutil.copy(COMPILED, package / "compiled")
    shutil.copy(COMPILED.parents[2] / "cache.py", package.parent)
    (package / "term" / "rule.py").write_text(KERNEL)
    (package / "term" / "constants.py").write_text("TWO = 2\n")
    (package / "term" / "layout.py").write_text("ONE = 1\n")
    (package / "history.py").write_text("WORD = 'a'\n")
    assert [ask(tmp_path / "here"), ask(tmp_path / "here")] == [0, 1]
    shutil.move(tmp_path / "here", tmp_path / "there")
    assert ask(tmp_path / "there") == 1
    package = tmp_path / "there" / "pipelines" / "replication"
    (package / "history.py").write_text("WORD = 'b'\n")
    assert ask(tmp_path / "there") == 1, "no compiled function depends on it"
    (package / "term" / "constants.py").write_text("TWO = 1 + 1\n")
    assert ask(tmp_path / "there") == 0, "a constant that is imported by name, from a module of a sub-package"
    (package / "term" / "layout.py").write_text("ONE = 2 - 1\n")
    assert ask(tmp_path / "there") == 0, "a constant of a module that is imported from its package"
    shutil.copytree(tmp_path / "cache" / "hwmark" / "numba", package.parent / "kernels")
    shutil.rmtree(tmp_path / "cache")
    assert ask(tmp_path / "there") == 1, "a packed environment brings its kernels along"
    packed = sorted(package.parent.joinpath("kernels").rglob("*"))
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    assert [ask(tmp_path / "there"), ask(tmp_path / "there")] == [0, 1], "on another CPU this user's are taken"
    assert sorted(package.parent.joinpath("kernels").rglob("*")) == packed, "they may lie where nobody can write"


CALLS = """
from pipelines.replication.compiled.decorators import compiled, hot, kernel

@hot
def twice(x: int) -> int:
    return x * 2

@kernel
def thrice(x: int) -> int:
    return x * 3

@compiled
def sum_(x: int) -> int:
    return twice(x) + twice(3) + thrice(x) + thrice(5)
"""
SIGNATURES = "from calls import *; print(sum_(4), len(twice.signatures), len(thrice.signatures))"


def test_a_constant_argument_is_no_kernel_of_its_own(tmp_path):
    """numba would compile a function anew for each constant that it is called with."""
    (tmp_path / "calls.py").write_text(CALLS)
    outside = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{COMPILED.parents[3]}"}
    done = subprocess.run(
        [sys.executable, "-c", SIGNATURES], cwd=tmp_path, env=outside, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(8 + 6 + 12 + 15), "1", "1"]
