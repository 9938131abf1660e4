"""The lines of several brokers in one stream, and what was offered and not understood."""

import io
import json
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from generators.brokerlogs.discovery import streams
from generators.brokerlogs.discovery.sources import discover
from generators.brokerlogs.discovery.streams import arrange, order_of
from generators.brokerlogs.ingest import ReadOptions, ingest_logs, read_logs
from pipelines.cli import app
from pipelines.lake.bronze import read_events
from pipelines.replication import Rules, replay

PREFIXES = {
    "docker compose": "kafka-{}  | ",
    "kubectl --prefix": "[pod/kafka-{}/kafka] ",
    "stern": "kafka-{} kafka ",
}


def lines(broker: int) -> list[str]:
    """What a broker prints, with lines that do not name it, and a stack trace."""
    leads = (
        f"Leader a-0 with topic id Some(VnxQjQJbTyezjT7yW1einw) starts at leader epoch {broker} from offset 5 with "
        "partition epoch 3, high watermark 5, ISR [1], adding replicas [] and removing replicas [] . Previous leader "
        "None and previous leader epoch was -1."
    )
    texts = [
        f"[BrokerServer id={broker}] Transition from SHUTDOWN to STARTING (kafka.server.BrokerServer)",
        f"Kafka version: 3.{broker}.0 (org.apache.kafka.common.utils.AppInfoParser)",
        f"[Broker id={broker}] {leads} (state.change.logger)",
        "Deleted log (kafka.log.LogManager)",
    ]
    dated = [f"[2026-11-20 10:0{k}:0{broker},000] INFO {text}" for k, text in enumerate(texts)]
    return [*dated, "java.io.IOException: no", "\tat x.Y(Z)"]


def interleave(prefix: str, *, in_blocks: bool = False) -> str:
    per = [[prefix.format(broker) + line for line in lines(broker)] for broker in (1, 2, 3)]
    told = (
        [line for block in per for line in block]
        if in_blocks
        else [one for row in zip(*per, strict=True) for one in row]
    )
    return "\n".join([*told, ""])


def apart(folder: Path) -> list[dict[str, Any]]:
    """The events of the three brokers' own files."""
    for broker in (1, 2, 3):
        (folder / str(broker)).mkdir(parents=True)
        (folder / str(broker) / "all.log").write_text("\n".join([*lines(broker), ""]))
    return read_logs([folder], "c").to_pylist()


def export_lines(lines: list[str]) -> list[str]:
    """Entries of Loki or CloudWatch, each with its time."""
    return [json.dumps({"timestamp": f"{line[1:11]}T{line[12:20]}Z", "message": line}) for line in lines]


EXPORTS = {
    "newest first": lambda entries: "\n".join([*reversed(entries), ""]),
    "in no order": lambda entries: "\n".join(
        [*(e for pair in zip(entries[1::2], entries[::2], strict=True) for e in pair), ""]
    ),
    "an array in one line": lambda entries: f"[{','.join(entries)}]",
    "an array in one line, newest first": lambda entries: f"[{','.join(reversed(entries))}]",
}


@pytest.mark.parametrize("write", EXPORTS.values(), ids=EXPORTS)
def test_an_export_is_read_in_the_order_of_time(write: Callable[[list[str]], str], tmp_path: Path) -> None:
    """The newest lines first made a start of a term one that is behind the end of the one before it: a loss."""
    told = [f"[2026-11-20 10:{k:02}:01,000] INFO Deleted log {k} (kafka.log.LogManager)" for k in range(12)]
    plain, export = tmp_path / "plain", tmp_path / "export"
    for folder, text in (
        (plain, "\n".join([*lines(1)[:4], *told, ""])),
        (export, write(export_lines([*lines(1)[:4], *told]))),
    ):
        folder.mkdir()
        (folder / "all.json").write_text(text)
    assert read_logs([export], "c").to_pylist() == read_logs([plain], "c").to_pylist()


