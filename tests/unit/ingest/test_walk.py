"""Links, names and files of any kind below the paths given: each real file is read once, by a name that can be kept."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from generators.brokerlogs.discovery.sources import discover
from generators.brokerlogs.ingest import ingest_logs
from pipelines.lake.bronze import read_events
from pipelines.lake.file_systems import path_part
from tests.unit.brokerlogs.log_lines import recorded

LINE = recorded(2, 1).encode()


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    (tmp_path / "logs" / "b1").mkdir(parents=True)
    (tmp_path / "logs" / "b1" / "server.log").write_bytes(LINE)
    return tmp_path / "logs"


def ids(*paths: Path) -> list[str]:
    return [source.source_id for source in discover(paths).sources]


LINKS = {
    "to its parent": ("b1/up", "..", "{link}: the same folder as {logs}, read once"),
    "to its own folder": ("b1/here", ".", "{link}: the same folder as {logs}/b1, read once"),
    "to a folder beside": ("a-copy", "b1", "{link}: the same folder as {logs}/b1, read once"),
    "to a file in another folder": ("server.log", "b1/server.log", "{link}: the same file as {logs}/b1/server.log"),
    "to a file beside": ("b1/a.log", "server.log", "{link}: the same file as {logs}/b1/server.log, read once"),
    "to itself": ("b1/x.log", "x.log", "{link}: a link that leads to no file, left out"),
    "to nothing": ("b1/gone", "nowhere", "{link}: a link that leads to no file, left out"),
}


@pytest.mark.parametrize(("name", "target", "word"), LINKS.values(), ids=LINKS.keys())
def test_a_link_changes_nothing_of_what_is_read_and_has_a_word(logs: Path, name: str, target: str, word: str) -> None:
    (logs / name).symlink_to(target)
    lake = str(logs.parent / "lake")
    summary = ingest_logs([logs], cluster="c", lake=lake)
    assert [source.source_id for source in summary.sources] == ["broker-1/server.log"]
    assert summary.line_count == 1
    assert word.format(link=logs / name, logs=logs) in str(summary)
    assert read_events(lake)["event_type"].to_pylist().count("fetch") == 1


@pytest.mark.parametrize("order", [1, -1])
def test_two_paths_to_one_folder_are_read_once_by_its_own_name(logs: Path, order: int) -> None:
    link = logs.parent / "link"
    link.symlink_to(logs / "b1")
    found = discover([link, logs / "b1", logs / "b1"][::order])
    assert [source.source_id for source in found.sources] == ["broker-1/server.log"]
    assert found.messages == [f"{link}: the same folder as {logs / 'b1'}, read once"]
    assert ids(link) == ["broker-1/server.log"]


def test_a_link_to_the_file_being_written_is_followed_from_one_to_the_next(logs: Path) -> None:
    folder = logs / "b1"
    (folder / "server.log").rename(folder / "server.log.2026-11-20")
    (folder / "server.log").symlink_to("server.log.2026-11-20")
    (source,) = discover([logs]).sources
    assert source.source_id == "broker-1/server.log"
    assert [entry.path for entry in source.series.entries()] == [folder / "server.log"]
    (folder / "server.log").unlink()
    (folder / "server.log.2026-11-21").write_bytes(recorded(2, 2).encode())
    (folder / "server.log").symlink_to("server.log.2026-11-21")
    assert [entry.path for entry in source.series.entries()] == [
        folder / "server.log.2026-11-20",
        folder / "server.log",
    ]


def test_a_hard_link_in_another_folder_is_the_same_file(logs: Path) -> None:
    (logs / "b2").mkdir()
    (logs / "b2" / "server.log.1").write_bytes(LINE.replace(b"broker=1", b"broker=2"))
    os.link(logs / "b1" / "server.log", logs / "b2" / "server.log")
    first, second = discover([logs]).sources
    assert [entry.path for entry in first.series.entries()] == [logs / "b1" / "server.log"]
    assert [entry.path for entry in second.series.entries()] == [logs / "b2" / "server.log.1"]


@pytest.mark.parametrize(
    "paths", [lambda logs: [logs], lambda logs: [logs / "b1" / n for n in ("server.log", "pipe.log")]]
)
def test_what_is_no_file_is_left_out(logs: Path, paths: Callable[[Path], list[Path]]) -> None:
    os.mkfifo(logs / "b1" / "pipe.log")
    found = discover(paths(logs))
    assert [source.source_id for source in found.sources] == ["broker-1/server.log"]
    assert found.messages == [f"{logs}/b1/pipe.log: neither a file nor a folder, left out"]


NAMES = [
    b"server-\xff.log",
    b"b-\xfe\xff/server.log",
    b"b3/ser\xffver.log.1",
    b"\xff" * 240 + b".log",
    b"b5/\x1b[2J.log",
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_that_are_no_utf8_are_read_under_one_that_is(logs: Path, name: bytes) -> None:
    path = Path(os.fsdecode(os.fsencode(logs) + b"/" + name))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(LINE.replace(b"broker=1", b"broker=7"))
    lake = str(logs.parent / "lake")
    for lines in (2, 0):
        summary = ingest_logs([logs], cluster="c", lake=lake)
        assert summary.line_count == lines
        str(summary).encode()
        assert all(line.isprintable() for line in summary.lines())
    sources = read_events(lake)["source_id"].unique().to_pylist()
    assert len(sources) == 2
    assert all(source.encode() for source in sources)


def test_what_is_wrong_with_such_a_file_is_reported_in_the_lake(logs: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(logs) + b"/b-\xff/server.log.1.gz"))
    path.parent.mkdir()
    path.write_bytes(b"\x1f\x8b no gzip")
    path.with_name("server.log").write_bytes(LINE)
    lake = str(logs.parent / "lake")
    summary = ingest_logs([logs], cluster="c", lake=lake)
    assert "b-\\xff/server.log.1.gz: broken gzip" in str(summary)
    details = [detail for detail in read_events(lake)["detail"].to_pylist() if detail]
    assert any("b-\\xff/server.log.1.gz: broken gzip" in detail for detail in details)


def test_names_that_differ_in_their_bytes_are_different_sources(logs: Path) -> None:
    for name in (b"a\xff.log", b"a\xfe.log", rb"a\xff.log"):
        Path(os.fsdecode(os.fsencode(logs) + b"/" + name)).write_bytes(LINE)
    assert len(set(ids(logs))) == 4


def test_a_part_of_a_path_is_the_quoted_name_and_fits_a_file_system() -> None:
    assert path_part("b 1/server.log") == "b%201%2Fserver.log"
    long = [path_part(letter + "é" * 300) for letter in "ab"]
    assert all(len(part) <= 200 for part in long)
    assert len(set(long)) == 2


def test_what_is_named_like_a_log_and_is_none_keeps_no_log_waiting(tmp_path: Path) -> None:
    """A pipe was opened, which ends when somebody writes into it; a folder was taken for a file that fails."""
    (tmp_path / "server.log").write_text("[2026-11-20 10:00:00,000] INFO x (kafka.server.KafkaServer)\n")
    os.mkfifo(tmp_path / "server.log.1")
    os.mkfifo(tmp_path / "other")
    (tmp_path / "server.log.2").mkdir()
    (source,) = discover([tmp_path]).sources
    assert [entry.path.name for entry in source.series.entries()] == ["server.log"]
