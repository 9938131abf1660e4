"""Sentences on losses have at most 200 characters, but for the time that they are of."""

from dataclasses import replace
from itertools import product

import pytest

from pipelines.verdict import Limits, State, verdict, words
from tests.unit.verdict.test_words import LOSS, OPEN, SOUND, at

NAMES = tuple(f"{'a-long-name-of-a-topic-' * 10}{n}-0 offsets 120..299" for n in range(9))
LOSSES = [
    replace(one, leader_id=n, examples=NAMES[:shown], missing=tuple(f"the HW of {name}" for name in NAMES))
    for n, one, shown in product(
        range(1, 6), (LOSS, replace(LOSS, severity="warning", proof="unproven"), OPEN), (0, 1, 9)
    )
]


@pytest.mark.parametrize("most", [1, 3, len(LOSSES)])
def test_no_sentence_on_losses_is_longer_than_200_characters(most):
    record = replace(SOUND, falls=tuple(LOSSES[:most]), lost_in=99, suspect=99)
    found = [line for line in verdict(record, Limits(), at(25)).lines if line.part == "history"]
    assert {line.text.partition(": ")[0] for line in found} <= {State.LOST.value, State.LOSS_NOT_EXCLUDED.value}
    sentences = [line.text.partition(" (from 2026-")[0] for line in found]
    assert [sentence for sentence in sentences if len(sentence) > words.SENTENCE] == []
    assert all(" (from 2026-" in line.text for line in found)


def test_what_has_no_room_in_a_sentence_begins_another_of_the_same_state():
    clause = f"{'a' * 60}, {'b' * 60}"
    assert words.sentences(f"LOST: {clause}; {clause}", "LOST: ") == [f"LOST: {clause}", f"LOST: {clause}"]
    assert words.sentences(f"{clause}; {clause}; c", "LOST: ") == [clause, f"{clause}; c"]
    assert words.sentences("OK: 4 partitions; all in sync") == ["OK: 4 partitions; all in sync"]
