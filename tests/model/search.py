"""Going through histories in batches, and the smallest history that shows what one showed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from tests.model.compare import View, case, findings
from tests.model.histories import Path, Scope, play

BATCH = 100
"""So many clusters in one replay."""
Numbers = tuple[int, ...]


class Finding(NamedTuple):
    """What the rules say of a history that is not true; `kind` is the first word of it."""

    scope: Scope
    numbers: Numbers
    view: View
    text: str

    @property
    def kind(self) -> str:
        return self.text.partition(":")[0]


def found(scope: Scope, paths: Iterable[Sequence[int]], views: Sequence[View]) -> Iterator[Finding]:
    """Everything that is wrong about these histories, as these views show them."""
    paths = iter(paths)
    while batch := list(islice(paths, BATCH)):
        played = [play(Path(numbers), scope) for numbers in batch]
        for view in views:
            cases = [case(f"h{k}", one, view) for k, one in enumerate(played)]
            for one, text in findings(cases):
                yield Finding(scope, tuple(batch[int(one.name[1:])]), view, text)


def alone(finding: Finding) -> bool:
    """Whether the same is wrong where the history is the only one in a replay."""
    return any(one.text == finding.text for one in found(finding.scope, [finding.numbers], [finding.view]))


def smallest(finding: Finding) -> Finding:
    """The plainest history that shows something of the same kind: fewer terms, fewer and plainer choices."""
    while True:
        terms = [finding.scope._replace(terms=n) for n in range(1, finding.scope.terms)]
        for scope in [*terms, finding.scope]:
            paths = _plainer(finding.numbers) if scope == finding.scope else [finding.numbers]
            best = min(
                (one for one in found(scope, paths, [finding.view]) if one.kind == finding.kind),
                key=_size,
                default=None,
            )
            if best is not None and _size(best) < _size(finding):
                finding = best
                break
        else:
            return finding


def _plainer(numbers: Numbers) -> list[Numbers]:
    """The same choices with one of them plainer or left out."""
    changed = []
    for place, number in enumerate(numbers):
        changed += [(*numbers[:place], less, *numbers[place + 1 :]) for less in range(number)]
        changed.append((*numbers[:place], *numbers[place + 1 :]))
    return list(dict.fromkeys(changed))


def _size(finding: Finding) -> tuple[int, int, int]:
    happenings = play(Path(finding.numbers), finding.scope).happenings
    told = sum(h.kind != "progress" for h in happenings)
    return finding.scope.terms, told, sum(finding.numbers)
