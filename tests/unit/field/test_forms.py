"""One incident in every layout and envelope: the same events, whatever its lines come in."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from generators.brokerlogs.parsing.parser import SourceParser
from tests.unit.field.cases import unpack

_STOCK = re.compile(r"\[(\S+) (\S+),(\d{3})\] ([A-Z]+) (.*) \(([\w.$]+)\)$")
BERLIN = timezone(timedelta(hours=1))
Line = tuple[datetime, str, str, str]
"""Time, level, message, logger."""


@lru_cache
def incident() -> tuple[str, ...]:
    """The old leader's lines, as Kafka prints them."""
    with TemporaryDirectory() as folder:
        return tuple((unpack("18-flat-txt", Path(folder)) / "kafka-0.txt").read_text().splitlines())


def headers(lines: tuple[str, ...]) -> list[Line | str]:
    """Lines with a header taken apart, others as they are."""
    found: list[Line | str] = []
    for line in lines:
        match = _STOCK.match(line)
        if match is None:
            found.append(line)
            continue
        moment = datetime.fromisoformat(f"{match[1]}T{match[2]}.{match[3]}").replace(tzinfo=UTC)
        found.append((moment, match[4], match[5], match[6]))
    return found


def _iso(moment: datetime, text: str) -> str:
    return moment.strftime(text).replace("MILLIS", f"{moment.microsecond // 1000:03}")


def _plain(pattern: str, time: str = "%Y-%m-%d %H:%M:%S,MILLIS") -> Callable[[Line], str]:
    def write(line: Line) -> str:
        moment, level, message, logger = line
        return pattern.format(d=_iso(moment, time), p=level, m=message, c=logger)

    return write


def _ecs(line: Line) -> str:
    moment, level, message, logger = line
    return json.dumps({
        "@timestamp": _iso(moment, "%Y-%m-%dT%H:%M:%S.MILLISZ"), "log.level": level, "message": message,
        "log.logger": logger, "process.thread.name": "main",
    })  # fmt: skip


def _json_layout(line: Line) -> str:
    moment, level, message, logger = line
    instant = {"epochSecond": int(moment.timestamp()), "nanoOfSecond": moment.microsecond * 1000}
    return json.dumps({"instant": instant, "thread": "main", "level": level, "loggerName": logger, "message": message})


def _logstash(line: Line) -> str:
    moment, level, message, logger = line
    stamp = _iso(moment, "%Y-%m-%dT%H:%M:%S.MILLISZ")
    return json.dumps({"@timestamp": stamp, "@version": 1, "message": message, "logger_name": logger, "level": level})


LAYOUTS: dict[str, Callable[[Line], str]] = {
    "stock": _plain("[{d}] {p} {m} ({c})"),
    "strimzi, log4j 1": _plain("{d} {p} {m} ({c}) [main]"),
    "strimzi, log4j 2": _plain("{d} {p} [main] {m} ({c})"),
    "thread at the end": _plain("[{d}] {p} {m} ({c}) [main]"),
    "thread before the message": _plain("[{d}] {p} [main] {m} ({c})"),
    "padded level": _plain("[{d}] {p:<5} {m} ({c})"),
    "line number": _plain("[{d}] {p} {m} ({c}:77)"),
    "confluent's operator": _plain("[{p}] {d} [main] {c} run - {m}"),
    "classic": _plain("{d} [main] {p:<5} {c} - {m}"),
    "logger before a colon": _plain("{d} {p} {c}: {m}"),
    "T and Z": _plain("[{d}] {p} {m} ({c})", "%Y-%m-%dT%H:%M:%S.MILLISZ"),
    "dot": _plain("[{d}] {p} {m} ({c})", "%Y-%m-%d %H:%M:%S.MILLIS"),
    "zone's name": _plain("[{d}] {p} {m} ({c})", "%Y-%m-%d %H:%M:%S,MILLIS UTC"),
    "epoch": lambda line: f"{int(line[0].timestamp() * 1000 + 0.5)} {line[1]} {line[2]} ({line[3]})",
    "offset": lambda line: _plain("[{d}] {p} {m} ({c})", "%Y-%m-%dT%H:%M:%S,MILLIS+0100")(
        (line[0].astimezone(BERLIN), *line[1:])
    ),
    "ECS": _ecs,
    "log4j's JsonLayout": _json_layout,
    "logstash": _logstash,
}
STAMP = "2026-11-21T01:30:00.123456789Z"


