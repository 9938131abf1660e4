"""Processes that Spark's driver starts one by one are forks of one that has imported what they need."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipelines.streaming import workers
from pipelines.streaming.workers import handoff, zygote

pytestmark = pytest.mark.long

ROOT = Path(workers.__file__).parents[3]
ZYGOTE = """
import sys
from pipelines.streaming.workers import zygote
zygote.NEEDED, zygote.DAEMONS, zygote.kernels.load = ("imported",), ("forking",), int
zygote.main(sys.argv[1])
"""
ASKING = """
import sys
from pipelines.streaming.workers import handoff
handoff.SERVED = ("job", "forking")
print("before", flush=True)
address, *words = sys.argv[1:]
print("status", handoff.hand_over(words, address), flush=True)
"""


def code(folder, **modules):
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)


def environment(folder, **more):
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])} | more


def until(true, seconds=300.0):
    """Whether something becomes true; the limit only ends a test that fails."""
    end = time.monotonic() + seconds
    while not (held := true()) and time.monotonic() < end:
        time.sleep(0.02)
    return held


@contextmanager
def serving(folder):
    """A zygote that has imported the module `imported` of this folder."""
    # Addresses of sockets are at most 100 letters long.
    address = Path(tempfile.mkdtemp(), "socket")
    command = [sys.executable, "-c", ZYGOTE, str(address)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment(folder)) as running:
        try:
            assert until(address.exists)
            yield running, str(address)
        finally:
            running.stdin.close()
            assert running.wait(300) == 0
    assert not address.parent.exists()


def asking(folder, address, *words, **more):
    command = [sys.executable, "-c", ASKING, address, *(words or ["job"])]
    env = environment(folder, **more)
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


IMPORTED = "import os\nWHERE = os.getpid()\n"
JOB = """
import imported, os, sys
if __name__ == "__main__":
    print("job", os.getpid() != imported.WHERE, os.environ["GIVEN"])
    print("trouble", file=sys.stderr)
    sys.exit(3)
"""


def test_a_fork_runs_the_module_with_the_askers_environment_and_outputs(tmp_path):
    code(tmp_path, imported=IMPORTED, job=JOB)
    with serving(tmp_path) as (_, address):
        for found in ("once", "twice"):
            out, err = asking(tmp_path, address, GIVEN=found).communicate(timeout=300)
            # True: what it has imported was imported in another process.
            assert out.splitlines() == ["before", f"job True {found}", "status 3"]
            assert err.splitlines() == ["trouble"]


@pytest.mark.parametrize(
    ("ending", "status"), [("", 0), ("raise KeyError('lost')", 1), ("sys.exit(-1)", 255), ("sys.exit('why')", 1)]
)
def test_the_asker_ends_as_the_fork_does(tmp_path, ending, status):
    code(tmp_path, imported="", job=f"import sys\n{ending}\n")
    with serving(tmp_path) as (_, address):
        out, err = asking(tmp_path, address).communicate(timeout=300)
    assert out.splitlines()[-1] == f"status {status}"
    assert ("KeyError: 'lost'" in err) == ("lost" in ending)


def test_a_fork_ends_with_the_process_that_asked(tmp_path):
    code(tmp_path, imported="", job="import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n")
    with serving(tmp_path) as (_, address):
        asker = asking(tmp_path, address)
        assert asker.stdout.readline() == "before\n"
        fork = int(asker.stdout.readline())
        asker.kill()
        asker.communicate()
        assert until(lambda: not Path(f"/proc/{fork}").exists() if Path("/proc/self").exists() else _gone(fork))


FORKING = """
import os, sys, threading
print(sys.argv[1:], threading.active_count(), flush=True)
print("read", sys.stdin.readline().strip(), flush=True)
sys.stdin.read()
"""


def test_a_daemon_has_its_arguments_and_stdin_and_no_thread_that_its_forks_would_lack(tmp_path):
    code(tmp_path, imported="", forking=FORKING)
    with serving(tmp_path) as (_, address):
        out, _ = asking(tmp_path, address, "forking", "of", "workers").communicate("hello\nmore", timeout=300)
    assert out.splitlines() == ["before", "['of', 'workers'] 1", "read hello", "status 0"]


def test_a_process_whose_pyspark_is_another_version_than_the_forks_goes_on_by_itself(tmp_path):
    code(tmp_path, imported="", job="print('job')\n")
    with zipfile.ZipFile(tmp_path / "pyspark.zip", "w") as zipped:
        zipped.writestr("pyspark/version.py", "__version__: str = '0.0.1'\n")
    path = os.pathsep.join([str(ROOT), str(tmp_path), str(tmp_path / "pyspark.zip")])
    with serving(tmp_path) as (_, address):
        out, _ = asking(tmp_path, address, PYTHONPATH=path).communicate(timeout=300)
    assert out.splitlines() == ["before", "status None"]


def test_words_and_environment_arrive_as_they_are():
    words = ["job", "", "of = two", "ü\udcff"]
    environment = {"EMPTY": "", "LINES": "a\nb", "SUM": "1+1=2", "Ü": "\udcff"}
    assert handoff.requested(handoff.request(words, environment)) == (words, environment)
    assert handoff.requested(handoff.request([], {})) == ([], {})


def _gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_an_interrupt_from_the_terminal_is_the_drivers_to_answer(tmp_path):
    code(tmp_path, imported="", job="print('job')\n")
    with serving(tmp_path) as (running, address):
        running.send_signal(signal.SIGINT)
        out, _ = asking(tmp_path, address).communicate(timeout=300)
        assert out.splitlines() == ["before", "job", "status 0"]


def test_without_a_zygote_a_process_goes_on_by_itself(tmp_path):
    assert handoff.hand_over([handoff.SERVED[0]], str(tmp_path / "nobody")) is None
    assert handoff.hand_over(["json.tool"], str(tmp_path / "nobody")) is None


def started(script, *words, **more):
    """What a process of Spark's prints: (status, stdout, stderr)."""
    done = subprocess.run([script, *words], env=os.environ | more, capture_output=True, text=True)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


