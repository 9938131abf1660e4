"""Lines that are not as expected: counted, never fatal, and reported as lost."""

import pytest

from generators.brokerlogs.parsing.parser import SourceParser
from tests.unit.brokerlogs.log_lines import (
    FETCHER,
    T0,
    advanced,
    leader,
    line,
    partition,
    plain,
    recorded,
    short,
    skipped,
)


def read(*parts, **settings):
    parser = SourceParser("c", "s", **settings)
    data = b"".join(p if isinstance(p, bytes) else p.encode() for p in parts)
    return parser, plain(parser.feed(data, last=True))


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(b"\x00" * 300 + b"\n", id="zeros"),
        pytest.param(b"\xff\xfe\xfa\n", id="not UTF-8"),
        pytest.param(recorded(2, 15)[:-9].encode() + b"\n", id="a fetch cut short"),
        pytest.param(advanced(0, 15)[:-20].encode() + b"\n", id="a HW cut short"),
        pytest.param(skipped({2: 1, 1: 1})[:-4].encode() + b"\n", id="LEOs cut short"),
        pytest.param(b"9999999999999|t|INFO|kafka.cluster.Partition|x\n", id="a time beyond 2100"),
        pytest.param(recorded(2, 1)[:60].encode() + recorded(2, 1).encode(), id="two lines in one"),
    ],
)
def test_a_broken_line_is_counted_and_reported_to_be_lost(broken):
    parser, rows = read(leader(), recorded(2, 0), broken, broken, recorded(2, 7))
    assert short(rows, "leo") == [("leader", 0), ("fetch", 0), ("lost", None), ("fetch", 7)]
    assert (parser.report.broken, parser.report.lines, parser.report.lost) == (2, 5, 1)


def test_a_stack_trace_belongs_to_the_line_before_it():
    trace = "java.io.IOException: Connection to 3 failed.\n\tat a.B.c(D.scala:7) ~[kafka.jar:?]\n\n\t... 3 more\n"
    parser, rows = read(recorded(2, 0), trace, recorded(2, 1))
    assert [kind for kind, *_ in short(rows)] == ["fetch", "fetch"]
    assert (parser.report.understood, parser.report.broken) == (2, 0)


def test_a_torn_last_line_is_left_out():
    assert len(read(recorded(2, 0), recorded(2, 1)[:-1])[1]) == 1


def test_lines_of_loggers_that_are_not_known_are_counted_by_logger():
    unknown = line("Something else", "com.acme.Authorizer") * 2 + line("And", "kafka.server.NewManager")
    parser, rows = read(unknown, line("Cleaned", "kafka.log.LogCleaner"), recorded(2, 1))
    assert dict(parser.report.ignored) == {"com.acme.Authorizer": 2, "kafka.server.NewManager": 1}
    assert (parser.report.understood, parser.report.aside, len(rows)) == (1, 1, 1)


def test_the_request_log_is_left_aside():
    parser, rows = read(line('Completed request:{"isForwarded":false}', "kafka.request.logger") * 3)
    assert (parser.report.lines, parser.report.ignored, rows) == (3, {}, [])


def test_carriage_returns_are_taken_off():
    assert short(read(recorded(2, 1).replace("\n", "\r\n"))[1], "leo") == [("fetch", 1)]


def test_the_low_watermark_is_the_greatest_time_decided():
    parser = SourceParser("c", "s")
    assert parser.low_watermark == 0
    parser.feed((leader() + recorded(2, 1, ms=30) + advanced(0, 1, ms=40)).encode())
    assert parser.low_watermark == (T0 + 30) * 1000
    parser.flush()
    assert parser.low_watermark == (T0 + 40) * 1000


def test_an_empty_log():
    assert read(b"")[1] == []


CUT = "[Partition orders-1 broker=1] ISR updat"
OTHER = "Something else of no concern"


@pytest.mark.parametrize(
    "glued",
    [
        pytest.param(
            f"[2026-11-21 10:00:00,000] INFO {CUT}[2026-11-21 10:00:00,001] INFO {OTHER} (kafka.server.Other)\n",
            id="stock, the first one cut off",
        ),
        pytest.param(
            f"{T0}|t|INFO|kafka.server.Other|Something el{T0}|t|INFO|kafka.cluster.Partition|{CUT}ed to 1,2\n",
            id="piped, of another logger",
        ),
        pytest.param(
            f"{T0}|t|DEBUG|org.apache.kafka.controller.QuorumController|[QuorumController id=1] Completing purgatory "
            f"items up to offset 30 and epoch 1. {T0}|t|DEBUG|org.apache.kafka.controller.QuorumController|{OTHER}\n",
            id="of the controller, a frequent one",
        ),
        pytest.param(
            f"{T0}|t|INFO|org.apache.kafka.controller.QuorumController|[QuorumController id=1] {OTHER} "
            f"{T0}|t|DEBUG|org.apache.kafka.controller.QuorumController|{OTHER}\n",
            id="of the controller, a rare one",
        ),
    ],
)
def test_a_line_of_another_logger_that_has_two_is_lost(glued):
    parser, rows = read(recorded(2, 0), glued)
    assert [row["event_type"] for row in rows] == ["fetch", "lost"]
    assert parser.report.broken == 1


def test_lines_of_another_broker_in_one_log_are_a_hole_and_take_nothing_from_the_one_before():
    """The HW with which broker 1 began was that of broker 2 as it cut its log, and what lies between was lost."""
    loaded = partition("Log loaded for partition orders-1 with initial high watermark 300")
    cut = (
        "[ReplicaFetcher replicaId=2, leaderId=3, fetcherId=0] Truncating partition orders-1 with TruncationState("
        "offset=120, completed=true) due to leader epoch and offset EpochEndOffset(errorCode=0, partition=1, "
        "leaderEpoch=6, endOffset=120)"
    )
    rows = read(line(loaded), line(cut, FETCHER))[1]
    told = [(row["event_type"], row["broker_id"], row.get("leo"), row.get("detail")) for row in rows]
    detail = "an unknown number of lines: this log has lines of several brokers, and some name none"
    assert told == [("lost", 2, None, detail), ("truncate", 2, 120, None)]