def _json(text: Callable[[datetime, str, str, str], dict[str, Any]]) -> Callable[[Line], str]:
    return lambda line: json.dumps(text(*line))


LAYOUTS |= {
    "level before the time": _plain("{p} [{d}] {m} ({c})"),
    "first letters of packages": lambda line: LAYOUTS["stock"]((
        *line[:3], ".".join([*(part[0] for part in line[3].split(".")[:-1]), line[3].split(".")[-1]])
    )),
    "the class alone": lambda line: LAYOUTS["stock"]((*line[:3], line[3].split(".")[-1])),
    "the class alone, in JSON": lambda line: _ecs((*line[:3], line[3].split(".")[-1])),
    "GELF": _json(lambda d, p, m, c: {
        "version": "1.1", "host": "h", "short_message": m, "timestamp": d.timestamp(), "level": 6, "_logger": c
    }),
    "Google's": _json(lambda d, p, m, c: {"timestamp": f"{d:%FT%T}.{d.microsecond // 1000:03}Z", "severity": p,
                                          "jsonPayload": {"message": m, "logger": c}}),
}  # fmt: skip
INSIDE: dict[str, Callable[[int, str], str]] = {
    "logcli": lambda k, line: f'{STAMP} {{pod="kafka-0", app="kafka"}} {line}',
    "Grafana's text": lambda k, line: f"1795224502973000000\t{STAMP}\t{line}",
    "journalctl -o short-full": lambda k, line: f"Sat 2026-11-21 01:30:00 UTC host kafka[77]: {line}",
    "journalctl -o json-pretty": lambda k, line: json.dumps({"_PID": "77", "MESSAGE": line}, indent=8),
    "syslog, RFC 5424": lambda k, line: f'<14>1 {STAMP} host kafka 77 - [meta id="1"] {line}',
    "kubetail": lambda k, line: f"[kafka-0] {line}",
    "stern with a namespace": lambda k, line: f"prod kafka-0 kafka {line}",
    "docker service": lambda k, line: f"prod_kafka.1.abc@node1    | {line}",
    "fluentd": lambda k, line: f"{STAMP}\tkube.kafka\t" + json.dumps({"log": line, "stream": "stdout", "tag": "k"}),
    "Elasticsearch": lambda k, line: json.dumps({"_id": "x", "_source": {"message": line}}),
    "Splunk": lambda k, line: json.dumps({"result": {"_raw": line, "_time": STAMP}}),
    "aws logs filter-log-events": lambda k, line: json.dumps({"timestamp": 1, "message": line}, indent=4) + ",",
    "CSV": lambda k, line: f'"{STAMP}","' + line.replace('"', '""') + '"',
    "grep -Hn": lambda k, line: f"kafka-0/server.log:{k}:{line}",
    "cat -n": lambda k, line: f"{k:6}\t{line}",
}


def _docker(lines: list[str]) -> list[str]:
    return [json.dumps({"log": line + "\n", "stream": "stdout", "time": STAMP}) for line in lines]


def _cri(lines: list[str]) -> list[str]:
    """Long lines come in two parts."""
    parts = [(line[:200], line[200:]) for line in lines]
    return [
        text
        for a, b in parts
        for text in ([f"{STAMP} stdout P {a}", f"{STAMP} stdout F {b}"] if b else [f"{STAMP} stdout F {a}"])
    ]


def _each(text: str) -> Callable[[list[str]], list[str]]:
    return lambda lines: [text.replace("LINE", line) for line in lines]


