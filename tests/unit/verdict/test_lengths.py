"""Sentences of a verdict have at most 200 characters, but for the times of losses and commands."""

from dataclasses import replace
from datetime import timedelta
from itertools import product

import pytest

from pipelines.verdict import Backlog, Limits, NotUnderstood, Source, State, Unheard, verdict, words
from pipelines.verdict.last_copies import LastCopy
from schemas.brokers import CUT_OFF
from tests.unit.verdict.test_words import LOSS, OPEN, SOUND, at

NAMES = tuple(f"{'a-long-name-of-a-topic-' * 10}{n}-0 offsets 120..299" for n in range(9))
LOST_ROWS = tuple({"topic": name, "partition": n, "lost_from": 120, "lost_to": 300} for n, name in enumerate(NAMES))
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


SILENT = tuple(Source(f"{'a-long-name-of-a-host-' * 3}{n}/server.log", n, at(-4000)) for n in range(1, 9))
WATCHERS = tuple(replace(one, source_id=f"watch/main/broker-{one.broker_id}") for one in SILENT)
OUT = {n: Unheard("unknown", at(-n), CUT_OFF) for n in range(1, 9)}
UNSEEN = {
    "all is missing": replace(
        SOUND, unread_brokers=(2, 3), unstarted=2, unassigned=2, older=at(-60),
        terms={1: ((at(-7200), at(-5000)), (at(-4000), at(-900)))},
        gaps={"gap": 3, "clock": 2, "contradiction": 4, "anew": 1}, unread=NAMES, ahead={2: timedelta(seconds=9000)},
        not_understood=(NotUnderstood(NAMES[0], 7, "x" * 90), NotUnderstood(NAMES[1], 7, "y" * 90)),
    ),
    "no start was read": replace(SOUND, unstarted=4),
    "every level": replace(SOUND, levels={None: 1_000, 0: 2_000, 1: 3_000, 2: 4_000, 3: 5_000}),
    "all are silent": replace(SOUND, sources=SILENT),
    "nobody answers": replace(SOUND, levels={1: 4}, sources=WATCHERS, unheard=OUT),
    "bronze is not read": replace(SOUND, backlog=Backlog(1_200_000, at(-6_000))),
    "a table is gone": replace(SOUND, blind="silver/hw_regressions cannot be read: one of its files is missing"),
    "a loss whose copy is on a disk": replace(
        SOUND, falls=(LOSS,), lost_in=1, copies=(LastCopy("prod", 1, "down", True, LOST_ROWS).text("/data/lake"),)
    ),
}  # fmt: skip


@pytest.mark.parametrize("record", UNSEEN.values(), ids=UNSEEN.keys())
def test_no_sentence_is_longer_than_200_characters_but_for_the_time_of_a_loss_or_a_command(record):
    found = [line.text.partition(" (from 2026-")[0] for line in verdict(record, Limits(), at(25)).lines]
    assert [text for text in found if len(text) > words.SENTENCE and "or run `" not in text] == []


def test_what_has_no_room_in_a_sentence_begins_another_of_the_same_state():
    clause = f"{'a' * 60}, {'b' * 60}"
    assert words.sentences(f"LOST: {clause}; {clause}", "LOST: ") == [f"LOST: {clause}", f"LOST: {clause}"]
    assert words.sentences(f"{clause}; {clause}; c", "LOST: ") == [clause, f"{clause}; c"]
    assert words.sentences("OK: 4 partitions; all in sync") == ["OK: 4 partitions; all in sync"]


def test_a_command_is_never_cut():
    """The way out of a table that cannot be read was cut off behind a long path."""
    why = f"silver/coverage cannot be read: {'a-long-path/' * 20}: no such file"
    sentence, *_ = (line.text for line in verdict(replace(SOUND, blind=why), Limits(), at(25)).lines)
    assert sentence.endswith("restore it, or start anew with `hwmark run --rebuild`")