@pytest.mark.parametrize("step", [1, 1801], ids=["newest first", "in no order"])
def test_an_export_is_put_in_order_in_less_than_twice_its_size(step: int, tmp_path: Path) -> None:
    """It took two and a half times as much: 2.5 GB for the largest one."""
    log = tmp_path / "export.log"
    seconds = [k * step % 3600 for k in range(3599, 0, -1)]
    log.write_text("".join(f"[2026-11-20 10:{k // 60:02}:{k % 60:02},000] INFO {'x' * 200}\n" for k in seconds))
    log.write_bytes(log.read_bytes() * 10)
    out = tmp_path / "out"
    out.mkdir()
    tracemalloc.start()
    try:
        arrange(log, out)
        assert tracemalloc.get_traced_memory()[1] < 1.8 * log.stat().st_size
    finally:
        tracemalloc.stop()
    assert (out / "export.log").stat().st_size == log.stat().st_size


def test_a_larger_export_says_what_it_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_LARGEST", 1000)
    log = tmp_path / "export.log"
    log.write_text("".join(f"[2026-11-20 10:00:{k:02},000] INFO x\n" for k in range(59, 0, -1)))
    assert arrange(log, tmp_path) == [
        f"{log}: more than 1 GiB of lines that are not in the order of time, unread: sort them, or give parts"
    ]


def test_a_log_with_numbers_like_times_in_it_is_in_order(tmp_path: Path) -> None:
    head = "".join(
        f"[2026-11-20 10:0{k}:00,000] INFO KafkaConfig values:\n\tlog.flush.interval.messages = 9223372036854775807\n"
        "\tcontrolled.shutdown.enable = true\n"
        for k in range(9)
    )
    assert order_of(head.encode()) is None


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_text_in_utf_16_is_read(encoding: str, tmp_path: Path) -> None:
    """PowerShell writes so what `kubectl logs` prints."""
    text = "\r\n".join([*lines(1), ""])
    (tmp_path / "a.txt").write_bytes(("\ufeff" * (encoding != "utf-16") + text).encode(encoding))
    expected = tmp_path / "plain"
    expected.mkdir()
    (expected / "a.txt").write_text("\n".join([*lines(1), ""]))
    assert read_logs([tmp_path / "a.txt"], "c").to_pylist() == read_logs([expected], "c").to_pylist()


@pytest.mark.parametrize("in_blocks", [False, True], ids=["interleaved", "one behind the other"])
@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES.keys())
@pytest.mark.parametrize("name", ["all.log", "all.txt"])
def test_each_broker_of_a_stream_is_a_source(prefix: str, in_blocks: bool, name: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_text(interleave(prefix, in_blocks=in_blocks))
    events = read_logs([tmp_path / "in"], "c").to_pylist()
    assert {row["source_id"].replace(".txt", "") for row in events} <= {f"broker-{n}/all.log" for n in (1, 2, 3)}
    versions = {(row["broker_id"], row["detail"]) for row in events if row["event_type"] == "config"}
    assert versions == {(n, f"kafka=3.{n}.0") for n in (1, 2, 3)}
    same = [{**row, "source_id": row["source_id"].replace(".txt", "")} for row in events]
    assert same == apart(tmp_path / "apart")


@pytest.mark.parametrize("in_blocks", [False, True], ids=["interleaved", "one behind the other"])
def test_each_broker_of_a_stream_without_prefixes_is_a_source(in_blocks: bool, tmp_path: Path) -> None:
    """As `kubectl logs -l app=kafka` gives it: a line that names no broker counted for the one before it."""
    (tmp_path / "all.log").write_text(interleave("", in_blocks=in_blocks))
    events = read_logs([tmp_path / "all.log"], "c").to_pylist()
    leads = {(row["source_id"], row["broker_id"]) for row in events if row["event_type"] == "leader"}
    assert leads == {(f"broker-{n}/all.log", n) for n in (1, 2, 3)}
    versions = {(row["broker_id"], row["detail"]) for row in events if row["event_type"] == "config"}
    assert versions == ({(n, f"kafka=3.{n}.0") for n in (1, 2, 3)} if in_blocks else set())


@pytest.mark.parametrize("follow", [False, True])
def test_each_broker_of_a_pipe_is_a_source(follow: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = interleave(PREFIXES["stern"]).encode().removesuffix(b"\n")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(data))))
    ingest_logs(["-"], cluster="c", lake=str(tmp_path), follow=follow)
    told = read_events(str(tmp_path)).to_pylist()
    versions = {(row["source_id"], row["broker_id"], row["detail"]) for row in told if row["event_type"] == "config"}
    assert versions == {(f"broker-{n}/pipe.log", n, f"kafka=3.{n}.0") for n in (1, 2, 3)}


