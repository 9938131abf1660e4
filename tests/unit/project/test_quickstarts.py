"""The pages `quickstart-*.md`, word for word in an empty folder: what is `sh` runs, what is `text` comes of it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[3] / "docs").glob("quickstart-*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_there_is_one_for_each_of_four_people():
    assert [page.stem.removeprefix("quickstart-") for page in PAGES] == [
        "curious", "data-quality", "on-call", "platform",
    ]  # fmt: skip


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_runs_and_every_line_comes_of_it(page, tmp_path):
    blocks = BLOCK.findall(page.read_text())
    assert {kind for kind, _ in blocks} == {"bash", "sh", "text"}, "bash is the installation"
    script = "set -e\n" + "".join(text for kind, text in blocks if kind == "sh")
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "hwmark").write_text(f'#!/bin/sh\nexec {sys.executable} -m hwmark "$@"\n')
    (commands / "hwmark").chmod(0o755)
    (tmp_path / "empty").mkdir()
    path = os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path / "empty", capture_output=True, text=True, env=os.environ | {"PATH": path}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for kind, text in blocks if kind == "text" for line in text.splitlines()]
    lacking = [line for line in lines if not re.search(re.escape(line).replace("…", ".*"), done.stdout)]
    assert lacking == [], done.stdout
