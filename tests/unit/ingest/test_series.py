"""Which files are one log, in which order, and what is left aside."""

import errno
import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from socket import gethostname
from time import time_ns

import pytest
from typer.testing import CliRunner

from generators.brokerlogs.discovery.log_series import live_name
from generators.brokerlogs.discovery.sources import discover
from generators.brokerlogs.ingest import read_logs
from pipelines.cli import app
from pipelines.lake.bronze import read_events
from tests.unit.ingest.plain_parser import lines

LIVE = [
    ("replication.log", "replication.log"),
    ("replication.log.1", "replication.log"),
    ("replication.log.12.gz", "replication.log"),
    ("replication.log.2026-11-20-10", "replication.log"),
    ("replication.log-20261120", "replication.log"),
    ("replication.log.2026-11-20.3.gz", "replication.log"),
    ("rep-1.log", "rep.log"),
    ("rep-2026-11-20.log.gz", "rep.log"),
    ("kafkaServer.out", "kafkaServer.out"),
    ("stage-change.log.2026-11-20-10", "state-change.log"),
    ("metadata.dump.gz", "metadata.dump"),
    ("actions.jsonl", None),
    ("server.properties", None),
]


@pytest.mark.parametrize(("name", "live"), LIVE)
def test_a_rotated_file_belongs_to_its_live_log(name: str, live: str | None) -> None:
    assert live_name(name) == live


ORDERS = {
    "numbers going up with age": ["rep.log.2", "rep.log.1", "rep.log"],
    "numbers going down with age": ["rep.log.1", "rep.log.2", "rep.log"],
    "by hour, the older ones compressed": ["rep.log.2026-11-20-09.gz", "rep.log.2026-11-20-10", "rep.log"],
    "numbered before the suffix": ["rep-1.log", "rep-2.log", "rep.log"],
    "without a live file": ["rep.log.2.gz", "rep.log.1.gz"],
}


@pytest.mark.parametrize("names", ORDERS.values(), ids=ORDERS.keys())
def test_a_series_is_read_oldest_first(tmp_path: Path, names: list[str]) -> None:
    for age, name in enumerate(names):
        content = lines(age, start=1_700_000_000_000 + age * 60_000)
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    (source,) = discover([tmp_path]).sources
    assert source.source_id == f"{gethostname()}{tmp_path}/rep.log"
    assert [entry.path.name for entry in source.series.entries()] == names


def test_a_file_written_anew_within_a_tick_of_the_clock_has_its_new_first_time(tmp_path: Path) -> None:
    """Its time and size are those of before: the order of the files was that of their former lines."""
    names, now = ["rep.log.1", "rep.log.2", "rep.log"], time_ns()

    def write(*ages: int) -> None:
        for name, age in zip(names, ages, strict=True):
            (tmp_path / name).write_bytes(lines(age, start=1_700_000_000_000 + age * 60_000))
            os.utime(tmp_path / name, ns=(now, now))

    write(1, 2, 3)
    (source,) = discover([tmp_path]).sources
    assert [entry.path.name for entry in source.series.entries()] == names
    write(5, 4, 6)
    assert [entry.path.name for entry in source.series.entries()] == ["rep.log.2", "rep.log.1", "rep.log"]


def test_files_of_several_brokers_in_one_folder_stay_apart(tmp_path: Path) -> None:
    for broker in (1, 2):
        line = f"1700000000000|t|INFO|state.change.logger|[Broker id={broker}] Transitioning\n"
        (tmp_path / f"broker-{broker}.log").write_text(line)
    found = discover([tmp_path])
    assert [source.series.live for source in found.sources] == ["broker-1.log", "broker-2.log"]


