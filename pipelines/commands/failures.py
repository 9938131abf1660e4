"""What went wrong below a command, a disk or a process of Spark's, in words for the person who runs it."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator

_AGAIN = "run it again"
DISK = {
    errno.ENOSPC: f"free some space and {_AGAIN}",
    errno.EDQUOT: f"raise the quota or free some space, and {_AGAIN}",
    errno.EIO: f"look into the disk (dmesg), then {_AGAIN}",
    errno.EROFS: f"mount it for writing and {_AGAIN}",
}
"""What an operating system says of a disk that takes nothing, and what to do."""

_GONE = "was killed or died (out of memory?), and what was under way is not done:"
_JVM_ANSWERS_NO_MORE = {"Py4JNetworkError", "ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError"}
_WORKER_IS_GONE = re.compile("Python worker exited unexpectedly|Python worker process terminated")


def words(error: BaseException, lake: str) -> str | None:
    """One line for an error that comes from a disk, or from a process of Spark's that was killed; None for others.

    Libraries pass on the system's message as text: Rust's and Arrow's in their errors, Java's in a trace.
    """
    chain = list(_chain(error))
    for cause in chain:
        for number, advice in DISK.items():
            if (where := _where(cause, number, lake)) is not None:
                return f"{os.strerror(number).lower()}: {where}: {advice}"
    if any(_WORKER_IS_GONE.search(_message(cause)) for cause in chain):
        return f"a Python worker of Spark {_GONE} lake {lake}: {_AGAIN}"
    if any(type(cause).__name__ in _JVM_ANSWERS_NO_MORE for cause in chain):
        return f"the JVM of Spark {_GONE} lake {lake}: {_AGAIN}"
    return None


def _chain(error: object) -> Iterator[BaseException]:
    """The error, what caused it, and so on; of an error of Java's pyspark keeps the cause by itself."""
    waiting, seen = [error], set[int]()
    while waiting:
        error = waiting.pop(0)
        if isinstance(error, BaseException) and id(error) not in seen:
            seen.add(id(error))
            yield error
            waiting += [error.__cause__, error.__context__, getattr(error, "_cause", None)]


def _message(error: BaseException) -> str:
    """Its message; of an error of Java's with the trace, which alone names the cause."""
    return f"{error}\n{getattr(error, '_stackTrace', '')}"


def _where(error: BaseException, number: int, lake: str) -> str | None:
    """The file of the lake that this error is about, or the lake; None where it does not say this of a disk."""
    if isinstance(error, OSError) and error.errno == number and error.filename:
        return str(error.filename)
    reason = os.strerror(number).lower()
    lines = [line for line in _message(error).splitlines() if reason in line.lower() or f"os error {number})" in line]
    if not lines and getattr(error, "errno", None) != number:
        return None
    named = re.search(re.escape(lake.rstrip("/")) + r"/[^\s'\"():,]+", "\n".join(lines))
    return named[0] if named else lake
