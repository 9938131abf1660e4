"""A replica's log: runs, epochs, cuts."""

import pytest

from generators.simulator.cluster.log import Batch, ReplicaLog, Run


def two_epochs() -> ReplicaLog:
    """Ten records of epoch 0, then five of epoch 2."""
    log = ReplicaLog()
    log.begin_epoch(0)
    log.append(10, epoch=0, term=1)
    log.begin_epoch(2)
    log.append(5, epoch=2, term=2)
    return log


def test_appends_of_one_term_are_one_run() -> None:
    log = two_epochs()
    log.append(3, epoch=2, term=2)
    assert log.runs == [Run(0, 10, 0, 1), Run(10, 18, 2, 2)]


def test_a_batch_stays_whole() -> None:
    log, batch = two_epochs(), Batch(7, 0, 0)
    log.append(4, 2, 2, batch)
    log.append(4, 2, 2, Batch(7, 0, 4))
    assert log.read(15, 3) == [Run(15, 19, 2, 2, batch)]
    assert [r.start for r in log.read(12, 8)] == [12, 15]


def test_a_read_is_no_longer_than_asked_for() -> None:
    assert two_epochs().read(8, 4) == [Run(8, 10, 0, 1), Run(10, 12, 2, 2)]


def test_what_is_fetched_continues_the_log() -> None:
    log = ReplicaLog()
    log.extend(two_epochs().read(0, 99))
    assert (log.leo, log.epochs) == (15, [(0, 0), (2, 10)])
    with pytest.raises(ValueError, match="a run from 3 does not continue a log that ends at 15"):
        log.extend([Run(3, 4, 2, 2)])


@pytest.mark.parametrize(
    ("epoch", "found"), [(2, (2, 15)), (1, (0, 10)), (0, (0, 10)), (3, None)],
    ids=["the latest ends at the LEO", "between two", "an earlier one", "above all"],
)  # fmt: skip
def test_where_an_epoch_ended(epoch: int, found: tuple[int, int] | None) -> None:
    assert two_epochs().end_of(epoch) == found


def test_below_every_known_epoch_the_first_one_begins() -> None:
    log = ReplicaLog()
    log.extend([Run(0, 4, 5, 1)])
    assert log.end_of(3) == (3, 0)


def test_a_cut_at_the_end_forgets_an_epoch_in_which_nothing_was_written() -> None:
    """A follower that led in vain would be told by every later leader that it diverges."""
    log = two_epochs()
    log.begin_epoch(3)
    log.truncate(15)
    assert (log.leo, log.last_epoch) == (15, 2)


def test_a_cut_forgets_epochs_that_begin_there() -> None:
    log = two_epochs()
    log.truncate(10)
    assert (log.leo, log.runs, log.epochs) == (10, [Run(0, 10, 0, 1)], [(0, 0)])


def test_an_epoch_without_records_gives_way_to_the_next() -> None:
    log = two_epochs()
    log.begin_epoch(3)
    log.begin_epoch(4)
    assert log.epochs == [(0, 0), (2, 10), (4, 15)]


def test_retention_keeps_the_epoch_that_reaches_over_the_new_start() -> None:
    log = two_epochs()
    log.advance_start(12)
    assert (log.start, log.runs, log.epochs) == (12, [Run(12, 15, 2, 2)], [(2, 12)])


def test_starting_again_leaves_nothing() -> None:
    log = two_epochs()
    log.restart(40)
    assert (log.start, log.leo, log.runs, log.epochs) == (40, 40, [], [])


def test_logs_part_where_different_terms_wrote() -> None:
    mine, other = two_epochs(), ReplicaLog()
    other.append(10, 0, 1)
    other.append(9, 1, 3)
    assert mine.parts_from(other, below=15) == 10
    assert mine.parts_from(two_epochs(), below=15) == 15


def test_the_same_epoch_written_twice_is_not_the_same_record() -> None:
    """A leader that lost power goes on in its epoch: (offset, epoch) repeats, the term does not."""
    before, after = ReplicaLog(), ReplicaLog()
    before.append(5, 0, 1)
    after.append(3, 0, 1)
    after.append(2, 0, 2)
    assert before.parts_from(after, below=5) == 3