def test_a_cluster_folder_gives_a_source_per_log_and_the_broker_of_its_settings(tmp_path: Path) -> None:
    for broker in (1, 2):
        folder = tmp_path / f"broker-{broker}"
        folder.mkdir()
        (folder / "replication.log").write_bytes(lines(1))
        (folder / "kafka-request.log.gz").write_bytes(b"")
        (folder / "00000000000000000000.log").write_bytes(b"")
        (folder / "server.properties").write_text(f"process.roles=broker\nnode.id={broker}\n")
    (tmp_path / "metadata.dump").write_text("Dumping x\n| offset: 0 CreateTime: 1700000000000\n")
    found = discover([tmp_path])
    assert [(source.source_id, source.broker_id) for source in found.sources] == [
        ("broker-1/replication.log", 1),
        ("broker-2/replication.log", 2),
        ("metadata.dump", -1),
    ]
    assert sum("request log" in word for word in found.messages) == 2
    assert sum("a log segment" in word for word in found.messages) == 2


STOCK_39 = ["controller.log", "kafka-authorizer.log", "kafka-request.log", "kafkaServer-gc.log", "kafkaServer-gc.log.0"]
STOCK_39 += ["kafkaServer.out", "log-cleaner.log", "log-cleaner.log.2026-11-20-09", "server.log", "state-change.log"]
STOCK_4 = [*STOCK_39, "server.log.2026-11-20-09", "stage-change.log.2026-11-20-09", "zookeeper-gc.log.0.current"]


@pytest.mark.parametrize("names", [STOCK_39, STOCK_4], ids=["3.9", "4"])
def test_the_whole_folder_of_a_stock_broker(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).write_text(
            "[2026-11-20 10:00:00,000] INFO [BrokerServer id=7] x (kafka.server.BrokerServer)\n"
        )
    (tmp_path / "meta.properties").write_text("node.id=7\n")
    found = discover([tmp_path])
    read = {source.series.live: len(source.series.entries()) for source in found.sources}
    rotated = 1 if names is STOCK_39 else 2
    assert read == {"controller.log": 1, "kafkaServer.out": 1, "server.log": rotated, "state-change.log": rotated}
    aside = {word.rpartition("/")[2].partition(":")[0] for word in found.messages}
    assert aside == {name for name in names if not name.startswith(("controller", "kafkaServer.out", "s"))}


def test_logs_without_a_broker_are_named_by_host_and_path(tmp_path: Path) -> None:
    for rack in ("east", "west"):
        (tmp_path / rack / "broker-1").mkdir(parents=True)
        (tmp_path / rack / "broker-1" / "rep.log").write_bytes(lines(1))
    found = discover([tmp_path / "west", tmp_path / "east"])
    assert [source.source_id for source in found.sources] == [
        f"{gethostname()}{tmp_path}/{rack}/broker-1/rep.log" for rack in ("east", "west")
    ]


def test_only_the_files_named_are_read(tmp_path: Path) -> None:
    for name in ("rep.log", "rep.log.1", "other.log"):
        (tmp_path / name).write_bytes(lines(1))
    found = discover([tmp_path / "rep.log", tmp_path / "missing.log"])
    assert [source.series.live for source in found.sources] == ["rep.log"]
    offered = [entry.path.name for entry in found.sources[0].series.entries() if entry.offered]
    assert offered == ["rep.log"]
    assert found.messages == [f"{tmp_path / 'missing.log'}: there is no such file, left out"]


def test_a_source_has_the_same_name_whatever_else_is_in_the_call(tmp_path: Path) -> None:
    """Kafka's folder is called `logs` on every host: one call a host, or one for all."""
    folders = [tmp_path / f"h{broker}" / "logs" for broker in (1, 2)]
    for broker, folder in enumerate(folders, 1):
        folder.mkdir(parents=True)
        (folder / "server.log").write_bytes(lines(1))
        (folder / "meta.properties").write_text(f"version=1\nnode.id={broker}\n")
    together = [source.source_id for source in discover(folders).sources]
    assert together == ["broker-1/server.log", "broker-2/server.log"]
    assert [source.source_id for folder in folders for source in discover([folder]).sources] == together
    assert [source.source_id for source in discover(folders[:1], name="east").sources] == ["east/server.log"]


