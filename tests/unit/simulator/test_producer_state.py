"""A leader's memory of idempotent producers: what is stored, what is a repeat, what is refused."""

from __future__ import annotations

import pytest

from generators.simulator.cluster.log import Batch, ReplicaLog
from generators.simulator.cluster.producer_state import Duplicate, ProducerStates, Rejected, sequence_after

OUT_OF_ORDER = Rejected("OUT_OF_ORDER_SEQUENCE_NUMBER")
LARGEST = 2_147_483_647


def batch(sequence, epoch=0, producer=1000):
    return Batch(producer, epoch, sequence)


def stored(*counts, epoch=0, start=0):
    """States after batches of so many records each, one after the other from sequence 0 and offset `start`."""
    states, at = ProducerStates(), 0
    for count in counts:
        states.appended(batch(at, epoch), start + at, count)
        at += count
    return states


def test_a_batch_that_continues_is_appended():
    assert stored(3).check(batch(3), 2) is None


def test_the_same_first_and_last_sequence_is_a_duplicate_of_the_stored_offsets():
    assert stored(3, 2, start=70).check(batch(3), 2) == Duplicate(73, 74)


@pytest.mark.parametrize("count", [1, 3])
def test_another_last_sequence_is_no_duplicate(count):
    assert stored(3, 2).check(batch(3), count) == OUT_OF_ORDER


def test_five_batches_are_remembered():
    states = stored(1, 1, 1, 1, 1, 1)
    assert [states.check(batch(sequence), 1) for sequence in range(6)] == [
        OUT_OF_ORDER,
        *(Duplicate(offset, offset) for offset in range(1, 6)),
    ]


def test_a_skipped_sequence_is_out_of_order():
    assert stored(3).check(batch(4), 1) == OUT_OF_ORDER


def test_zero_follows_the_largest_sequence():
    states = ProducerStates()
    states.appended(batch(LARGEST - 1), 0, 2)
    assert states.check(batch(0), 1) is None
    assert states.check(batch(1), 1) == OUT_OF_ORDER


def test_a_batch_may_run_over_the_largest_sequence():
    states = ProducerStates()
    states.appended(batch(LARGEST), 0, 3)
    assert sequence_after(LARGEST, 2) == 1
    assert states.check(batch(LARGEST), 3) == Duplicate(0, 2)
    assert states.check(batch(2), 1) is None


def test_a_new_epoch_starts_at_sequence_zero():
    assert stored(3).check(batch(0, epoch=1), 1) is None
    assert stored(3).check(batch(3, epoch=1), 1) == OUT_OF_ORDER


def test_a_new_epoch_forgets_the_batches_of_the_old_one():
    states = stored(1)
    states.appended(batch(0, epoch=1), 1, 1)
    assert states.check(batch(0, epoch=1), 1) == Duplicate(1, 1)
    assert states.check(batch(1, epoch=1), 1) is None


def test_a_lower_epoch_is_fenced_even_if_it_repeats():
    states = stored(1, epoch=2)
    assert states.check(batch(0, epoch=1), 1) == Rejected("INVALID_PRODUCER_EPOCH")


def test_a_producer_without_state_may_start_anywhere():
    assert ProducerStates().check(batch(77), 1) is None


def test_a_restarted_producer_is_another_one():
    """A new producer id: what its predecessor stored is not known to be the same."""
    assert stored(3).check(batch(0, producer=1001), 3) is None


def test_producers_do_not_meet():
    states = stored(3)
    states.appended(batch(0, producer=1001), 3, 1)
    assert states.check(batch(3), 1) is None
    assert states.check(batch(1, producer=1001), 1) is None


def test_without_a_producer_id_nothing_is_checked_or_remembered():
    states = ProducerStates()
    states.appended(Batch(values=("a",)), 0, 1)
    assert states.check(Batch(values=("a",)), 1) is None
    assert states.entries == {}


def test_a_new_leader_rebuilds_its_state_from_its_log():
    log = ReplicaLog()
    log.append(4, epoch=0, term=1)
    log.append(3, epoch=0, term=1, batch=batch(0))
    log.append(2, epoch=1, term=2, batch=batch(3))
    states = ProducerStates.of(log)
    assert states.check(batch(3), 2) == Duplicate(7, 8)
    assert states.check(batch(5), 1) is None


def test_what_a_leader_cut_it_does_not_know():
    log = ReplicaLog()
    log.append(1, epoch=0, term=1, batch=batch(0))
    log.append(1, epoch=0, term=1, batch=batch(1))
    log.truncate(1)
    assert ProducerStates.of(log).check(batch(1), 1) is None
