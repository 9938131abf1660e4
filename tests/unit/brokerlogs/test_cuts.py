"""Events do not depend on how the bytes were cut, nor on being stopped and restored in between."""

import gzip
import random

import pyarrow as pa
import pytest

from generators.brokerlogs.parsing.parser import SourceParser
from generators.recordings import traces
from tests.simulated import cut_traces
from tests.unit.brokerlogs.log_lines import recorded

SOURCES = [
    pytest.param("unclean_election", "broker-1/replication.log.gz", 400_000, id="replication"),
    pytest.param("leader_crash", "broker-2/controller.log.gz", None, id="controller"),
    pytest.param("unclean_election", "broker-1/fetcher.log.gz", None, id="fetcher"),
    pytest.param("unclean_election", "metadata.dump.gz", None, id="metadata"),
]


def trace(scenario, file, size=None):
    with gzip.open(traces.path(scenario) / file) as opened:
        return opened.read(size or -1)


def in_parts(data, seed, start, *, restore):
    chance, parser, parts, at = random.Random(seed), start(), [], 0
    while at < len(data):
        size = chance.choice([1, 70, 700, 9_000, 60_000])
        parts.append(parser.feed(data[at : at + size]))
        at += size
        if restore and chance.random() < 0.3:
            parser = SourceParser.restore(parser.snapshot())
    parts.append(parser.feed(b"", last=True))
    return pa.concat_tables(parts).combine_chunks(), parser


@pytest.mark.parametrize("restore", [False, True], ids=["cut", "restored"])
@pytest.mark.parametrize(("scenario", "file", "size"), SOURCES)
def test_any_cut_gives_the_same_events(scenario, file, size, restore):
    data = trace(scenario, file, size)
    whole = SourceParser("c", "s", broker_id=1)
    expected = whole.feed(data, last=True).combine_chunks()
    for seed in range(3):
        got, parser = in_parts(data, seed, lambda: SourceParser("c", "s", broker_id=1), restore=restore)
        assert got.equals(expected), f"seed {seed}"
        assert parser.report == whole.report, f"seed {seed}"
        assert parser.low_watermark == whole.low_watermark, f"seed {seed}"


@pytest.mark.parametrize("cut", [cut_traces.lean, cut_traces.info])
def test_so_do_lower_levels(cut):
    text = trace("unclean_election", "broker-3/replication.log.gz").decode().splitlines(keepends=True)
    data = "".join(cut(text)).encode()
    expected = SourceParser("c", "s").feed(data, last=True).combine_chunks()
    for seed in range(3):
        assert in_parts(data, seed, lambda: SourceParser("c", "s"), restore=True)[0].equals(expected), f"seed {seed}"


def test_numbered_lines_with_holes():
    chance = random.Random(3)
    numbers = [n for n in range(1, 5000) if chance.random() > 0.001]
    for _ in range(300):
        at = chance.randrange(len(numbers) - 40)
        numbers.insert(at + chance.randrange(40), numbers.pop(at))
    data = "".join(recorded(2, 1, sn=n, ms=3 * k, thread=f"t{n % 5}") for k, n in enumerate(numbers)).encode()
    whole = SourceParser("c", "s")
    expected = whole.feed(data, last=True).combine_chunks()
    assert whole.report.lost > 0
    for seed in range(5):
        assert in_parts(data, seed, lambda: SourceParser("c", "s"), restore=True)[0].equals(expected), f"seed {seed}"


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_snapshot_of_another_version_is_refused_by_name(version):
    import json
    import zlib

    held = json.loads(zlib.decompress(SourceParser("c", "s").snapshot()))
    with pytest.raises(ValueError, match=f"has version {version}, and this hwmark reads 3: remove"):
        SourceParser.restore(zlib.compress(json.dumps(held | {"version": version}).encode()))


@pytest.mark.parametrize("scenario", traces.scenarios())
def test_every_hw_change_of_the_traces_has_a_row(scenario):
    hws = 0
    for broker in (1, 2, 3):
        rows = SourceParser("c", "s").feed(trace(scenario, f"broker-{broker}/replication.log.gz"), last=True)
        hws += rows["event_type"].to_pylist().count("hw")
    assert hws == {"slow_follower": 2761, "leader_crash": 4882, "unclean_election": 1915}[scenario]
