"""One holder per role; the error of the second names the first."""

import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pipelines.lake.roles import NotLockable, RoleHeld, hold, verify_role

HOLD = """
import sys
from pipelines.lake.roles import hold
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


FOREIGN = {
    "a living process of this host": {"host": socket.gethostname(), "pid": 1, "started": "2026-01-01T00:00:00+00:00"},
    "another host": {"host": "elsewhere", "pid": os.getpid(), "started": "2026-01-01T00:00:00+00:00"},
    "a time to come": {"host": socket.gethostname(), "pid": os.getpid(), "started": "2099-01-01T00:00:00+00:00"},
}


@pytest.mark.parametrize("signature", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_lock_file_that_nobody_holds_refuses_nobody_whomever_it_names(tmp_path: Path, signature: dict) -> None:
    path = tmp_path / "_locks" / "run.lock"
    path.parent.mkdir()
    path.write_text(json.dumps(signature))
    with hold(str(tmp_path), "run"):
        assert json.loads(path.read_text())["pid"] == os.getpid()


def _refused(lake: Path, content: bytes) -> str:
    """The error where the lock is held and its file has this content."""
    path = lake / "_locks" / "run.lock"
    path.parent.mkdir()
    with open(path, "wb", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(content)
        with pytest.raises(RoleHeld) as refused, hold(str(lake), "run"):
            pass
    return str(refused.value)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux shows since when a process runs")
def test_a_holder_on_this_host_that_is_gone_is_not_named_for_sure(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    started = {"host": socket.gethostname(), "pid": gone.pid, "started": "2026-01-01T00:00:00+00:00"}
    said = _refused(tmp_path, json.dumps(started).encode())
    assert f"the last to do so was process {gone.pid} on {socket.gethostname()} since 2026-01-01" in said
    assert "which cannot be seen here any more" in said


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux shows since when a process runs")
def test_a_number_that_is_another_process_now_is_not_taken_for_the_one_that_signed(tmp_path: Path) -> None:
    started = {"host": socket.gethostname(), "pid": os.getpid(), "started": "2020-01-01T00:00:00+00:00"}
    said = _refused(tmp_path, json.dumps(started).encode())
    assert f"the last to do so was process {os.getpid()} on {socket.gethostname()} since 2020-01-01" in said
    assert "whose number is another process's now" in said


def test_a_holder_on_another_host_is_named_with_its_host(tmp_path: Path) -> None:
    there = {"host": "nfs-client-7", "pid": os.getpid(), "started": "2026-01-01T00:00:00+00:00"}
    said = _refused(tmp_path, json.dumps(there).encode())
    assert f"held by process {os.getpid()} on nfs-client-7 since 2026-01-01T00:00:00+00:00" in said


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b'{"pid": 1}', b"null"], ids=ascii)
def test_a_signature_that_cannot_be_read_names_nobody(tmp_path: Path, content: bytes) -> None:
    assert "held by a process that has not yet said its name" in _refused(tmp_path, content)


def test_who_waits_for_a_role_gets_it_once_it_is_free(tmp_path: Path) -> None:
    lake, entered = str(tmp_path), threading.Event()

    def wait() -> None:
        with hold(lake, "alerts", wait_s=60):
            entered.set()

    waiting = threading.Thread(target=wait)
    with hold(lake, "alerts"):
        waiting.start()
        assert not entered.wait(0.5)
    waiting.join()
    assert entered.is_set()


def test_a_lock_file_that_was_removed_before_it_was_locked_makes_no_second_holder(tmp_path, monkeypatch) -> None:
    lake, lock = str(tmp_path), fcntl.flock

    def lock_after_removal(descriptor: int, how: int) -> None:  # as `forget` removes it
        monkeypatch.setattr(fcntl, "flock", lock)
        (tmp_path / "_locks" / "run.lock").unlink()
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", lock_after_removal)
    with hold(lake, "run"), pytest.raises(RoleHeld), hold(lake, "run"):
        pass
