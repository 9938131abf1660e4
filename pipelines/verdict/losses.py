"""Losses in words: by which change of leader, how much, and what a loss could not be excluded for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipelines.verdict import words
from pipelines.verdict.records import FallGroup, State
from schemas.hw_regressions import UPPER_BOUND

NOT_EXCLUDED = "loss_not_excluded"
LOSSES = ("unclean_loss", "committed_loss", "hw_moved_back")
"""The classes of falls of a HW by which committed records are gone, or may be."""
SHOWN = 3
"""Changes of leader that a sentence names."""


def how(name: str, leader_id: int | None, leader_id_before: int | None, start_offset: int | None = None) -> str:
    """By what a HW fell: `unclean election of broker 2 after broker 1`."""
    who = words.brokers(() if leader_id is None else (leader_id,)).replace("unknown brokers", "an unknown broker")
    again = leader_id is not None and leader_id == leader_id_before
    after = "" if again or leader_id_before is None or leader_id_before < 0 else f" after broker {leader_id_before}"
    if name == "unclean_loss":
        return f"unclean election of {who}{after}"
    if name == "hw_moved_back":
        return "HW moved back" if leader_id is None else f"HW moved back under {who}"
    began = f"{who} {'resumed' if again else 'began'} leading{after}"
    if name == NOT_EXCLUDED:
        return began
    return f"{began} from a log that ends {'below the HW' if start_offset is None else f'at {start_offset}'}"


def lost(groups: Sequence[FallGroup], partitions: int) -> str:
    """The sentence about losses: `LOST: 180 offsets in 1 partition: unclean election of broker 2 at …: …`."""
    least = "at least " if any(group.proof != "proven" for group in groups) else ""
    where = words.count(partitions, "partition")
    return f"{State.LOST.value}: {least}{amount(groups)} in {where}: {_some(groups, _change)}"


def may_be_lost(groups: Sequence[FallGroup], partitions: int) -> str:
    """The sentence about possible losses: the proof is missing, or an election from outside the ISR was not judged."""
    if all(group.name == NOT_EXCLUDED for group in groups):
        return not_excluded(groups)
    what = f"{amount(groups)} may be gone in {words.count(partitions, 'partition')}"
    return f"{State.LOSS_NOT_EXCLUDED.value}: {what}, unproven: {_some(groups, _suspect)}"


def not_excluded(groups: Sequence[FallGroup]) -> str:
    """Starts of terms that could not be judged, by election or broker, and what is missing for it."""
    return f"{State.LOSS_NOT_EXCLUDED.value}: {_some(groups, unjudged)}"


def unjudged(group: FallGroup) -> str:
    """One change of leader by which a loss is not excluded: who, when, how many partitions, what is missing."""
    some = words.listed(group.examples, total=group.partitions)
    return f"{_who(group)} in {words.count(group.partitions, 'partition')} ({some}); missing: {lacking(group.missing)}"


def lacking(missing: Sequence[str]) -> str:
    """The evidence that would exclude a loss: an upper bound of the HW before is enough, else all the rest."""
    if UPPER_BOUND not in missing:
        return ", ".join(missing) or "not recorded"
    rest = missing.index(UPPER_BOUND) + 1
    return ", or ".join(" and ".join(part) for part in (missing[:rest], missing[rest:]) if part)


def _change(group: FallGroup) -> str:
    return f"{_who(group)}: {words.listed(group.examples, total=group.partitions)}"


def _suspect(group: FallGroup) -> str:
    return unjudged(group) if group.name == NOT_EXCLUDED else _change(group)


def _who(group: FallGroup) -> str:
    first, last = words.clock(group.first), words.clock(group.last)
    when = f"at {first}" if first == last else f"from {first} to {last}"
    return f"{how(group.name, group.leader_id, group.leader_id_before)} {when}"


def amount(groups: Sequence[FallGroup]) -> str:
    """`180 offsets`, or that no range is known."""
    known = sum(group.lost_records or 0 for group in groups)
    return words.count(known, "offset") if known else "offsets below an earlier HW"


def _some(groups: Sequence[FallGroup], sentence: Callable[[FallGroup], str]) -> str:
    """The changes of leader that concern most partitions."""
    ordered = sorted(groups, key=lambda group: (-group.partitions, group.first, sentence(group)))
    said = [sentence(group) for group in ordered[:SHOWN]]
    if rest := ordered[SHOWN:]:
        said.append(f"and {words.count(len(rest), 'more change')} of leader")
    return "; ".join(said)
