"""What a disk or a killed process says through a library becomes one line that names the lake and what to do."""

import errno

import pytest

from pipelines.commands.failures import words

LAKE = "/data/lake"
ARROW = OSError(errno.ENOSPC, "Error writing bytes to file. Detail: [errno 28] No space left on device")
PYTHON = OSError(errno.EIO, "Input/output error", f"{LAKE}/_run/query.json")
RUST = OSError(
    "Generic LocalFileSystem error\n \x1b[31m↳\x1b[0m Unable to rename file\n "
    "\x1b[31m↳\x1b[0m No space left on device (os error 28)\n"
)
HADOOP = RuntimeError(
    f"java.io.IOException: Input/output error: {LAKE}/_run/7/offsets/2\n\tat java.io.FileOutputStream"
)
WORKER = RuntimeError("Lost task 0.0 in stage 1.0: org.apache.spark.SparkException: Python worker exited unexpectedly")
FULL, BROKEN = "free some space and run it again", "look into the disk (dmesg), then run it again"
GONE = f"was killed or died (out of memory?), and what was under way is not done: lake {LAKE}: run it again"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ARROW, f"no space left on device: {LAKE}: {FULL}"),
        (PYTHON, f"input/output error: {LAKE}/_run/query.json: {BROKEN}"),
        (RUST, f"no space left on device: {LAKE}: {FULL}"),
        (HADOOP, f"input/output error: {LAKE}/_run/7/offsets/2: {BROKEN}"),
        (WORKER, f"a Python worker of Spark {GONE}"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), f"the JVM of Spark {GONE}"),
    ],
    ids=["Arrow", "Python", "Rust", "Hadoop", "a worker", "the JVM"],
)
def test_what_the_system_said_is_one_line(error, line):
    assert words(error, LAKE) == line


def test_the_cause_behind_an_error_counts_too():
    failed = RuntimeError("the streaming query failed")
    failed.__cause__ = ARROW
    assert words(failed, LAKE) == f"no space left on device: {LAKE}: {FULL}"


def test_what_java_tells_of_a_cause_counts_too():
    state = RuntimeError("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.")
    state._stackTrace = (
        f"\tat RocksDB\nCaused by: java.io.FileNotFoundException: {LAKE}/_run/1 (No space left on device)"
    )
    failed = RuntimeError("the streaming query failed")
    failed._cause = state
    assert words(failed, LAKE) == f"no space left on device: {LAKE}/_run/1: {FULL}"


def test_what_comes_of_nothing_like_that_has_no_such_words():
    assert words(ValueError("no table of this name"), LAKE) is None
