"""Copies of a log in other envelopes hold the same lines: each is told once."""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from generators.brokerlogs.discovery.streams import order_of
from generators.brokerlogs.forms.envelopes import ENVELOPES as RULES
from generators.brokerlogs.forms.envelopes import bare_lines
from generators.brokerlogs.forms.rule import line_rule
from generators.brokerlogs.ingest import read_logs
from tests.unit.field.test_forms import ENVELOPES, INSIDE, LAYOUTS, events, headers, incident, plain_events
from tests.unit.ingest.reading import read_with_older, reader_of, restarted
from tests.unit.ingest.test_excerpts import FAILED, LINES
from tests.unit.ingest.test_windows import told_hws, write

PRINTED = [one for k, line in enumerate(LINES) for one in (line + FAILED * (k % 7 == 3)).splitlines()]
OTHERS = [("stern", "epoch"), ("stern", "level before the time")]
"""Those that are not read, either."""
Calls = Callable[[Path, Path], list[list[Path]]]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_lines_are_the_same_in_every_envelope(layout: str) -> None:
    lines = [line if isinstance(line, str) else LAYOUTS[layout](line) for line in headers(incident())]
    plain = "\n".join([*lines, ""]).encode()
    assert bare_lines(plain) == plain
    for name, envelope in ENVELOPES.items():
        if (name, layout) not in OTHERS:
            assert bare_lines("\n".join([*envelope(lines), ""]).encode().removeprefix(b"\xef\xbb\xbf")) == plain, name


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param(lambda log, copy: [[log], [copy]], id="log first"),
        pytest.param(lambda log, copy: [[copy], [log]], id="copy first"),
        pytest.param(lambda log, copy: [[log, copy]], id="both"),
    ],
)
@pytest.mark.parametrize(
    "envelope", ["CRLF and BOM", "kubectl --timestamps", "docker compose", "docker json-file", "CRI", "journald export"]
)
@pytest.mark.parametrize("name", ["server.log.1", "copy/server.log", "k8s.log"])
def test_a_copy_in_another_envelope_is_told_once(name: str, envelope: str, calls: Calls, tmp_path: Path) -> None:
    """Its lines were told twice without a word."""
    log, copy = tmp_path / "broker-1" / "server.log", tmp_path / "broker-1" / name
    for path, lines in ((log, PRINTED), (copy, ENVELOPES[envelope](PRINTED[: 9 * len(PRINTED) // 10]))):
        write(path.parent)
        path.write_text("".join(f"{line}\n" for line in lines))
    assert told_hws(tmp_path, calls(log, copy)) == [*range(110, 401, 10)]


@pytest.mark.parametrize("limit", [50, 700, 1 << 16])
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("first", ["log", "copy"])
@pytest.mark.parametrize("envelope", ["CRI", "journald export"])
def test_a_line_in_parts_is_one_wherever_a_piece_ends(
    envelope: str, first: str, restart: bool, limit: int, tmp_path: Path
) -> None:
    """Its copy was told again, behind a `lost` row."""
    log = "".join(f"{line}\n" for line in PRINTED).encode()
    copy = "".join(f"{line}\n" for line in ENVELOPES[envelope](PRINTED)).encode()
    one, other = (log, copy) if first == "log" else (copy, log)
    (tmp_path / "rep.log").write_bytes(one)
    reader, told = reader_of(tmp_path), list[bytes]()
    while lines := reader.read(limit):
        told.append(lines)
        reader = restarted(reader) if restart else reader
    (tmp_path / "rep.log.1").write_bytes(other)
    assert (b"".join(told), read_with_older(reader, limit)) == (one, [b""])


@pytest.mark.parametrize("restart", [False, True])
def test_a_part_of_a_line_waits_for_the_last_one(restart: bool, tmp_path: Path) -> None:
    copy = "".join(f"{line}\n" for line in ENVELOPES["CRI"](PRINTED)).encode()
    end = copy.index(b" stdout P ", 1000)
    end = copy.index(b"\n", end) + 1
    (tmp_path / "rep.log").write_bytes(copy[:end])
    reader = reader_of(tmp_path)
    told = reader.read(1 << 16)
    (tmp_path / "rep.log").write_bytes(copy)
    reader = restarted(reader) if restart else reader
    assert (told[-1:], told + reader.read(1 << 16)) == (b"\n", copy)
    (tmp_path / "rep.log.1").write_text("".join(f"{line}\n" for line in PRINTED))
    assert read_with_older(reader) == [b""]


def test_a_log_that_is_rotated_between_two_parts_of_a_line_has_the_line(tmp_path: Path) -> None:
    """It was taken for a line in an unknown layout, and one was said to be lost."""
    copy = "".join(f"{line}\n" for line in ENVELOPES["CRI"](PRINTED)).encode()
    end = copy.index(b"\n", copy.index(b" stdout P ", 1000)) + 1
    write(tmp_path / "broker-1")
    whole, rotated = tmp_path / "broker-1" / "server.log", tmp_path / "broker-1" / "server.log.1"
    whole.write_bytes(copy)
    rows = read_logs([tmp_path], "c").to_pylist()
    whole.write_bytes(copy[end:])
    rotated.write_bytes(copy[:end])
    assert read_logs([tmp_path], "c").to_pylist() == rows


@pytest.mark.parametrize("limit", [50, 700, 1 << 16])
def test_a_part_whose_rest_is_missing_is_a_line_by_itself(limit: int, tmp_path: Path) -> None:
    """A disk was full. The ends of lines behind it were those of others."""
    lines = ENVELOPES["CRI"](PRINTED)
    part = next(k for k, line in enumerate(lines) if " stdout P " in line)
    lines[part + 1] = lines[part + 1][:13]
    log = "".join(f"{line}\n" for line in lines).encode()
    (tmp_path / "rep.log").write_bytes(log)
    reader = reader_of(tmp_path)
    assert b"".join(iter(lambda: reader.read(limit), b"")) == log
    (tmp_path / "rep.log.1").write_bytes(log)
    assert read_with_older(restarted(reader), limit) == [b""]


def test_a_rule_removes_what_stands_before_each_line() -> None:
    """It looks for lines, and not for what stands before them: that takes half the time."""
    beginnings = b'2026-11-20T10:00:00.1Z ~stdout F ~[pod/a] ~kafka-1  | ~<3>1 ~host kafka[12]: ~x ~MESSAGE=~a\tb\t{"'
    bits = [*beginnings.split(b"~"), b"[2026-11-20 10:00:00,1] INFO x (a)", b"A=c\n", b"\n", b"\tat x", b"\r\n", b""]
    texts = [b"".join(one) for one in product(bits, repeat=3)]
    for name, pattern in [(one.name, one.pattern) for one in RULES if not one.replacement]:
        rule = line_rule(name, pattern.pattern.decode().removeprefix("^"), b"")
        assert [rule.apply(text) for text in texts] == [pattern.sub(b"", text) for text in texts], name


def test_lines_of_a_trace_in_an_export_go_by_the_time_of_the_line_before_them() -> None:
    """Docker's own times are UTC, a broker's may be two hours ahead: traces were put two hours before their line."""
    lines = [f"2026-09-01 12:{k:02}:00,000 INFO HW of x (a)" for k in range(30)]
    docker = [
        json.dumps({"log": text, "stream": "stdout", "time": f"2026-09-01T10:{k:02}:00Z"})
        for k, line in enumerate(lines)
        for text in (line, *["\tat kafka"] * (k % 3 == 0))
    ]
    assert order_of("\n".join([*docker, ""]).encode()) is None


@pytest.mark.parametrize("more", [{}, {"time": "2026-11-21T01:30:00Z"}, {"kubernetes": {"pod_name": "kafka-1"}}])
def test_json_without_a_stream_is_no_part_of_a_line_of_dockers(more: dict[str, object]) -> None:
    """All lines of such a file were one, of which the first event was read."""
    lines = (json.dumps({"log": line, **more}) for line in incident())
    assert events("\n".join([*lines, ""]).encode()) == plain_events()


@pytest.mark.parametrize("name", ["logcli", "grep -Hn", "CSV", "kubetail"])
def test_a_copy_whose_lines_hold_those_of_the_log_is_told_once(name: str, tmp_path: Path) -> None:
    """All of it was told twice, without a word, and again in an epoch of its own because of its traces."""
    log, copy = tmp_path / "broker-1" / "server.log", tmp_path / "broker-1" / "copy.log"
    write(log.parent)
    log.write_text("".join(f"{line}\n" for line in PRINTED))
    copy.write_text("".join(f"{INSIDE[name](k, line)}\n" for k, line in enumerate(PRINTED)))
    assert told_hws(tmp_path, [[log], [copy]]) == [*range(110, 401, 10)]
