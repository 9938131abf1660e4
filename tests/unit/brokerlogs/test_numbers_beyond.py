"""A number that no column has room for, anywhere in a line: that line is not understood, and nothing is raised."""

import gzip
import re

import pytest

from generators.brokerlogs.parsing.parser import SourceParser
from generators.recordings import traces
from schemas import replication_events

pytestmark = pytest.mark.long

NUMBER = re.compile(r"(?<![\w.-])\d+(?![\w.])")


def shapes():
    """A line of each shape that recorded logs have, once."""
    found = {}
    for name in traces.scenarios():
        for file in sorted(traces.path(name).glob("*/*.log.gz")):
            for line in gzip.decompress(file.read_bytes()).decode(errors="replace").splitlines():
                head, bar, message = line.rpartition("|")
                if bar and head.split("|")[0].isdigit():
                    found.setdefault(NUMBER.sub("0", re.sub(r"[A-Za-z0-9_-]{22}", "ID", message)), (head, message))
    return list(found.values())


@pytest.mark.sampled(4)
@pytest.mark.parametrize("beyond", [1 << 31, (1 << 63) - 1, 1 << 63, 10**30])
def test_no_number_of_a_line_ends_the_reading(beyond):
    lines = []
    for head, message in shapes():
        for place in NUMBER.finditer(message):
            lines.append(f"{head}|{message[: place.start()]}{beyond}{message[place.end() :]}\n")
    assert len(lines) > 100
    parser = SourceParser("c", "s")
    for line in lines:
        events = parser.feed(line.encode())
        assert set(events.column_names) <= set(replication_events.ARROW.names)
    parser.feed(b"", last=True)
    SourceParser.restore(parser.snapshot())