@pytest.mark.parametrize("backup_first", [False, True])
def test_the_same_logs_under_two_paths_are_one_log_that_is_read_once(tmp_path: Path, backup_first: bool) -> None:
    here, backup = (tmp_path / name / "broker-1" for name in (("b", "a") if backup_first else ("a", "b")))
    isr = [
        f"[2026-11-20 10:00:{n:02},000] INFO [Partition t-0 broker=1] ISR updated to 1,{n}  and version updated to {n} "
        "(kafka.cluster.Partition)\n"
        for n in range(2, 30)
    ]
    for folder, part in ((here, isr[:20]), (backup, isr)):
        folder.mkdir(parents=True)
        (folder / "server.log").write_text("".join(part))
    rows = read_logs([here, backup], "c")
    read = [row for row in rows.select(["event_type", "isr", "source_id"]).to_pylist() if row["event_type"] == "isr"]
    assert sorted(row["isr"][1] for row in read) == [*range(2, 30)]
    assert {row["source_id"] for row in read} <= {"broker-1/server.log", "broker-1/server.log+1"}


NAMES = [
    "server.log",
    "server.log.1.7z",
    "server.log.2.Z",
    "server.log.3.br",
    "server.log.old",
    "server.log.bak",
    "server.log.123456",
]


def test_nothing_in_a_folder_is_passed_over_in_silence(tmp_path: Path) -> None:
    content = "[2026-11-20 10:00:00,000] INFO [BrokerServer id=7] x (kafka.server.BrokerServer)\n"
    for name in (*NAMES, "broker.txt"):
        (tmp_path / name).write_text(content)
    (tmp_path / "notes").write_text("buy milk\n")
    found = discover([tmp_path])
    read = {source.source_id: [entry.path.name for entry in source.series.entries()] for source in found.sources}
    assert read.keys() == {"broker-7/broker.txt", "broker-7/server.log"}
    assert sorted(read["broker-7/server.log"]) == sorted(NAMES)
    said = "\n".join(found.messages)
    assert "1 files that are no logs, left out: notes" in said
    rows = read_logs([tmp_path], "c").to_pylist()
    unread = {
        row["detail"].rpartition("server.log.")[2].partition(" is not")[0]
        for row in rows
        if row["event_type"] == "unread"
    }
    assert unread == {"1.7z: .7z", "2.Z: .Z", "3.br: .br"}


