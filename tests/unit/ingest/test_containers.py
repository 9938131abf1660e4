"""Logs in whatever they are packed: compressed files of any name, archives of those, a pipe."""

import bz2
import gzip
import io
import lzma
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from generators.brokerlogs.discovery.codecs import Stopped
from generators.brokerlogs.discovery.log_file import LogBytes
from generators.brokerlogs.ingest import ingest_logs, read_logs
from pipelines.cli import app
from pipelines.lake.bronze import read_events

TEXT = b"".join(
    b"[2026-11-20 10:%02d:%02d,000] INFO [Partition a-%d broker=7] ISR updated to 7 and version updated to %d "
    b"(kafka.cluster.Partition)\n" % (k // 60, k % 60, k % 7, k // 7)
    for k in range(2000)
)


def _arrow(codec: str) -> Callable[[bytes], bytes]:
    return lambda text: pa.Codec(codec).compress(text, asbytes=True)


def _lz4(text: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4") as packed:
        packed.write(text)
    return bytes(sink.getvalue())


PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": _arrow("zstd"), "lz4": _lz4,
    "lzma": lambda text: lzma.compress(text, format=lzma.FORMAT_ALONE),
}  # fmt: skip
ANY_NAME = sorted(PACK.keys() - {"lzma"})


def _rows(*paths: Path) -> list[dict[str, Any]]:
    return read_logs(paths, "c").drop_columns(["source_id"]).to_pylist()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    file = tmp_path_factory.mktemp("plain") / "server.log"
    file.write_bytes(TEXT)
    return _rows(file)


@pytest.mark.parametrize("suffix", PACK)
def test_a_compressed_file_is_read(suffix: str, tmp_path: Path, plain: list[dict[str, Any]]) -> None:
    (tmp_path / f"server.log.{suffix}").write_bytes(PACK[suffix](TEXT))
    assert _rows(tmp_path) == plain


@pytest.mark.parametrize("suffix", ANY_NAME)
def test_a_compressed_file_is_known_by_its_bytes(suffix: str, tmp_path: Path, plain: list[dict[str, Any]]) -> None:
    (tmp_path / "from-anna").write_bytes(PACK[suffix](TEXT))
    assert _rows(tmp_path) == plain


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.sampled(3)
def test_damage_leaves_what_is_before_it_and_has_a_word(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"a.log.{suffix}").write_bytes(PACK[suffix](TEXT * 40)[:-20])
    file = LogBytes(tmp_path / f"a.log.{suffix}")
    read = b"".join(iter(lambda: file.read(7919), b""))
    assert (TEXT * 40).startswith(read)
    assert len(read) > len(TEXT)
    assert "what could be read before" in str(file.damage)


@pytest.mark.parametrize("suffix", PACK)
def test_reading_a_compressed_file_can_be_stopped(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"a.log.{suffix}").write_bytes(PACK[suffix](TEXT))
    with pytest.raises(Stopped):
        LogBytes(tmp_path / f"a.log.{suffix}", 0, lambda: True).read(10)


def _tar(files: dict[str, bytes], suffix: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as packed:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            packed.addfile(member, io.BytesIO(data))
    return PACK[suffix](out.getvalue()) if suffix else out.getvalue()


def _zip(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in files.items():
            packed.writestr(name, data)
    return out.getvalue()


HALF = TEXT.index(b"\n", len(TEXT) // 2) + 1
INSIDE = {"logs/server.log.1.bz2": bz2.compress(TEXT[:HALF]), "logs/server.log": TEXT[HALF:], "logs/notes": b"x"}
ARCHIVES = {
    **{f"logs.tar.{suffix}".rstrip("."): _tar(INSIDE, suffix) for suffix in ("", *PACK)},
    "logs.zip": _zip(INSIDE), "ticket-77": _tar(INSIDE, "zst"), "nested.zip": _zip({"a/logs.tgz": _tar(INSIDE, "gz")}),
}  # fmt: skip


@pytest.mark.parametrize("name", ARCHIVES)
@pytest.mark.sampled(2)
def test_what_an_archive_holds_is_read(name: str, tmp_path: Path, plain: list[dict[str, Any]]) -> None:
    (tmp_path / name).write_bytes(ARCHIVES[name])
    assert _rows(tmp_path) == plain == _rows(tmp_path / name)


def test_an_archive_writes_nothing_outside(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "evil.tar").write_bytes(_tar({"server.log": TEXT, "../../x/server.log": TEXT}, ""))
    assert _rows(tmp_path / "in")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["evil.tar", "in"]


def _ingest(lake: Path, *paths: Path | str) -> Any:
    words = ["ingest", "logs", *map(str, paths), "--cluster", "c", "--lake", str(lake)]
    return CliRunner().invoke(app, words)


def test_lines_that_come_plain_and_packed_count_once(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "server.log").write_bytes(TEXT)
    assert _ingest(tmp_path / "lake", tmp_path / "b").exit_code == 0
    told = read_events(str(tmp_path / "lake")).num_rows
    for name in ("logs.tar.zst", "logs.zip"):
        (tmp_path / name).write_bytes(ARCHIVES[name])
        assert _ingest(tmp_path / "lake", tmp_path / name).exit_code == 0
    assert read_events(str(tmp_path / "lake")).num_rows == told


def test_a_source_in_an_archive_is_named_by_the_archive(tmp_path: Path) -> None:
    text = TEXT.replace(b" broker=7]", b"]")
    (tmp_path / "logs.tar").write_bytes(_tar({"x/server.log": text}, ""))
    summary = ingest_logs([tmp_path], cluster="c", lake=str(tmp_path / "l"))
    assert [one.source_id.partition(str(tmp_path))[2] for one in summary.sources] == ["/logs.tar!/x/server.log"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("server.log.1.xz", b"\xfd7zXZ\0 and no more"),
        ("server.log.1.zst", b"packed"),
        ("logs.tar", _tar(INSIDE, "")[:600]),
    ],
)
def test_what_is_packed_and_cannot_be_read_is_said(name: str, content: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "server.log").write_bytes(TEXT)
    (folder / name).write_bytes(content)
    for _ in range(2):
        done = _ingest(tmp_path / "lake", folder)
        assert (done.exit_code, name in done.stdout) == (65, True)


def _pipe(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(data))))


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("data", [TEXT, gzip.compress(TEXT), ARCHIVES["logs.tar.zst"]], ids=["plain", "gz", "tar"])
def test_a_pipe_is_read_to_its_end(
    follow: bool, data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: list[dict[str, Any]]
) -> None:
    _pipe(monkeypatch, data)
    ingest_logs(["-"], cluster="c", lake=str(tmp_path), follow=follow)
    told = read_events(str(tmp_path)).sort_by("source_seq").to_pylist()
    assert [row["partition_epoch"] for row in told] == [row["partition_epoch"] for row in plain]


def test_overlapping_windows_of_a_pipe_count_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = TEXT.splitlines(keepends=True)
    for begin in (0, 400, 800):
        _pipe(monkeypatch, b"".join(lines[begin : begin + 1200]))
        ingest_logs(["-"], cluster="c", lake=str(tmp_path))
    told = read_events(str(tmp_path))
    assert told.filter(pa.compute.field("event_type") == "isr").num_rows == 2000
    assert not told.filter(pa.compute.field("event_type") == "lost").num_rows


def test_a_pipe_that_cannot_be_copied_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def read1(self, *_: object) -> bytes:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Full()))
    with pytest.raises(OSError, match="No space left"):
        ingest_logs(["-"], cluster="c", lake=str(tmp_path / "lake"))