@pytest.fixture
def interpreter(tmp_path):
    """Of a zygote that has ended, or never began."""
    script = tmp_path / "python"
    script.write_text(handoff.interpreter(sys.executable, str(ROOT), str(tmp_path / "nobody")))
    script.chmod(0o700)
    return script


def planner(folder, text):
    """A module that Spark's driver runs, in place of Spark's own."""
    module = Path(folder, *handoff.PLANNERS[0].split(".")).with_suffix(".py")
    module.parent.mkdir(parents=True)
    for package in list(module.relative_to(folder).parents)[:-1]:
        (folder / package / "__init__.py").touch()
    module.write_text(text)


def test_the_interpreter_of_spark_is_python_itself_where_no_fork_does_it(tmp_path, interpreter):
    code(tmp_path, job="import sys\nprint(sys.argv[1:], 'job' in sys.path[-1])\nsys.exit(3)\n")
    assert started(interpreter, "-c", "import sys; print(sys.executable)") == (0, sys.executable, "")
    path = os.pathsep.join(["/no/such.zip", str(tmp_path)])
    assert started(interpreter, "-m", "job", "one", PYTHONPATH=path) == (3, "['one'] False", "")
    planner(tmp_path, "import sys\nprint('planned')\nsys.exit(4)\n")
    assert started(interpreter, "-m", handoff.PLANNERS[0], PYTHONPATH=path) == (4, "planned", "")


def test_the_interpreter_of_spark_hands_over_what_a_fork_can_do(tmp_path):
    code(tmp_path, imported=IMPORTED)
    planner(tmp_path, JOB)
    with serving(tmp_path) as (_, address):
        script = tmp_path / "python"
        script.write_text(handoff.interpreter(sys.executable, str(ROOT), address))
        script.chmod(0o700)
        found = started(script, "-m", handoff.PLANNERS[0], GIVEN="by Spark")
    assert found == (3, "job True by Spark", "trouble")


def test_a_python_that_no_script_can_name_has_no_interpreter():
    assert handoff.interpreter("/a b/python", "/root", "/socket") is None
    assert handoff.interpreter("/" + "deep" * 30 + "/python", "/root", "/socket") is None


def test_one_zygote_serves_all_sessions_of_a_process(monkeypatch):
    monkeypatch.setattr(zygote, "_running", None)
    first, second = zygote.start(), zygote.start()
    assert first == second
    folder = Path(first).parent
    assert until((folder / zygote.SOCKET).exists)
    assert os.access(first, os.X_OK)
    zygote._running.stdin.close()
    assert zygote._running.wait(300) == 0
    assert not folder.exists()


def test_where_temporary_files_are_kept_too_deep_for_a_socket_it_has_one_in_tmp(tmp_path, monkeypatch):
    deep = tmp_path / ("deep" * 30)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    folder = zygote._new_folder()
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(folder / zygote.SOCKET))
        assert list(deep.iterdir()) == []
    finally:
        shutil.rmtree(folder)


def test_where_nothing_can_be_run_that_lies_with_temporary_files_it_lies_in_the_users_cache(monkeypatch):
    """As where they are on a file system that is mounted with `noexec`."""
    with tempfile.TemporaryDirectory() as cache:
        runs = [cache]
        monkeypatch.setenv("XDG_CACHE_HOME", cache)
        monkeypatch.setattr(
            zygote.os, "access", lambda path, mode: mode != os.X_OK or str(path).startswith(tuple(runs))
        )
        assert zygote._new_folder().parent == Path(cache, "hwmark", "zygote")
        runs.clear()
        assert zygote._new_folder() is None
        monkeypatch.setattr(zygote, "_running", None)
        assert zygote.start() is None
        assert zygote._running is None


def test_one_that_fails_leaves_the_driver_its_folder_until_that_ends(tmp_path, monkeypatch):
    class Driver:
        found_at_its_end = False

        def read(self):
            self.found_at_its_end = kept.is_dir()

    def fail(paths):
        raise OSError("AF_UNIX path too long")

    kept, driver = tmp_path / "kept", Driver()
    kept.mkdir()
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setattr(sys, "stdin", driver)
    monkeypatch.setattr(zygote, "NEEDED", ())
    monkeypatch.setattr(zygote.scratch, "PAUSE_S", 0)
    for name, stand_in in {"ignore": int, "prefer_installed": int, "others": fail}.items():
        monkeypatch.setattr(zygote, name, stand_in)
    monkeypatch.setattr(zygote.kernels, "load", int)
    with pytest.raises(OSError, match="too long"):
        zygote.main(str(tmp_path / "address" / "socket"), str(kept))
    assert driver.found_at_its_end
    assert not kept.exists()
