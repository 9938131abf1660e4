"""Where a reader lost its position, or was given files after those that follow them, rows on both sides have no known
order: no loss is proven by comparing them, but for what leader epochs order."""

from __future__ import annotations

import errno
import gzip
import os
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from generators.brokerlogs.discovery import log_file
from generators.brokerlogs.ingest import ingest_logs
from generators.brokerlogs.tailing import checkpoints, told_lines
from pipelines.lake.bronze import read_events
from pipelines.replication import Reconstructor, Rules, replay
from pipelines.replication.facts.tables import Facts

STAMP = "%Y-%m-%d %H:%M:%S"
KEY = ("source_id", "source_epoch", "source_seq")


def leads(time: str, epoch: int, offset: int) -> str:
    """The line with which broker 1 starts to lead orders-1."""
    return (
        f"[2026-10-25 {time},000] INFO [Broker id=1] Leader orders-1 with topic id Some(8x30CauwR6S1Ou0qiySY3A) "
        f"starts at leader epoch {epoch} from offset {offset} with partition epoch {epoch}, high watermark {offset}, "
        "ISR [1,2,3], adding replicas [] and removing replicas [] . Previous leader None and previous leader epoch was "
        "-1. (state.change.logger)\n"
    )


def advances(time: str, hw: int, upto: int) -> str:
    """A HW that rises by 10 each second."""
    at, lines = datetime.fromisoformat(f"2026-10-25 {time}"), []
    for old in range(hw, upto, 10):
        at += timedelta(seconds=1)
        before, after = (f"(offset={offset}, segment=[0:{offset}])" for offset in (old, old + 10))
        lines.append(
            f"[{at.strftime(STAMP)},000] TRACE [Partition orders-1 broker=1] Skipping update high watermark since new "
            f"hw {before} is not larger than old value. All current LEOs are Set(replica 1: {after}, replica 2: "
            f"{before}, replica 3: {before}) (kafka.cluster.Partition)\n"
            f"[{at.strftime(STAMP)},000] DEBUG [Partition orders-1 broker=1] High watermark updated from {before} to "
            f"{after} (kafka.cluster.Partition)\n"
        )
    return "".join(lines)


class Broker:
    """The logs of broker 1 and a lake that reads them call by call."""

    def __init__(self, folder: Path) -> None:
        self.logs, self.lake = folder / "broker-1", str(folder / "lake")
        self.logs.mkdir()
        (self.logs / "server.properties").write_text("node.id=1\nmin.insync.replicas=2\n")
        self.live = self.logs / "replication.log"
        self.batches: list[pa.Table] = []

    def call(self) -> None:
        ingest_logs([self.logs], cluster="c", lake=self.lake)
        events = read_events(self.lake).sort_by([(name, "ascending") for name in KEY])
        keys = list(zip(*(events[name].to_pylist() for name in KEY), strict=True))
        known = {key for batch in self.batches for key in zip(*(batch[name].to_pylist() for name in KEY), strict=True)}
        self.batches.append(events.filter(pa.array([key not in known for key in keys])))

    def rows(self) -> dict[str, list[dict]]:
        """The rows of each source in the lake."""
        rows = read_events(self.lake).sort_by([(name, "ascending") for name in KEY]).to_pylist()
        return {
            name: [row for row in rows if row["source_id"] == name]
            for name in sorted({row["source_id"] for row in rows})
        }

    def verdicts(self) -> list[list[tuple]]:
        """What is said of losses of all that was read at once, and of each call after the other."""
        reconstructor = Reconstructor(Rules())
        live = Facts.concat([*map(reconstructor.update, self.batches), reconstructor.finish()])
        return [
            sorted({(row["class"], row["severity"]) for row in facts.hw_regressions.to_pylist()})
            for facts in (replay(pa.concat_tables(self.batches), Rules()), live)
        ]


def vanished_lines(broker: Broker, time: str, epoch: int) -> None:
    """The file that was read is gone; another one begins with an earlier or later time."""
    broker.live.write_text(leads("01:00:00", 5, 100) + advances("01:00:00", 100, 200))
    broker.call()
    broker.live.unlink()
    broker.live.write_text(leads(time, epoch, 120) + advances(time, 120, 150))
    broker.call()


def older_files(broker: Broker) -> None:
    """A rotated file is given once the live one was read."""
    broker.live.write_text(leads("02:00:00", 5, 200) + advances("02:00:00", 200, 300))
    broker.call()
    (broker.logs / "replication.log.1").write_text(leads("01:00:00", 5, 100) + advances("01:00:00", 100, 200))
    broker.call()