ENVELOPES: dict[str, Callable[[list[str]], list[str]]] = {
    "none": lambda lines: lines,
    "kubectl --timestamps": _each(f"{STAMP} LINE"),
    "kubectl --prefix": _each("[pod/kafka-0/kafka] LINE"),
    "kubectl --prefix --timestamps": _each(f"[pod/kafka-0/kafka] {STAMP} LINE"),
    "stern": _each("kafka-0 kafka LINE"),
    "docker compose": _each("kafka-1  | LINE"),
    "docker json-file": _docker,
    "CRI": _cri,
    "syslog": _each("<14>Nov 21 01:30:00 host kafka[77]: LINE"),
    "journald short-iso": _each("2026-11-21T01:30:00+0000 host kafka[77]: LINE"),
    "journald export": lambda lines: [
        text for line in lines for text in ("__CURSOR=s=1", "_PID=77", f"MESSAGE={line}", "")
    ],
    "journald JSON": lambda lines: [json.dumps({"MESSAGE": line, "__REALTIME_TIMESTAMP": "1"}) for line in lines],
    "Loki": lambda lines: [
        json.dumps({"labels": {"pod": "kafka-0"}, "line": line, "timestamp": STAMP}) for line in lines
    ],
    "CloudWatch": lambda lines: [json.dumps({"timestamp": 1, "message": line, "ingestionTime": 2}) for line in lines],
    "ANSI": _each("\x1b[32mLINE\x1b[0m"),
    "CRLF and BOM": lambda lines: [("\ufeff" if not k else "") + line + "\r" for k, line in enumerate(lines)],
    "docker json-file in kubectl": lambda lines: _each(f"{STAMP} LINE")(_docker(lines)),
}
PAIRS = [
    (layout, envelope)
    for layout, envelope in product(LAYOUTS, ENVELOPES)
    if layout in ("stock", "ECS", "strimzi, log4j 1") or envelope == "none"
]


def events(data: bytes, **settings: Any) -> list[dict[str, Any]]:
    """Events that say the same whatever the lines came in."""
    parser = SourceParser("c", "s", **settings)
    return [*parser.feed(data).to_pylist(), *parser.feed(b"", last=True).to_pylist()]


@lru_cache
def plain_events() -> list[dict[str, Any]]:
    return events("\n".join([*incident(), ""]).encode())


@pytest.mark.parametrize(("layout", "envelope"), PAIRS)
def test_an_incident_gives_the_same_events_in_every_layout_and_envelope(layout: str, envelope: str) -> None:
    lines = [line if isinstance(line, str) else LAYOUTS[layout](line) for line in headers(incident())]
    assert events("\n".join([*ENVELOPES[envelope](lines), ""]).encode()) == plain_events()


@pytest.mark.parametrize("envelope", INSIDE.values(), ids=INSIDE)
def test_lines_inside_lines_are_read_up_to_their_logger(envelope: Callable[[int, str], str]) -> None:
    lines = (envelope(k, line) for k, line in enumerate(incident()))
    assert events("\n".join([*lines, ""]).encode()) == plain_events()


def test_loggers_in_short_are_found_by_the_first_lines_whatever_they_are() -> None:
    text = "[2026-11-20 10:00:01,000] INFO [Controller id=3] Newly added brokers: 2, deleted brokers: , all live (%s)\n"
    short, full = (events((text % name).encode()) for name in ("KafkaController", "kafka.controller.KafkaController"))
    assert short == full != []


def test_several_lines_in_one_are_each_read() -> None:
    line = json.dumps({"values": [[str(k), text] for k, text in enumerate(incident())]})
    assert events(f"{line}\n".encode()) == plain_events()


DATES = {
    "[%d{yyyy/MM/dd HH:mm:ss.SSS}] %p %m (%c)": "[%Y/%m/%d %H:%M:%S.MILLIS]",
    "[%d{MM/dd/yyyy HH:mm:ss,SSS}] %p %m (%c)": "[%m/%d/%Y %H:%M:%S,MILLIS]",
    "[%d{DATE}] %p %m (%c)": "[%d %b %Y %H:%M:%S,MILLIS]",
    "[%d{ISO8601_BASIC}] %p %m (%c)": "[%Y%m%dT%H%M%S,MILLIS]",
    "[%d{yyyy-MM-dd'T'HH:mm:ss.SSSX}{UTC}] %p %m (%c)": "[%Y-%m-%dT%H:%M:%S.MILLISZ]",
}


@pytest.mark.parametrize("pattern", DATES)
def test_a_pattern_says_how_times_are_printed(pattern: str) -> None:
    lines = [
        line if isinstance(line, str) else f"{_iso(line[0], DATES[pattern])} {line[1]} {line[2]} ({line[3]})"
        for line in headers(incident())
    ]
    assert events("\n".join([*lines, ""]).encode(), layout=pattern) == plain_events()


