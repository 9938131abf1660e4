"""Copies of a log in other envelopes hold the same lines: each is told once."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from generators.brokerlogs.discovery.streams import order_of
from generators.brokerlogs.forms.envelopes import bare_lines
from tests.unit.field.test_forms import ENVELOPES, INSIDE, LAYOUTS, events, headers, incident, plain_events
from tests.unit.ingest.test_excerpts import FAILED, LINES
from tests.unit.ingest.test_windows import told_hws, write

PRINTED = [one for k, line in enumerate(LINES) for one in (line + FAILED * (k % 7 == 3)).splitlines()]
OTHERS = [("CRI", None), ("journald export", None), ("stern", "epoch"), ("stern", "level before the time")]
"""Envelopes of more lines than they hold, here, and those that are not read, either."""
Calls = Callable[[Path, Path], list[list[Path]]]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_lines_are_the_same_in_every_envelope(layout: str) -> None:
    lines = [line if isinstance(line, str) else LAYOUTS[layout](line) for line in headers(incident())]
    plain = "\n".join([*lines, ""]).encode()
    assert bare_lines(plain) == plain
    for name, envelope in ENVELOPES.items():
        if not {(name, None), (name, layout)} & {*OTHERS}:
            assert bare_lines("\n".join([*envelope(lines), ""]).encode().removeprefix(b"\xef\xbb\xbf")) == plain, name


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param(lambda log, copy: [[log], [copy]], id="log first"),
        pytest.param(lambda log, copy: [[copy], [log]], id="copy first"),
        pytest.param(lambda log, copy: [[log, copy]], id="both"),
    ],
)
@pytest.mark.parametrize("envelope", ["CRLF and BOM", "kubectl --timestamps", "docker compose", "docker json-file"])
@pytest.mark.parametrize("name", ["server.log.1", "copy/server.log", "k8s.log"])
def test_a_copy_in_another_envelope_is_told_once(name: str, envelope: str, calls: Calls, tmp_path: Path) -> None:
    """Its lines were told twice without a word."""
    log, copy = tmp_path / "broker-1" / "server.log", tmp_path / "broker-1" / name
    for path, lines in ((log, PRINTED), (copy, ENVELOPES[envelope](PRINTED[: 9 * len(PRINTED) // 10]))):
        write(path.parent)
        path.write_text("".join(f"{line}\n" for line in lines))
    assert told_hws(tmp_path, calls(log, copy)) == [*range(110, 401, 10)]


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
