"""What a disk or a killed process says through a library becomes one line that names the lake and what to do."""

import errno

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.commands.failures import words
from pipelines.streaming.follow import JvmEnded
from tests.unit.project.lakes import health, sound, write

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
        (JvmEnded("Spark's JVM has ended"), f"the JVM of Spark {GONE}"),
    ],
    ids=["Arrow", "Python", "Rust", "Hadoop", "a worker", "the JVM", "the JVM during a batch"],
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


def test_a_folder_that_java_could_not_make_is_named_with_the_likely_reasons():
    failed = RuntimeError(f"java.io.IOException: Mkdirs failed to create file:{LAKE}/_run/7 (exists=false, cwd=file:/)")
    assert words(failed, LAKE) == (
        f"{LAKE}/_run/7 could not be made, and Java does not say why: no space left on device, an input/output error "
        "or no permission: look at `df` and dmesg, then run it again"
    )


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("404 Not Found: <Code>NoSuchBucket</Code>", "its bucket does not exist"),
        ("403 Forbidden: <Code>InvalidAccessKeyId</Code>", "the store refuses these credentials"),
        ("error sending request for url (http://127.0.0.1:1/b)", "its store cannot be reached"),
    ],
)
def test_what_an_object_store_says_is_one_line(said, line):
    assert words(OSError(f"Generic S3 error: {said}"), "s3://b/l").startswith(f"lake s3://b/l: {line}: ")
    assert words(OSError(f"Generic S3 error: {said}"), LAKE) is None


def test_what_comes_of_nothing_like_that_has_no_such_words():
    assert words(ValueError("no table of this name"), LAKE) is None


def damaged_commit(table):
    commit = next(table.glob("_delta_log/*0.json"))
    commit.write_bytes(commit.read_bytes()[:50])


def cut_off_file(table):
    file = next(table.glob("*.parquet"))
    file.write_bytes(file.read_bytes()[:50])


def removed_file(table):
    next(table.glob("*.parquet")).unlink()


@pytest.mark.parametrize("hurt", [damaged_commit, cut_off_file, removed_file], ids=lambda hurt: hurt.__name__)
def test_a_damaged_table_is_one_line_that_names_the_lake_and_what_to_do(tmp_path, hurt):
    lake = tmp_path / "lake"
    sound(lake, health("orders", 0))
    hurt(lake / "gold/partition_health")
    before = sorted(lake.rglob("*"))
    done = CliRunner().invoke(app, ["show", "health", "--lake", str(lake)])
    assert done.exit_code == 1
    assert done.output.startswith(f"hwmark: a table of lake {lake} is damaged or half-written: ")
    assert ("gold/partition_health/" in done.output) == (hurt is not damaged_commit)
    assert done.output.endswith("start anew with `hwmark run --once --rebuild`\n")
    assert done.output.count("\n") == 1
    assert sorted(lake.rglob("*")) == before


@pytest.mark.parametrize("hurt", [cut_off_file, removed_file], ids=lambda hurt: hurt.__name__)
@pytest.mark.parametrize("form", ["table", "json"])
def test_show_goes_on_with_other_rows_past_a_file_of_gold_that_cannot_be_read(tmp_path, hurt, form):
    lake = tmp_path / "lake"
    sound(lake, health("orders", 0))
    hurt(lake / "gold/partition_health")
    write(lake, "partition_health", health("clicks", 0))
    asked = ["--topic", "clicks"] if form == "table" else ["--format", "json"]
    done = CliRunner().invoke(app, ["show", "health", *asked, "--lake", str(lake)])
    assert done.exit_code == 1, done.output
    *shown, said = done.output.strip().splitlines()
    assert "clicks" in "".join(shown)
    assert said.startswith(f"hwmark: a table of lake {lake} is damaged or half-written: gold/partition_health/part-")
    if form == "table":
        assert "NOT JUDGED: gold/partition_health/" in done.output, "what is not read is not calm"


def test_a_huge_limit_is_wrong_usage(tmp_path):
    assert CliRunner().invoke(app, ["show", "hw", "--limit", "9" * 30, "--lake", str(tmp_path)]).exit_code == 2
