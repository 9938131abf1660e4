"""LEOs from "All current LEOs": new ones become rows, once."""

from generators.brokerlogs.parsing.parser import SourceParser
from tests.unit.brokerlogs.log_lines import advanced, events, leader, plain, recorded, short, skipped


def reported(*lines):
    return short(events(leader(), recorded(3, 0, thread="z"), *lines)[2:], "replica_id", "leo", "leader_leo")


def test_the_leaders_leo_is_an_append_only_when_it_grew():
    assert reported(skipped({3: 0, 1: 4}), skipped({3: 0, 1: 4}, ms=1), skipped({3: 0, 1: 5}, ms=2)) == [
        ("append", None, None, 4),
        ("append", None, None, 5),
    ]


def test_a_start_offset_is_no_append():
    rows = events(leader(leo=7, hw=7), skipped({2: -1, 1: 7}))
    assert short(rows, "replica_id", "leo") == [("leader", 1, 7), ("replica_leo", 2, -1)]


def test_a_followers_leo_becomes_a_row_when_none_had_it_before():
    assert reported(
        skipped({2: 1, 3: 0, 1: 0}), skipped({2: 1, 3: 0, 1: 0}, ms=900), skipped({2: 2, 3: 0, 1: 0}, ms=999)
    ) == [
        ("replica_leo", 2, 1, None),
        ("replica_leo", 2, 2, None),
    ]


def test_a_leo_of_its_own_fetch_is_not_repeated():
    assert reported(recorded(2, 6, ms=1), skipped({2: 6, 3: 0, 1: 0}, ms=2)) == [("fetch", 2, 6, None)]


def test_an_older_leo_printed_late_by_another_thread_is_not_a_fall():
    assert reported(recorded(2, 6, ms=1), skipped({2: 5, 3: 0, 1: 0}, ms=151, thread="b")) == [("fetch", 2, 6, None)]
    assert reported(recorded(2, 6, ms=1), skipped({2: 5, 3: 0, 1: 0}, ms=152, thread="b")) == [
        ("fetch", 2, 6, None),
        ("replica_leo", 2, 5, None),
    ]


def test_a_new_term_repeats_all_leos():
    rows = events(leader(), recorded(2, 4, ms=1), leader(leo=4, hw=4, epoch=1, ms=2), skipped({2: 4, 1: 4}, ms=3))
    assert short(rows, "replica_id", "leo", "leader_epoch")[2:] == [("leader", 1, 4, 1), ("replica_leo", 2, 4, 1)]


def test_after_a_gap_every_leo_is_repeated():
    parser = SourceParser("c", "s")
    before = leader() + recorded(2, 4, ms=1) + skipped({2: 4, 1: 4}, ms=2)
    parser.feed(before.encode())
    lost = plain(parser.note("lost", "the rest of a.log.gz cannot be read"))[-1]
    assert (lost["event_type"], lost["partition"], lost["detail"]) == (
        "lost",
        -1,
        "the rest of a.log.gz cannot be read",
    )
    after = plain(parser.feed(skipped({2: 4, 1: 4}, ms=3).encode(), last=True))
    assert short(after, "replica_id", "leo", "leader_leo") == [("replica_leo", 1, 4, 4), ("replica_leo", 2, 4, None)]


def test_the_term_is_known_from_its_leader_line_on():
    rows = events(recorded(2, 1), leader(epoch=3, ms=1), advanced(0, 1, ms=2))
    assert short(rows, "leader_id", "leader_epoch", "partition_epoch", "topic_id") == [
        ("fetch", 1, None, None, None),
        ("leader", 1, 3, 3, "8x30CauwR6S1Ou0qiySY3A"),
        ("hw", 1, 3, 3, "8x30CauwR6S1Ou0qiySY3A"),
    ]


def test_sets_of_older_and_newer_versions():
    java = recorded(3, 0, thread="z") + skipped({2: 1, 1: 4}).replace("Set(", "[").replace("]))", "])]")
    no_comma = skipped({2: 1, 1: 4}).replace(", segment", " segment")
    for text in (java, no_comma):
        assert ("append", 4) in short(events(text), "leader_leo")
        assert ("replica_leo", 2, 1) in short(events(text), "replica_id", "leo")
