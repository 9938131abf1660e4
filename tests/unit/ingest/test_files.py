"""Bytes of a file come out as far as they can be read, with a word on what could not."""

import gzip
import os
from pathlib import Path

import pytest

from generators.brokerlogs.discovery.log_file import LogBytes

TEXT = b"".join(b"line %d\n" % i for i in range(50_000))
GZ = gzip.compress(TEXT)

CASES = [
    ("rep.log", TEXT, TEXT, None),
    ("rep.log.gz", GZ, TEXT, None),
    ("rep.log.gz", GZ + gzip.compress(b"more\n"), TEXT + b"more\n", None),
    ("rep.log.gz", b"", b"", None),
    ("rep.log.gz", GZ[: len(GZ) // 2], None, "truncated gzip"),
    ("rep.log.gz", b"no gzip at all", b"", "broken gzip"),
    ("rep.log.gz", GZ[:5000] + b"\xff" * 500 + GZ[5500:], None, "broken gzip"),
    ("gone.log", None, b"", "cannot be read (No such file or directory)"),
]


def _read_all(file: LogBytes, limit: int = 7919) -> bytes:
    return b"".join(iter(lambda: file.read(limit), b""))


@pytest.mark.parametrize(("name", "content", "expected", "word"), CASES)
def test_what_can_be_read_is_read_and_the_rest_has_a_word(
    tmp_path: Path, name: str, content: bytes | None, expected: bytes | None, word: str | None
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    file = LogBytes(tmp_path / name)
    read = _read_all(file)
    if expected is None:
        assert 10_000 < len(read) < len(TEXT)
        assert TEXT.startswith(read[:10_000])
    else:
        assert read == expected
    assert (word is None) == (file.damage is None and file.error is None)
    assert word is None or word in (file.damage or file.error or "")


@pytest.mark.parametrize("name", ["rep.log", "rep.log.gz"])
@pytest.mark.parametrize("position", [0, 1, 300_001, len(TEXT)])
def test_reading_begins_at_the_position(tmp_path: Path, name: str, position: int) -> None:
    (tmp_path / name).write_bytes(GZ if name.endswith("gz") else TEXT)
    file = LogBytes(tmp_path / name, position)
    assert _read_all(file) == TEXT[position:]


def test_an_unreadable_file_has_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, os.strerror(13))

    (tmp_path / "rep.log").write_bytes(TEXT)
    monkeypatch.setattr(os, "open", refuse)
    file = LogBytes(tmp_path / "rep.log")
    assert file.read(10) == b""
    assert "rep.log: cannot be read (Permission denied)" in (file.error or "")