def test_a_call_that_leaves_a_file_unread_does_not_end_as_if_all_was_read(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    said = "[Partition a-0 broker=7] ISR updated to 7 and version updated to 2 (kafka.cluster.Partition)"
    (folder / "server.log").write_text(f"[2026-11-20 10:00:00,000] INFO {said}\n")
    words = ["ingest", "logs", str(folder), "--cluster", "c", "--lake", str(tmp_path / "lake")]
    assert CliRunner().invoke(app, words).exit_code == 0
    (folder / "server.log.1.zst").write_bytes(b"packed")
    for _ in range(2):
        done = CliRunner().invoke(app, words)
        assert (done.exit_code, "server.log.1.zst" in done.stdout, "nothing new" in done.stdout) == (65, True, False)


ISR_LINE = "[2026-11-20 10:00:00,000] INFO [Partition a-0 broker={}] ISR updated to 7 and version updated to 2 ({})\n"


def broker_log(folder: Path, broker: int) -> Path:
    folder.mkdir(parents=True)
    (folder / "server.log").write_text(ISR_LINE.format(broker, "kafka.cluster.Partition"))
    return folder


def ingest(lake: Path, *words: Path | str) -> tuple[int, str]:
    """The status and what was printed."""
    done = CliRunner().invoke(app, ["ingest", "logs", *map(str, words), "--cluster", "c", "--lake", str(lake)])
    return done.exit_code, done.output + str(done.exception or "")


def test_a_path_that_is_not_there_is_named_and_no_success(tmp_path: Path) -> None:
    """As with grep, the others are read; a typing error ended with 0."""
    there, typo = broker_log(tmp_path / "b1", 1), tmp_path / "b2"
    for count in ("1 lines", "0 lines"):
        status, said = ingest(tmp_path / "lake", there, typo)
        assert (status, f"{typo}: there is no such file, left out" in said, count in said) == (65, True, True)
    assert ingest(tmp_path / "lake", there)[0] == 0
    assert {row["event_type"] for row in read_events(str(tmp_path / "lake")).to_pylist()} >= {"isr"}
    assert "unread" not in read_events(str(tmp_path / "lake"))["event_type"].to_pylist()


def test_paths_that_are_all_missing_are_wrong_usage(tmp_path: Path) -> None:
    status, said = ingest(tmp_path / "lake", tmp_path / "typo")
    assert (status, f"{tmp_path / 'typo'}: there is no such file" in said) == (2, True)
    assert not (tmp_path / "lake").exists()


def test_a_folder_without_rights_is_unread_and_the_rest_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No broker's logs were read, with status 2."""
    one, other, lake = broker_log(tmp_path / "b1", 1), broker_log(tmp_path / "b2", 2), tmp_path / "lake"
    listed, reason = Path.iterdir, f"{other}: cannot be read (Permission denied)"

    def refuse(path: Path) -> Iterator[Path]:
        if path == other:
            raise PermissionError(errno.EACCES, "Permission denied")
        return listed(path)

    with monkeypatch.context() as without:
        without.setattr(Path, "iterdir", refuse)
        without.setattr(os, "access", lambda path, *_, **__: Path(path) != other)
        status, said = ingest(lake, one, other)
        assert (status, reason in said) == (65, True)
    rows = read_events(str(lake)).to_pylist()
    assert {row["broker_id"] for row in rows if row["event_type"] == "isr"} == {1}
    assert [row["detail"] for row in rows if row["event_type"] == "unread"] == [
        f"{other}: cannot be read (Permission denied)"
    ]
    assert ingest(lake, one, other)[0] == 0
    assert {row["broker_id"] for row in read_events(str(lake)).to_pylist() if row["event_type"] == "isr"} == {1, 2}


def test_one_name_for_logs_of_several_brokers_is_refused(tmp_path: Path) -> None:
    """Their lines were one source."""
    one, other = broker_log(tmp_path / "b1", 1), broker_log(tmp_path / "b2", 2)
    status, said = ingest(tmp_path / "lake", one, other, "--source", "prod")
    assert (status, f"--source prod: {other} is of broker-2, other logs given are of broker-1" in said) == (2, True)
    assert ingest(tmp_path / "lake", one, "--source", "prod")[0] == 0


def test_one_name_for_logs_of_several_brokers_is_refused_in_a_later_call_too(tmp_path: Path) -> None:
    lake, one, other = tmp_path / "lake", broker_log(tmp_path / "b1", 1), broker_log(tmp_path / "b2", 2)
    assert ingest(lake, one, "--source", "prod")[0] == 0
    rows = read_events(str(lake)).num_rows
    status, said = ingest(lake, other, "--source", "prod")
    assert (status, "are of broker-2, and under this name those of broker 1 were read" in said) == (2, True), said
    assert ingest(lake, one, "--source", "prod")[0] == 0
    assert read_events(str(lake)).num_rows == rows


def test_an_unknown_time_zone_is_wrong_usage(tmp_path: Path) -> None:
    status, said = ingest(tmp_path / "lake", broker_log(tmp_path / "b1", 1), "--timezone", "Nowhere/X")
    assert (status, "timezone" in said, "Nowhere/X" in said) == (2, True, True)
