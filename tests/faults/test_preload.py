"""The preloaded library sees every call that changes a file below the lake, and makes exactly the wanted one fail."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter

import pytest

from tests.faults.points import FAULTS, injections, ordered
from tests.faults.preload import Call, Point, build, compiler, injecting, noted, recording
from tests.faults.stages import STAGES, write_logs

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler: faults cannot be injected")

WRITER = """
import os, sys
root = sys.argv[1]
for name in ("1.json", "2.json"):
    try:
        with open(f"{root}/{name}", "wb", buffering=0) as file:
            file.write(b"12345678")
            os.fsync(file.fileno())
        os.rename(f"{root}/{name}", f"{root}/done-{name}")
    except OSError as error:
        print(error.errno, name)
"""
STRACED = {
    "write": "write", "pwrite64": "write", "writev": "write", "sendfile": "write", "copy_file_range": "write",
    "open": "create", "openat": "create", "creat": "create", "fsync": "sync", "fdatasync": "sync",
    "ftruncate": "truncate", "rename": "rename", "renameat": "rename", "renameat2": "rename", "link": "link",
    "linkat": "link", "symlink": "link", "unlink": "remove", "unlinkat": "remove", "rmdir": "remove",
    "mkdir": "mkdir", "mkdirat": "mkdir",
}  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(tmp_path_factory.mktemp("library"))


def written(root, environment):
    """What the writer said, how it ended, and what it left."""
    root.mkdir()
    call = [sys.executable, "-c", WRITER, str(root)]
    ended = subprocess.run(call, env=os.environ | environment, capture_output=True, text=True)
    return ended.stdout, ended.returncode, {path.name: path.read_bytes() for path in root.iterdir()}


def test_calls_are_noted_by_process_kind_of_file_and_call(library, tmp_path):
    written(tmp_path / "lake", recording(library, tmp_path / "lake", tmp_path / "calls"))
    calls = Counter(call.point for call in noted(tmp_path / "calls"))
    got = {"create": "*.json", "write": "*.json", "sync": "*.json", "rename": "done-*.json"}
    assert calls == {Point("command", kind, call): 2 for call, kind in got.items()}


@pytest.mark.parametrize(
    ("fault", "call", "number", "said", "status", "left"),
    [
        ("EIO", "write", 2, "5 2.json\n", 0, {"done-1.json": b"12345678", "2.json": b""}),
        ("ENOSPC", "write", 1, "28 1.json\n28 2.json\n", 0, {"1.json": b""}),
        ("kill", "sync", 2, "", -signal.SIGKILL, {"done-1.json": b"12345678", "2.json": b"12345678"}),
        ("short", "write", 2, "", -signal.SIGKILL, {"done-1.json": b"12345678", "2.json": b"1234"}),
    ],
)
def test_the_call_with_the_number_gets_the_fault(library, tmp_path, fault, call, number, said, status, left):
    lake, log = tmp_path / "lake", tmp_path / "calls"
    assert written(lake, injecting(library, lake, log, Point("command", "*.json", call), number, fault)) == (
        said, status, left,
    )  # fmt: skip
    assert [(c.path, c.here) for c in noted(log)] == [(f"{number}.json", True)]


def test_each_point_gets_each_of_its_faults_at_its_first_middle_and_last_call():
    point = Point("jvm", "_run/*", "write")
    every = injections({"run": [Call(point, "_run/1")] * 9})
    assert {(one.number, one.fault) for one in every} == {(n, f) for n in (1, 5, 9) for f in FAULTS["write"]}
    assert {one.fault for one in ordered(every, seed=1)[:4]} == set(FAULTS["write"])


def test_a_first_and_a_second_run_are_one_commands_calls():
    point = Point("jvm", "_run/*", "sync")
    every = injections({"first run": [Call(point, "_run/1")] * 2, "second run": [Call(point, "_run/1")] * 3})
    assert {(one.stage, one.number) for one in every} == {("first run", 1), ("second run", 1), ("second run", 3)}


@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace to compare with")
def test_nothing_that_strace_sees_escapes_the_library(library, tmp_path):
    """An ingest writes through Python, Arrow and Rust; each counts for a file by name what the kernel was asked."""
    write_logs(tmp_path / "logs")
    lake, log, trace = tmp_path / "lake", tmp_path / "calls", tmp_path / "trace"
    words = [w.replace("LAKE", str(lake)).replace("LOGS", str(tmp_path / "logs")) for w in STAGES[0].words]
    tracing = ["strace", "-f", "-y", "-qq", "-s", "0", "-e", f"trace={','.join(STRACED)}", "-o", str(trace)]
    preload = [f"-E{name}={value}" for name, value in recording(library, lake, log).items()]
    ended = subprocess.run([*tracing, *preload, sys.executable, "-m", "hwmark", *words], capture_output=True)
    if b"ptrace" in ended.stderr or b"Operation not permitted" in ended.stderr:
        pytest.skip("strace may not trace here")
    assert ended.returncode == 0, ended.stderr.decode()
    seen = Counter(filter(None, (_seen(line, str(lake)) for line in trace.read_text().splitlines())))
    assert seen == Counter((call.point.call, call.path) for call in noted(log))
    assert len(seen) > 50


def _seen(line, lake):
    """The call and the path below the lake of a line of strace, None where it changes nothing there."""
    found = re.match(r"\d+\s+(\w+)\((.*)", line)
    if not found or found[1] not in STRACED:
        return None
    name, rest = found.groups()
    if name in ("openat", "open") and not re.search(r"O_CREAT|O_TRUNC", rest):
        return None
    paths = re.findall(r'<([^<>]*)>|"([^"]*)"', rest.partition(" = ")[0] if name.startswith("open") else rest)
    below = [p for pair in paths for p in pair if p.startswith(lake + "/")]
    return (STRACED[name], below[-1].removeprefix(lake + "/")) if below else None