def test_older_files_in_a_row_are_one_source(tmp_path: Path) -> None:
    broker, logs = Broker(tmp_path), []
    for hour in range(1, 6):
        logs.append(advances(f"0{hour}:00:00", 100 * hour, 100 * hour + 100))
    broker.live.write_text(logs[4])
    broker.call()
    for number, text in zip((6, 4, 3, 2), logs, strict=False):
        (broker.logs / f"replication.log.{number}").write_text(text)
    for _ in range(2):
        broker.call()
    told = [sorted(row["ts"].hour for row in rows if row["event_type"] == "hw") for rows in broker.rows().values()]
    assert told == [[5] * 10, [1] * 10, sorted([2, 3, 4] * 10)]


def test_older_lines_of_which_no_row_tells_do_not_hide_those_after_them(tmp_path: Path) -> None:
    """They were told again, under the same numbers, in each further call."""
    broker, known = Broker(tmp_path), advances("02:00:00", 200, 300)
    quiet = (
        f"[2026-10-25 00:00:{k:02},000] INFO Shutdown completed (kafka.server.ReplicaFetcherThread)\n" for k in range(9)
    )
    (broker.logs / "server.properties").unlink()
    broker.live.write_text(known + advances("03:00:00", 300, 400))
    broker.call()
    (broker.logs / "replication.log.1").write_text("".join(quiet) + known + advances("02:30:00", 500, 600))
    for _ in range(3):
        broker.call()
    assert [sum(row["event_type"] == "hw" for row in rows) for rows in broker.rows().values()] == [20, 10]


def test_sources_share_what_they_remember_of_their_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told_lines, "REMEMBERED_BY_ALL", 100)
    monkeypatch.setattr(checkpoints, "SEGMENT", 50)
    broker, first, last = Broker(tmp_path), advances("01:00:00", 0, 1000), advances("02:00:00", 1000, 1500)
    for text in (first, last):
        with broker.live.open("a") as file:
            file.write(text)
        broker.call()
    states = checkpoints.Checkpoints(broker.lake, "c").load(["broker-1/replication.log"])
    lines = states["broker-1/replication.log"]["lines"]
    assert (lines.first, lines.count) == (200, 300), "the last 100 of files with 200 and 100 lines"
    (broker.logs / "replication.log.1").write_text(last)
    broker.call()
    assert [*broker.rows()] == ["broker-1/replication.log"], "known"


def test_older_lines_are_read_with_the_settings_of_their_broker(tmp_path: Path) -> None:
    """Without replica.lag.time.max.ms at its time an older part of a sound log was in disagreement with itself."""
    broker = Broker(tmp_path)
    older_files(broker)
    configs = [[row["ts"].hour for row in rows if row["event_type"] == "config"] for rows in broker.rows().values()]
    assert configs == [[2], [1]]


