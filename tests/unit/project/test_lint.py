"""What checks the code before a commit asks no network, and is what CI runs."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
HOOKS = (REPOSITORY / ".pre-commit-config.yaml").read_text()
LINT = (REPOSITORY / "Makefile").read_text().split("\nlint:")[1].split("\n\n")[0]


def test_every_hook_is_a_tool_of_the_environment():
    assert re.findall(r"repo: (\S+)", HOOKS) == ["local"]
    assert all(entry.startswith(".venv/bin/") for entry in re.findall(r"entry: (\S+)", HOOKS))
    assert set(re.findall(r"language: (\S+)", HOOKS)) == {"system"}


def test_hooks_and_make_lint_run_the_same_tools():
    hooks = set(re.findall(r"entry: \.venv/bin/(\S+)", HOOKS))
    assert hooks == set(re.findall(r"\$\(BIN\)/(\S+)", LINT)) == {"ruff", "mypy", "lint-imports"}


def test_ci_runs_make_lint():
    assert "make lint" in (REPOSITORY / ".ci/run").read_text().splitlines()
