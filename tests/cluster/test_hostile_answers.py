"""Answers of no broker at a broker's address, with lengths and ids that overflow: a line each, and nothing ends."""

import pytest

from tests.cluster.fake_kafka import FakeCluster
from tests.cluster.watching import watching

NEVER_ENDS = b"\xff" * 9 + b"\x7f"
ANSWERS = {
    "a length below 0": b"\xff\xff\xff\xff",
    "the longest length": b"\x7f\xff\xff\xff",
    "no bytes": b"\x00\x00\x00\x00",
    "an id that nobody asked by": b"\x00\x00\x00\x08\x7f\xff\xff\xff\xff\xff\xff\xff",
    "a number without end": b"\x00\x00\x00\x20" + NEVER_ENDS * 4,
}


@pytest.fixture
def cluster():
    with FakeCluster() as fake:
        fake.topic("orders", [1, 2, 3], [2, 3, 1])
        yield fake


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_a_length_or_id_that_overflows_is_one_line(cluster, tmp_path, answer):
    with watching(cluster, tmp_path) as watcher:
        watcher.rounds(2)
        cluster.brokers[3].garbage = answer
        watcher.until(lambda: watcher.noted("broker 3 does not answer"))
        watcher.rounds(1)
        assert sum("broker 3 does not answer" in line for line in watcher.notes) == 1
        assert all(len(line.splitlines()) == 1 for line in watcher.notes)
        cluster.brokers[3].garbage = b""
        watcher.rounds(2)
    assert watcher.error is None