def test_a_pod_is_not_taken_for_a_broker(tmp_path: Path) -> None:
    text = "[2026-11-20 10:00:00,000] INFO Deleted log (kafka.log.LogManager)"
    (tmp_path / "all.log").write_text(f"kafka-1 | {text}\nkafka-2 | {text}\n")
    sources = discover([tmp_path]).sources
    assert [source.broker_id for source in sources] == [None, None]
    assert [source.source_id.partition("/all.log!")[2] for source in sources] == [
        "/kafka-1/all.log",
        "/kafka-2/all.log",
    ]


def test_a_stream_of_one_container_stays_the_file_it_is(tmp_path: Path) -> None:
    (tmp_path / "all.log").write_text("".join(f"kafka-0 kafka {line}\n" for line in lines(4)))
    assert [source.source_id for source in discover([tmp_path]).sources] == ["broker-4/all.log"]


def test_a_broker_that_is_named_is_that_of_the_logs(tmp_path: Path) -> None:
    text = "[2026-11-20 10:00:00,000] INFO Kafka version: 4.1.0 (org.apache.kafka.common.utils.AppInfoParser)\n"
    (tmp_path / "out.txt").write_text(text * 2)
    words = ["ingest", "logs", str(tmp_path / "out.txt"), "--cluster", "c", "--lake", str(tmp_path / "lake")]
    assert CliRunner().invoke(app, [*words, "--broker", "7"]).exit_code == 0
    told = read_events(str(tmp_path / "lake")).to_pylist()
    assert {(row["source_id"], row["broker_id"]) for row in told} == {("broker-7/out.txt", 7)}
    assert "kafka=4.1.0" in {row["detail"] for row in told}
    assert read_logs([tmp_path / "out.txt"], "c", ReadOptions(broker=7)).num_rows


def test_a_log_that_is_not_understood_tells_of_no_time(tmp_path: Path) -> None:
    """Its broker is known from its settings; who told nothing is no broker that was heard of."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "server.properties").write_text("node.id=4\n")
    (tmp_path / "in" / "server.log").write_text("at 10:00 all is well\n" * 3)
    for _ in range(2):
        ingest_logs([tmp_path / "in"], cluster="c", lake=str(tmp_path / "lake"))
    told = [(row["event_type"], row["broker_id"]) for row in read_events(str(tmp_path / "lake")).to_pylist()]
    assert told == [("unread", 4)]


def test_each_call_ends_with_65_while_nothing_of_a_log_is_understood(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_text("2026-11-21 01:28:00,000 hello\n" * 3)
    (tmp_path / "server.log").write_text("\n".join([*lines(1), ""]))
    for _ in range(2):
        words = ["ingest", "logs", str(tmp_path), "--cluster", "c", "--lake", str(tmp_path / "lake")]
        done = CliRunner().invoke(app, words)
        assert (done.exit_code, "app.log: nothing of it was understood" in done.stdout) == (65, True)
    assert "app.log: 0 lines, nothing new" not in done.stdout


def unread(folder: Path, lake: Path) -> list[dict[str, Any]]:
    """Gaps that reconstruction tells of what these logs lack."""
    ingest_logs([folder], cluster="c", lake=str(lake))
    return replay(read_events(str(lake)), Rules()).telemetry_gaps.to_pylist()


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a log"])
@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "app.log",
            b"2026-11-21 01:28:00,000 hello password=x\n" * 3,
            "nothing of it was understood, its first line is ",
        ),
        ("replication.log.gz", b"this is no gzip", "broken gzip"),
        ("logs.tar", b"x" * 257 + b"ustar" + b"y" * 400, "broken archive"),
        ("other.log.7z", b"7z", ".7z is not unpacked here"),
    ],
)
def test_what_was_offered_and_not_understood_is_a_row(
    name: str, content: bytes, said: str, beside: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / name).write_bytes(content)
    if beside:
        (folder / "server.log").write_text("\n".join([*lines(1), ""]))
    (gap,) = (row for row in unread(folder, tmp_path / "lake") if row["detail"])
    assert gap["detail"].startswith("unread: ")
    assert said in gap["detail"]
    assert "=x" not in gap["detail"]
    assert (gap["ts"].year, gap["ts"].month) == (2026, 11)
    again = [row for row in unread(folder, tmp_path / "lake") if row["detail"]]
    assert again == [gap], "told once"
