"""docs/exit-statuses.md says of commands beside `check` what was not checked: each line is played, or has a test."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from tests.unit.disks.disk_files import directory, partition, recorded
from tests.unit.disks.test_audit import run_of
from tests.unit.gate.test_gate_of_a_lake import THREE
from tests.unit.ingest.test_common_ends import LOG, ROLLED, stock
from tests.unit.project.lakes import at, health, sound, write

pytestmark = pytest.mark.long

ELSEWHERE = {
    "`run --once` 0 or 3, `--fail-on-alert`": ("unit/project/test_check_told.py", "the_present_alone_tells_nobody"),
    "`run`, `notify` 0": ("notify/test_killed.py", "a_notifier_that_is_asked_to_stop_ends"),
    "`show` 1 that names files of gold": ("unit/project/test_not_knowing.py", ""),
    "any, 1 or 2": ("unit/project/test_failures.py", ""),
}


def hwmark(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.output


def gate(folder, *partitions):
    sound(str(folder), *partitions)
    write(str(folder), "brokers", *THREE)
    return hwmark("gate", "--lake", folder, "--controllers-apart", "--broker", 1)


def ingest(folder, *lines):
    (folder / "server.log").write_text("".join(lines))
    return hwmark("ingest", "logs", folder / "server.log", "--cluster", "c", "--lake", folder / "lake")


def ingest_some(folder):
    unknown = stock(2, "[Partition t-1 broker=1] ISR was given to nobody", "kafka.cluster.Partition")
    status, output = ingest(folder, stock(1, ROLLED, LOG), unknown)
    return status, "1 lines of evidence not understood" in output


def ingest_nothing(folder):
    status, output = ingest(folder, "2026-11-21 01:28:00,000 hello\n")
    return status, "nothing of it was understood" in output


def gate_yes(folder):
    status, output = gate(folder, health("orders", 0), health("elsewhere", 0, ar=[2, 3], isr=[2]))
    return status, "its 1 partition keep" in output.replace("keeps", "keep") and "quorum not looked at" in output


def gate_no(folder):
    status, output = gate(folder, health("orders", 0, isr=[1, 2]), health("orders", 1, level=0))
    return status, "orders-0" in output and "orders-1" in output


def gate_not_known(folder):
    status, output = gate(folder, health("orders", 0, level=0))
    return status, "NOT KNOWN" in output and "1 of 1 partition" in output


def audit_of_one_replica(folder):
    partition(directory(folder, 1), run_of(3), [(0, 0)])
    status, output = hwmark("audit", folder)
    return status, "1 replicas, 3 batches" in output


def audit_damage(folder):
    status, output = hwmark("audit", recorded(folder) / "data")
    return status, "it cuts 120..299" in output


def audit_not_read(folder):
    outside = partition(directory(folder / "outside", 9), run_of(3), [(0, 0)])
    one = directory(folder / "a", 1)
    (one / "u-0").mkdir()
    (one / "u-0" / f"{0:020d}.log").symlink_to(outside / f"{0:020d}.log")
    status, output = hwmark("audit", folder / "a")
    return status, "u-0" in output


def maintain(folder):
    sound(str(folder), health("orders", 0))
    (folder / "hwmark.toml").write_text("[maintain]\nsilver_days = 1\n")
    status, output = hwmark("maintain", "--lake", folder, "--config", folder / "hwmark.toml")
    return status, re.search(r"silver/coverage: .*\d rows before .* removed", output) is not None


PLAYED = {
    "`ingest` 0": [(0, ingest_some)],
    "`ingest` 65": [(65, ingest_nothing)],
    "`gate` 0": [(0, gate_yes)],
    "`gate` 3": [(3, gate_no)],
    "`gate` 4": [(4, gate_not_known)],
    "`audit` 0": [(0, audit_of_one_replica)],
    "`audit` 3, 4": [(3, audit_damage), (4, audit_not_read)],
    "`maintain` 0": [(0, maintain)],
}
"""By line of the page the status and a call that ends so though something was not checked, or says what was not."""


@pytest.mark.parametrize(("status", "play"), [case for cases in PLAYED.values() for case in cases])
def test_a_command_ends_so_and_says_what_the_page_says(status, play, tmp_path, monkeypatch):
    monkeypatch.setattr("pipelines.commands.clock.now", lambda: at(85))
    assert play(tmp_path) == (status, True)


def test_every_line_of_the_page_is_played_or_has_a_test():
    page = Path("docs/exit-statuses.md").read_text().partition("## What other commands have not checked")[2]
    lines = re.findall(r"^\| (.*?) \| ", page, re.MULTILINE)[1:]
    assert set(lines) == {*PLAYED, *ELSEWHERE}
    for file, name in ELSEWHERE.values():
        assert f"def test_{name}" in Path("tests", file).read_text()
