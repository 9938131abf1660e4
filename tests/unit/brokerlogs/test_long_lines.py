"""Lines without an end, blocks of NUL bytes, millions of empty lines: little memory, the loss is reported, and reading
continues after them."""

import random
from time import process_time

import pyarrow as pa
import pytest

from generators.brokerlogs.parsing.parser import SourceParser
from generators.brokerlogs.scanning import fetch_grouping
from generators.brokerlogs.scanning.line_record import LONGEST
from tests.unit.brokerlogs.log_lines import CONTROLLER, STATE, T0, leader, line, plain, recorded, short

pytestmark = pytest.mark.long

HELD = 3 * LONGEST
"""A snapshot holds no more than this of a log however its lines are."""


def fed(data, parser=None, size=1 << 20):
    parser = parser or SourceParser("c", "s")
    parts = [parser.feed(data[at : at + size]) for at in range(0, len(data), size)]
    return parser, pa.concat_tables([*parts, parser.feed(b"", last=True)])


def waiting(parser):
    """Bytes of the log that a parser keeps."""
    return len(parser._waiting) + len(parser._whole_lines.rest)


@pytest.mark.parametrize("filling", [b"x", b"\0"], ids=["text", "zeros"])
@pytest.mark.parametrize("longer", [0, 1, 5 * LONGEST])
def test_a_line_longer_than_the_longest_is_broken_and_reported_to_be_lost(filling, longer):
    start = line("").encode()[:-1]
    overlong = start + filling * (LONGEST - len(start) + longer) + b"\n"
    data = (leader() + recorded(2, 0)).encode() + overlong + recorded(2, 7).encode()
    parser, rows = fed(data)
    kinds = [kind for kind, _ in short(plain(rows), "leo")]
    assert kinds == ["leader", "fetch", "lost", "fetch"]
    assert (parser.report.lines, parser.report.lost) == (4, 1)
    if longer:
        assert parser.report.overlong == 1
        assert parser.report.broken == 1


@pytest.mark.parametrize("before", [leader(), recorded(2, 0)], ids=["waiting for its level", "decided"])
def test_a_line_of_no_end_fills_no_memory_whatever_stands_before_it(before):
    parser = SourceParser("c", "s")
    parser.feed(before.encode())
    for _ in range(20):
        parser.feed(b"x" * LONGEST)
        assert waiting(parser) <= LONGEST + len(before)
    rows = plain(parser.feed(b"\n" + recorded(2, 1).encode(), last=True))
    assert short(rows, "leo")[-1] == ("fetch", 1)
    assert (parser.report.overlong, parser.report.broken) == (1, 1)


def test_any_cut_of_an_overlong_line_gives_the_same_events():
    long = b"1795224426000|t|x" + b"x" * (LONGEST + 5) + b"\r\n"
    data = b"".join([leader().encode(), long, recorded(2, 1).encode(), long, long, recorded(2, 2, ms=9).encode(), long])
    whole, expected = fed(data, size=len(data))
    assert whole.report.overlong == 4
    chance = random.Random(5)
    for _ in range(3):
        parser, parts, at = SourceParser("c", "s"), [], 0
        while at < len(data):
            size = chance.choice([1, 100, 300_000, LONGEST, LONGEST + 1])
            parts.append(parser.feed(data[at : at + size]))
            at += size
            parser = SourceParser.restore(parser.snapshot())
        parts.append(parser.feed(b"", last=True))
        assert pa.concat_tables(parts).combine_chunks().equals(expected.combine_chunks())
        assert parser.report == whole.report


def test_a_block_of_zeros_in_the_middle_costs_the_line_it_stands_before():
    """As a file system leaves it after a power failure."""
    data = recorded(2, 0).encode() + b"\0" * 4096 + recorded(2, 1).encode() + recorded(2, 2).encode()
    parser, rows = fed(data)
    assert short(plain(rows), "leo") == [("fetch", 0), ("lost", None), ("fetch", 2)]
    assert parser.report.broken == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("before", [leader(), recorded(2, 0)], ids=["waiting for its level", "decided"])
def test_a_million_empty_lines(before):
    parser = SourceParser("c", "s")
    parser.feed(before.encode())
    for _ in range(4):
        parser.feed(b"\n" * 250_000)
        assert waiting(parser) <= fetch_grouping.AHEAD_LINES + len(before)
    rows = plain(parser.feed(recorded(2, 1, ms=1).encode(), last=True))
    assert short(rows, "leo")[-1] == ("fetch", 1)
    assert parser.report.lines == 1_000_002
    assert parser.report.lost == 0


WAITERS = {
    "a level": leader(),
    "a fetch": recorded(2, 0) + line(f"[Partition orders-1 broker=1] {'Submitting ISR state change'} x", ms=1),
    "a number": recorded(2, 0, sn=1) + recorded(2, 1, sn=9),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("waiter", WAITERS.values(), ids=WAITERS.keys())
def test_a_decision_looks_ahead_by_no_more_than_so_many_lines_however_they_are_cut(waiter, monkeypatch):
    stack = "\tat a.B.c(D.scala:7)\n" * (fetch_grouping.AHEAD_LINES + 3)
    data = (waiter + stack + recorded(2, 5, ms=1, sn=8 if "|9|" in waiter else None)).encode()
    whole, expected = fed(data, size=len(data))
    parser, got = fed(data, size=900_001)
    assert got.combine_chunks().equals(expected.combine_chunks())
    assert parser.report == whole.report
    unfinished = SourceParser("c", "s")
    unfinished.feed((waiter + stack).encode())
    assert unfinished.low_watermark >= T0 * 1000
    assert waiting(unfinished) < len(stack)


def test_a_decision_looks_ahead_by_no_more_than_so_many_bytes():
    parser, filler = SourceParser("c", "s"), ("\tat " + "x" * (LONGEST - 10) + "\n").encode()
    parser.feed(leader().encode())
    for _ in range(fetch_grouping.AHEAD_BYTES // len(filler) + 3):
        parser.feed(filler)
    assert waiting(parser) <= fetch_grouping.AHEAD_BYTES + LONGEST
    assert parser.low_watermark >= T0 * 1000


LONG = {"a word": "x", "hyphens": "-", "a number": "1", "hyphened": "a-", "partitions": "a-1,"}


@pytest.mark.parametrize("logger", [STATE, CONTROLLER])
@pytest.mark.parametrize("text", LONG.values(), ids=LONG.keys())
def test_a_long_line_of_evidence_in_unknown_words_is_reported_to_be_lost_in_no_time(logger, text):
    """A pattern that takes the square of the length of a line reads such a one for hours."""
    parser, message = SourceParser("c", "s", broker_id=1), text * (1_000_000 // len(text))
    rows = plain(parser.feed(line(message, logger).encode(), last=True))
    assert [row["event_type"] for row in rows] == ["lost"]
    assert len(rows[0]["detail"]) < 300


@pytest.mark.nightly
def test_time_grows_with_the_number_of_lines_of_one_kind():
    def seconds(count):
        lines = "".join(
            f"{1795600000000 + k // 100}|h|INFO|state.change.logger|[Broker id=1] Creating new partition "
            f"topic{k // 10}-{k % 10} with topic id 8x30CauwR6S1Ou{k // 10:06d}SY\n"
            for k in range(count)
        ).encode()
        parser, begun = SourceParser("c", "s", broker_id=1), process_time()
        parser.feed(lines)
        parser.flush()
        return process_time() - begun

    seconds(1_000)
    assert min(seconds(8_000) for _ in range(2)) < 9 * min(seconds(2_000) for _ in range(2)), "a square would be 16"