def test_a_month_in_another_language_is_no_time() -> None:
    """It ended the call with a ValueError."""
    line = (
        b"[21 Mai 2026 01:30:00,000] INFO [Controller id=3] Newly added brokers: 2 (kafka.controller.KafkaController)\n"
    )
    assert events(line, layout="[%d{DATE}] %p %m (%c)") == []


def test_a_layout_that_changes_within_a_file_is_found_anew() -> None:
    lines = headers(incident())
    forms = [LAYOUTS["stock"], LAYOUTS["ECS"], LAYOUTS["strimzi, log4j 1"]]
    third = len(lines) // 3 + 1
    written = [line if isinstance(line, str) else forms[k // third](line) for k, line in enumerate(lines)]
    assert events("\n".join([*written, ""]).encode()) == plain_events()


def test_a_layout_that_is_not_found_is_read_as_its_pattern_says() -> None:
    odd = [
        line
        if isinstance(line, str)
        else f"<<{line[3]}>> {_iso(line[0], '%Y-%m-%d %H:%M:%S,MILLIS')} ~{line[1]}~ {line[2]}"
        for line in headers(incident())
    ]
    data = "\n".join([*odd, ""]).encode()
    assert events(data) == []
    assert events(data, layout="<<%c>> %d ~%p~ %m%n") == plain_events()


def test_a_line_cut_between_two_reads_is_read_as_a_whole() -> None:
    lines = [line if isinstance(line, str) else LAYOUTS["stock"](line) for line in headers(incident())]
    data = "\n".join([*_cri(lines), ""]).encode()
    parser, rows = SourceParser("c", "s"), list[dict[str, Any]]()
    for begin in range(0, len(data), 7001):
        rows += parser.feed(data[begin : begin + 7001]).to_pylist()
        parser = SourceParser.restore(parser.snapshot())
    assert rows + parser.feed(b"", last=True).to_pylist() == plain_events()


def test_the_first_line_of_what_is_not_understood_is_shown_without_secrets() -> None:
    parser = SourceParser("c", "s")
    parser.feed(b"\nsasl.password=hunter2, user=u " + b"x" * 200 + b"\n")
    assert parser.report.first_line.startswith("sasl.password=***, user=u x")
    assert len(parser.report.first_line) == 120


def events_of(*pieces: str) -> list[dict[str, Any]]:
    """What a parser makes of these pieces of one log, fed at once."""
    parser = SourceParser("c", "broker-0/server.log", broker_id=0)
    return parser.feed("".join(pieces).encode(), last=True).to_pylist()


FILLING = "[2026-11-20 09:00:00,000] INFO Rolled new log segment at offset 7 in 2 ms. (kafka.log.Log)\n" * 2_000
"""More than 64 KiB in the stock pattern."""
ISR = "[2026-11-20 10:00:01,000] INFO [Partition orders-1 broker=0] ISR updated to 0,1  and version updated to 7 "
DEEP = {
    "padded levels": ISR.replace(" INFO ", " INFO  ") + "(kafka.cluster.Partition)\n",
    "line numbers": ISR + "(kafka.cluster.Partition:70)\n",
    "threads": ISR.replace(" INFO ", " INFO [data-plane-1] ") + "(kafka.cluster.Partition)\n",
    "another layout": "2026-11-20 10:00:01,000 INFO kafka.cluster.Partition: "
    + ISR.partition(" INFO ")[2].rstrip()
    + "\n",
}
JUNK = "".join(f"10:00:00 garbage collection {k} took a while\n" for k in range(500))


@pytest.mark.parametrize("change", DEEP.values(), ids=DEEP.keys())
@pytest.mark.parametrize("between", ["", JUNK], ids=["", "lines that nothing fits between"])
def test_a_change_of_layout_deep_in_a_piece_is_found(change: str, between: str) -> None:
    told = events_of(FILLING, between, change)
    assert [row["isr"] for row in told if row["event_type"] == "isr"] == [[0, 1]]
    assert not [row for row in told if row["event_type"] == "lost"]


def test_lines_that_tell_of_replication_in_no_known_layout_are_lost() -> None:
    unknown = "at 10:00:01 <kafka> {[Partition orders-1 broker=0] ISR updated to 0,1}\n"
    told = events_of(FILLING, JUNK, unknown * 3)
    assert [row["detail"] for row in told if row["event_type"] == "lost"] == [
        f"3 lines in a layout that is not known, the first: {unknown.rstrip()}"
    ]
