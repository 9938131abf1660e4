"""What the gate answers of a present, against what becomes of the partition as brokers are stopped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from datetime import UTC, datetime
from itertools import chain, combinations, permutations
from typing import Any

from pipelines.gate.facts import Facts, Quorum
from pipelines.gate.gold import partition
from pipelines.gate.judgement import Answer, judge
from pipelines.replication import Reconstructor, Rules
from pipelines.verdict.sources import DOWN
from tests.model.compare import Case
from tests.model.partition import NOBODY, Partition
from tests.unit.replication.bronze import events_of

APART = Quorum({8: True, 9: True, 10: True})


def rash(cases: Sequence[Case]) -> Iterator[tuple[Case, str]]:
    """Every YES that costs records, a leader or min ISR; all in one reconstruction."""
    made = Reconstructor(Rules())
    made.update(events_of([row for one in cases for row in one.rows]))
    present = made.present()
    down: dict[str, set[int]] = {}
    for row in present.brokers.to_pylist():
        if row["state"] in DOWN:
            down.setdefault(row["cluster"], set()).add(row["broker_id"])
    rows = {row["cluster"]: row for row in present.partition_health.to_pylist()}
    for one in cases:
        if row := rows.get(one.name):
            for text in _of_a_present(one.played, row, frozenset(down.get(one.name, ()))):
                yield one, text


def _of_a_present(p: Partition, row: dict[str, Any], down: frozenset[int]) -> Iterator[str]:
    facts = partition(row, down)
    for stopped in chain.from_iterable(combinations(p.assigned, n) for n in range(1, len(p.assigned) + 1)):
        for accepted in (False, True):
            asked = Facts("c", frozenset(stopped), (facts,), datetime.now(UTC), "gold", quorum=APART)
            if judge(asked, accepted=accepted).answer is Answer.YES:
                for text in dict.fromkeys(_what_becomes(p, stopped, accepted)):
                    yield f"{'accepted ' if accepted else ''}yes: {stopped} may be stopped, and {text}"


def _what_becomes(p: Partition, stopped: tuple[int, ...], accepted: bool) -> Iterator[str]:
    """What goes wrong, in any order of stopping; a member of the ISR that lagged dies at its worst moment."""
    least = min(p.min_isr, len(p.assigned))
    too_few = len(set(p.assigned) - set(stopped)) < least
    late = {b for b in p.isr if not p.able(b) or len(p.replicas[b].log) < p.then}
    for order in permutations(stopped):
        q = deepcopy(p)
        for b in order:
            if q.replicas[b].up:
                q.stop(b, "clean")
        left = [b for b in q.isr if b not in late]
        if not left and p.led and not (accepted and too_few):
            yield f"nobody in sync is left to lead ({sorted(late)} lag)"
        if len(left) < least <= len(p.isr) and p.led and not (accepted and too_few):
            yield f"it is under min ISR {least}: {left} are left ({sorted(late)} lag)"
        if not left:
            yield from _lost(q, [b for b in q.assigned if q.able(b)])


def _lost(q: Partition, able: list[int]) -> Iterator[str]:
    """What an unclean election of any of these loses."""
    for b in able:
        r = deepcopy(q)
        if r.leader != NOBODY:
            r.stop(r.leader, "kill")
            r.fence(r.leader)
        before = len(r.losses)
        if r.leader == NOBODY:
            r.elect(b)
        if len(r.losses) > before:
            yield f"an unclean election of {b} loses [{r.losses[-1].first}, {r.losses[-1].end})"
