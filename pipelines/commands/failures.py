"""Failures of a disk, a store or a process of Spark's, in words for the person who runs the command."""

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
    errno.EMFILE: f"raise how many files a process may open (ulimit -n) and {_AGAIN}",
    errno.EACCES: f"let this user read it, and write where the command writes, then {_AGAIN}",
}
"""What an operating system says of a disk that takes nothing, and what to do."""

STORE = {
    r"NoSuchBucket": "its bucket does not exist: create it, or name another",
    r"AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken": (
        "the store refuses these credentials: look at [lake.storage_options], or AWS_… in the environment"
    ),
    r"error sending request|tcp connect error|dns error": (
        f"its store cannot be reached: look at AWS_ENDPOINT_URL and the network, then {_AGAIN}"
    ),
}
"""What an object store, or the way to it, says in the errors of its clients, and what to do."""

PACKAGES = {
    **dict.fromkeys(("altair", "fastapi", "jinja2", "uvicorn", "vl_convert"), "web"),
    "apprise": "notify",
    "great_expectations": "gx",
    "pyspark": "spark",
}
"""The extra of pyproject.toml that brings a package which only some commands need."""

_NO_FOLDER = re.compile(r"Mkdirs failed to create (?:file:)?(\S+)")
"""Hadoop's words for a folder that could not be made: Java does not say why."""
_UNSAID = "no space left on device, an input/output error or no permission: look at `df` and dmesg, then"
_DAMAGED = re.compile(
    "Parquet error|Parquet input source|Json error|Object at location .* not found|Invalid checkpoint|Invalid JSON"
)
"""What deltalake and pyarrow say of a file of a table that is cut off, gone, or no such file."""

_REPLACE = "put a good copy back, or, of silver and gold, start anew with `hwmark run --once --rebuild`"

_GONE = "was killed or died (out of memory?), and what was under way is not done:"
_JVM_ANSWERS_NO_MORE = {
    "JvmEnded",
    "Py4JNetworkError",
    "ConnectionRefusedError",
    "ConnectionResetError",
    "BrokenPipeError",
}
_WORKER_IS_GONE = re.compile("Python worker exited unexpectedly|Python worker process terminated")


def words(error: BaseException, lake: str) -> str | None:
    """One line for an error of a disk, of an object store, or of a process of Spark's that was killed; None for others.

    Libraries pass on the system's message as text: Rust's and Arrow's in their errors, Java's in a trace.
    """
    chain = list(_chain(error))
    for cause in chain:
        for number, advice in DISK.items():
            if (where := _where(cause, number, lake)) is not None:
                return f"{os.strerror(number).lower()}: {where}: {advice}"
    for cause in chain:
        name = (cause.name or "").partition(".")[0] if isinstance(cause, ImportError) else ""
        if name in PACKAGES:
            return f"{name} is not installed here: `pip install 'hwmark[{PACKAGES[name]}]'` brings it"
    for pattern, advice in STORE.items() if "://" in lake else ():
        if any(re.search(pattern, _message(cause)) for cause in chain):
            return f"lake {lake}: {advice}"
    for folder in filter(None, (_NO_FOLDER.search(_message(cause)) for cause in chain)):
        return f"{folder[1]} could not be made, and Java does not say why: {_UNSAID} {_AGAIN}"
    if damaged := next((cause for cause in chain if _of_a_table(cause)), None):
        file = _named(_message(damaged), lake) or " ".join(str(damaged).split())[:120]
        return damaged_table(lake, file)
    if any(_WORKER_IS_GONE.search(_message(cause)) for cause in chain):
        return f"a Python worker of Spark {_GONE} lake {lake}: {_AGAIN}"
    if any(type(cause).__name__ in _JVM_ANSWERS_NO_MORE for cause in chain):
        return f"the JVM of Spark {_GONE} lake {lake}: {_AGAIN}"
    return None


def damaged_table(lake: str, file: str) -> str:
    """The advice about an unreadable file of a table."""
    return f"a table of lake {lake} is damaged or half-written: {file}: {_REPLACE}"


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
    return _named("\n".join(lines), lake) or lake


def _of_a_table(error: BaseException) -> bool:
    """Whether deltalake, or the engine in it, which raises plain exceptions, could not read a file of a table."""
    plain = type(error) is Exception or type(error).__module__.startswith(("deltalake", "_internal", "pyarrow"))
    return plain and _DAMAGED.search(str(error)) is not None


def _named(text: str, lake: str) -> str | None:
    """The file of the lake that a text names; on a disk deltalake leaves out the slash before it."""
    named = re.search(re.escape(lake.strip("/")) + r"/[^\s'\"():,]+", text)
    return None if named is None else f"{'/' * lake.startswith('/')}{named[0]}"
