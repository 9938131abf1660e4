"""One holder per role; the second is told who it is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from generators.lock import NotLockable, RoleHeld, hold, verify_role

HOLD = """
import sys
from generators.lock import hold
with hold(sys.argv[1], "run"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_second_holder_is_refused_by_name(tmp_path: Path) -> None:
    lake = str(tmp_path)
    with subprocess.Popen([sys.executable, "-c", HOLD, lake], stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout
        assert other.stdout.readline() == "held\n"
        with pytest.raises(RoleHeld, match=f"run of lake {lake} is held by process {other.pid} on "), hold(lake, "run"):
            pass
        with hold(lake, "check"):
            pass
        other.kill()
        other.wait()
        with hold(lake, "run"):
            assert f'"pid": {os.getpid()}' in (tmp_path / "_locks" / "run.lock").read_text()


def test_a_role_is_free_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), hold(str(tmp_path), "ingest:c/broker-1/rep.log"):
        raise ZeroDivisionError
    with hold(f"file://{tmp_path}", "ingest:c/broker-1/rep.log"):
        pass


def test_a_place_that_is_neither_disk_nor_object_store_is_refused_by_name() -> None:
    with pytest.raises(NotLockable, match="ftp://host/lake"), hold("ftp://host/lake", "run"):
        pass


def test_a_lock_on_disk_cannot_be_lost_and_needs_no_token(tmp_path: Path) -> None:
    with hold(str(tmp_path), "run") as held:
        held.check()
        verify_role(str(tmp_path), "run", held.token, {})