def test_lines_that_may_have_been_told_and_forgotten_are_a_seam(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(told_lines, "REMEMBERED_BY_ALL", 100)
    monkeypatch.setattr(checkpoints, "SEGMENT", 50)
    broker, first = Broker(tmp_path), advances("01:00:00", 0, 1000)
    broker.live.write_text(first)
    for hour in (2, 3):
        with broker.live.open("a") as file:
            file.write(advances(f"0{hour}:00:00", 500 * hour, 500 * hour + 500))
        broker.call()
    (broker.logs / "replication.log.1").write_text(first)
    broker.call()
    _, again = broker.rows().values()
    assert next(row["event_type"] for row in again if row["event_type"] != "config") == "lost"


def damaged_position(broker: Broker) -> None:
    """All is told once more, an hour after it was told first."""
    broker.live.write_text(leads("01:00:00", 5, 100) + advances("01:00:00", 100, 200))
    broker.call()
    with broker.live.open("a") as file:
        file.write(leads("02:00:00", 5, 200) + advances("02:00:00", 200, 300))
    broker.call()
    for path in Path(broker.lake, "_ingest").rglob("*"):
        if path.is_file() and path.name != "names.json":
            path.write_text("damaged")
    broker.call()


@pytest.mark.parametrize("also", [None, "rep"], ids=["alone", "beside a new log"])
def test_damaged_positions_of_older_lines_and_of_those_after_them_are_a_seam(tmp_path: Path, also: str | None) -> None:
    broker = Broker(tmp_path)
    older_files(broker)
    for path in Path(broker.lake, "_ingest").rglob("*"):
        if path.is_file() and path.name != "names.json":
            path.write_text("damaged")
    if also:
        (broker.logs / f"{also}.log").write_text(leads("03:00:00", 5, 300) + advances("03:00:00", 300, 310))
    broker.call()
    broker.call()
    told = {name: max(row["source_epoch"] for row in rows) for name, rows in broker.rows().items()}
    assert told["broker-1/replication.log"] == told["broker-1/replication.log+1"] == 1
    assert broker.verdicts()[0] == NOT_EXCLUDED


def test_a_damaged_position_is_said_in_a_line(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    damaged_position(broker)
    for path in Path(broker.lake, "_ingest").rglob("*.json"):
        path.write_text(path.read_text().replace('"version":1', '"version":0'))
    messages = ingest_logs([broker.logs], cluster="c", lake=broker.lake).problems
    (said,) = [message for message in messages if "stored positions" in message]
    assert said.startswith(
        "stored positions of 1 sources (broker-1/replication.log, ...) are damaged, or of an earlier"
    )


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda text: text.replace('"broker-1/', '"brokez-1/'), id="another name"),
        *(pytest.param(lambda _, text=text: text, id=text) for text in ("null", "[1]", '{"place": 1}', "{")),
    ],
)
def test_damaged_names_of_sources_are_as_good_as_none(damage: Callable[[str], str], tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.live.write_text(leads("01:00:00", 5, 100) + advances("01:00:00", 100, 200))
    broker.call()
    (names,) = Path(broker.lake, "_ingest").rglob("names.json")
    names.write_text(damage(names.read_text()))
    with broker.live.open("a") as file:
        file.write(advances("02:00:00", 200, 300))
    broker.call()
    assert len(broker.rows()) == 1


NOT_EXCLUDED = [("loss_not_excluded", "info")]


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(lambda broker: vanished_lines(broker, "02:00:00", 5), id="lines vanished"),
        pytest.param(lambda broker: vanished_lines(broker, "00:30:00", 5), id="lines vanished, an earlier time"),
        pytest.param(older_files, id="older files came later"),
        pytest.param(damaged_position, id="a damaged position"),
    ],
)
def test_no_loss_is_proven_across_a_seam(history: Callable[[Broker], None], tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    history(broker)
    assert broker.verdicts() == [NOT_EXCLUDED, NOT_EXCLUDED]


def leads_in_2_5(time: str, epoch: int, offset: int) -> str:
    """The line of a leader's start up to Kafka 2.5."""
    return (
        f"[2026-10-25 {time},000] INFO [Partition orders-1 broker=1] orders-1 starts at leader epoch {epoch} from "
        f"offset {offset} with high watermark {offset}. Previous leader epoch was -1. (kafka.cluster.Partition)\n"
    )


def test_a_start_that_kafka_2_5_printed_and_that_is_told_again_shows_no_loss(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(f"{__name__}.leads", leads_in_2_5)
    broker = Broker(tmp_path)
    damaged_position(broker)
    assert {cls for said in broker.verdicts() for cls, _ in said} <= {"loss_not_excluded"}


def test_a_high_watermark_of_an_unknown_epoch_behind_a_seam_shows_no_loss(tmp_path: Path) -> None:
    """The lines of the next file name no leader epoch, at times of before the last start that was told."""
    broker = Broker(tmp_path)
    broker.live.write_text(leads("01:00:00", 5, 100) + advances("01:00:00", 100, 200))
    broker.call()
    broker.live.unlink()
    broker.live.write_text(advances("00:30:00", 210, 300))
    broker.call()
    assert broker.verdicts() == [[("loss_not_excluded", "warning")], []]


@pytest.mark.parametrize("epoch", [5, 6], ids=["a resumption", "another leader epoch"])
@pytest.mark.parametrize("calls", [1, 2])
def test_a_clock_set_back_within_a_file_is_no_seam(epoch: int, calls: int, tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    before = leads("01:00:00", 5, 100) + advances("01:00:00", 100, 200)
    after = leads("00:30:00", epoch, 120) + advances("00:30:00", 120, 150)
    for text in (before, after) if calls == 2 else (before + after,):
        with broker.live.open("a") as file:
            file.write(text)
        broker.call()
    assert broker.verdicts() == [[("committed_loss", "critical")]] * 2


def test_leader_epochs_order_rows_across_a_seam(tmp_path: Path) -> None:
    """The later epoch has the earlier times, and lost what the earlier one had committed; no epoch goes back."""
    broker = Broker(tmp_path)
    vanished_lines(broker, "00:30:00", 6)
    at_once, live = broker.verdicts()
    assert ("committed_loss", "critical") in at_once
    assert live == [("committed_loss", "warning")]  # telemetry is missing where the term begins


def truncated_to_known_lines(broker: Broker) -> None:
    broker.live.write_text(advances("01:00:00", 100, 200))
    broker.call()
    broker.live.write_text(advances("01:00:00", 100, 150))


def broken_gzip(broker: Broker) -> None:
    (broker.logs / "replication.log.gz").write_bytes(b"\x1f\x8bbroken")


@pytest.mark.parametrize("history", [truncated_to_known_lines, broken_gzip], ids=lambda history: history.__name__)
def test_what_is_missing_before_any_row_tells_nothing_of_the_time_after_it(
    history: Callable[[Broker], None], tmp_path: Path
) -> None:
    """That it was missing was told with the time of the file, of today: the log of a month ago covered the month."""
    broker = Broker(tmp_path)
    history(broker)
    broker.call()
    with broker.live.open("a") as file:
        file.write(advances("02:00:00", 200, 250))
    broker.call()
    last = {row["event_type"]: f"{row['ts']:%H:%M:%S}" for row in broker.rows()["broker-1/replication.log"]}
    assert (last["hw"], last["progress"]) == ("02:00:05", "02:00:05")


def truncated_gzip(broker: Broker) -> Path:
    whole = gzip.compress(advances("01:00:00", 100, 4000).encode())
    (path := broker.logs / "replication.log.gz").write_bytes(whole[:-1000])
    return path


def test_a_file_of_which_only_a_part_can_be_read_is_unread_in_each_call_until_it_is_whole(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    path = truncated_gzip(broker)
    left_out = [ingest_logs([broker.logs], cluster="c", lake=broker.lake).left_out for _ in range(3)]
    assert left_out == [1, 1, 1]
    path.write_bytes(gzip.compress(advances("01:00:00", 100, 4000).encode()))
    assert ingest_logs([broker.logs], cluster="c", lake=broker.lake).left_out == 0
    (rows,) = broker.rows().values()
    kinds = Counter(row["event_type"] for row in rows)
    assert (kinds["hw"], kinds["unread"], kinds["lost"]) == (390, 1, 1)


def test_the_cut_line_at_the_end_of_a_damaged_file_is_missing_once(tmp_path: Path) -> None:
    """It was a second `lost` row, of one line in an unknown layout."""
    broker = Broker(tmp_path)
    truncated_gzip(broker).rename(broker.logs / "replication.log.1.gz")
    broker.live.write_text(advances("02:00:00", 4000, 4100))
    broker.call()
    (rows,) = broker.rows().values()
    kinds = Counter(row["event_type"] for row in rows)
    assert (kinds["unread"], kinds["lost"]) == (1, 1)


@pytest.mark.parametrize("name", ["replication.log.1.gz", "replication.log.1.7z"])
def test_a_file_that_cannot_be_read_is_missing_where_its_lines_would_be(name: str, tmp_path: Path) -> None:
    """It was told before the first line if the files before it were short, or it was packed: its time was covered."""
    broker = Broker(tmp_path)
    (broker.logs / "replication.log.2").write_text(advances("01:00:00", 100, 200))
    (broker.logs / name).write_bytes(b"\x1f\x8bbroken")
    broker.live.write_text(advances("03:00:00", 200, 300))
    broker.call()
    rows = broker.rows()["broker-1/replication.log"]
    assert [f"{row['ts']:%H:%M:%S}" for row in rows if row["event_type"] in ("unread", "lost")] == ["01:00:10"] * 2
    assert not [row for row in rows if row["ts"].hour == 2 and row["covers"]]


def unreadable_from_its_middle(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.live.write_text(advances("01:00:00", 100, 200))
    real = log_file.os.read

    def read(descriptor: int, length: int) -> bytes:
        if os.fstat(descriptor).st_ino != broker.live.stat().st_ino:
            return real(descriptor, length)
        if os.lseek(descriptor, 0, os.SEEK_CUR) >= 2000:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(descriptor, 2000)

    monkeypatch.setattr(log_file.os, "read", read)


@pytest.mark.parametrize(
    "unread", [unreadable_from_its_middle, lambda broker, _: truncated_gzip(broker)], ids=["EIO", "gzip"]
)
def test_the_rest_of_a_file_is_not_covered_by_the_end_of_another_log(
    unread: Callable[[Broker, pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(tmp_path)
    unread(broker, monkeypatch)
    (broker.logs / "server.log").write_text(leads("03:00:00", 5, 100))
    broker.call()
    rows = broker.rows()["broker-1/replication.log"]
    assert {row["event_type"] for row in rows} >= {"hw", "unread"}
    assert not [row for row in rows if row["ts"].hour == 3 and row["covers"]]
