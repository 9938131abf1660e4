"""A process that has imported what Spark's Python processes need, and forks each of them when it is asked for.

A first run starts eight, one after the other, and every run two, which Spark gives ten seconds; most of what they do
is to import. Started by `start` as `python -m pipelines.streaming.workers.zygote ADDRESS`; it ends with the driver.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pipelines.cache import cache_dir
from pipelines.streaming import scratch
from pipelines.streaming.signals import ignore
from pipelines.streaming.spark_internals import PLANNERS, SOURCE_AND_SINK, WORKER, home
from pipelines.streaming.workers import daemon, kernels
from pipelines.streaming.workers.handoff import DAEMONS, FILES, REFUSED, SIZE, interpreter, requested
from pipelines.streaming.workers.installed import others, prefer_installed

NEEDED = (*daemon.NEEDED, *PLANNERS, "deltalake", WORKER, *SOURCE_AND_SINK)
"""What they import, or run."""
ROOT = Path(__file__).parents[3]
PREFIX, SOCKET = "hwmark-zygote-", "socket"
MOST_BYTES = 103
"""Of a socket's path: macOS has no room for more, Linux for 107."""

INTERPRETER = "python"
"""The script beside the socket that Spark starts as its Python."""

_running: subprocess.Popen[bytes] | None = None
_folder = Path()


def start(kept: Path | None = None) -> str | None:
    """Has one running for this process; gives the interpreter whose processes are its forks.

    `kept`: a folder (see `scratch`) that it removes at its end. None where no folder for temporary files may hold
    a program.
    """
    global _running, _folder
    if _running is None or _running.poll() is not None:
        found = _new_folder()
        if found is None:
            return None
        _folder = found
        words = [sys.executable, "-m", __name__, str(_folder / SOCKET), *([str(kept)] if kept else [])]
        # It ends when this pipe is closed, which happens to the driver in whichever way it ends.
        _running = subprocess.Popen(words, stdin=subprocess.PIPE, preexec_fn=ignore)
    return str(_folder / INTERPRETER)


def _new_folder() -> Path | None:
    """A folder with the interpreter: where temporary files are kept, or else in /tmp, or else in the user's cache.

    A path may be too long for a socket, and a file system mounted so that nothing on it can be run.
    """
    for base in (tempfile.gettempdir(), "/tmp", str(cache_dir("zygote"))):
        made = scratch.make(Path(base), PREFIX)
        text = interpreter(sys.executable, str(ROOT), str(made / SOCKET))
        if text is not None and len(os.fsencode(made / SOCKET)) <= MOST_BYTES:
            (made / INTERPRETER).write_text(text)
            (made / INTERPRETER).chmod(0o700)
            if os.access(made / INTERPRETER, os.X_OK):
                return made
        shutil.rmtree(made)
    return None


def main(address: str, kept: str | None = None) -> None:
    """Serve until stdin is closed; then nothing is left of it."""
    ignore()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads do not outlive a fork
    try:
        prefer_installed()
        for name in NEEDED:
            # A process that lacks something raises it itself, where Spark reads it.
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        kernels.load()
        others(map(str, _zips()))  # the forks know then
        gc.freeze()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
        _serve(address)
    finally:
        sys.stdin.read()  # whatever happened here, the driver keeps its folder for as long as it lives
        shutil.rmtree(Path(address).parent, ignore_errors=True)
        if kept is not None:
            scratch.remove(Path(kept))


def _zips() -> Iterable[Path]:
    """The packages that Spark puts on its processes' path."""
    return (home() / "python" / "lib").glob("*.zip")


def _serve(address: str) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        while sys.stdin not in select.select([sys.stdin, listening], [], [])[0]:
            asking, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                _stand_in(asking)
            asking.close()


def _stand_in(asking: socket.socket) -> None:
    """Is the process that asked, from here on, and ends when that one does."""
    answer = b"1"
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        words, environment = _received(asking)
        if others(environment.get("PYTHONPATH", "").split(os.pathsep)):
            answer = REFUSED
        else:
            answer = str(_run(asking, words, environment)).encode()
    finally:
        with contextlib.suppress(OSError):
            asking.sendall(answer)
        os._exit(0)


def _received(asking: socket.socket) -> tuple[list[str], dict[str, str]]:
    """The arguments and environment that `hand_over` sent; its stdin and outputs become this process's."""
    size, files, *_ = socket.recv_fds(asking, SIZE, len(FILES))
    for mine, theirs in zip(FILES, files, strict=True):
        os.dup2(theirs, mine)
        os.close(theirs)
    with asking.makefile("rb") as stream:
        return requested(stream.read(int.from_bytes(size, "big")))


def _end_with(asking: socket.socket) -> None:
    asking.recv(1)
    os._exit(1)


def _run(asking: socket.socket, words: Sequence[str], environment: Mapping[str, str]) -> int:
    """The exit status of a module that is run as the main one."""
    os.environ.clear()
    os.environ.update(environment)
    module, *sys.argv[1:] = words
    if module not in DAEMONS:
        threading.Thread(target=_end_with, args=[asking], daemon=True).start()
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        return (ended.code if isinstance(ended.code, int) else int(ended.code is not None)) & 0xFF
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


if __name__ == "__main__":
    main(*sys.argv[1:])
