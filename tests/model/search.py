"""Going through histories in batches, and the smallest history that shows what one showed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from tests.model.compare import Case, View, case, findings, spoiled
from tests.model.histories import Path, Scope, play
from tests.model.stopping import rash

BATCH = 100
"""So many clusters in one replay."""
Numbers = tuple[int, ...]
NO_APPENDS = "no broker append row"
"""A leader that tells its appends tells them all: one that tells none is a partition to which nobody writes."""


class Finding(NamedTuple):
    """What the rules say of a history that is not true; `kind` is the first word of it."""

    scope: Scope
    numbers: Numbers
    view: View
    text: str
    taken: str = ""

    @property
    def kind(self) -> str:
        return self.text.partition(":")[0]

    def like(self, other: Finding) -> bool:
        """Whether it is of the same kind, and of the same class of `silver/hw_regressions` where it names one."""
        named = [{w for w in one.text.replace(",", "").split() if "_" in w} for one in (self, other)]
        return self.kind == other.kind and named[0] == named[1] and self.gone == other.gone

    @property
    def gone(self) -> str:
        """What was taken away, without the number of a broker, or the time."""
        return self.taken if self.taken.endswith(" row") else self.taken.rstrip("0123456789").partition("-")[0]


def found(
    scope: Scope, paths: Iterable[Sequence[int]], views: Sequence[View], taken: bool = False, of: str = ""
) -> Iterator[Finding]:
    """Everything that is wrong about these histories, as these views show them.

    Where the scope ends in a present it is about what the gate says of that. `taken`: about those with a loss, or of
    which the gate is asked, with something of the telemetry taken away, what begins with `of`.
    """
    wrongs = rash if scope.present else findings
    paths = list(paths)
    for view in views:
        cases = _cases(scope, paths, view, taken, of)
        while batch := list(islice(cases, BATCH)):
            numbers_of = {one.name: numbers for numbers, one in batch}
            for one, text in wrongs([one for _, one in batch]):
                yield Finding(scope, numbers_of[one.name], view, text, one.taken)


def _cases(
    scope: Scope, paths: Iterable[Sequence[int]], view: View, taken: bool, of: str
) -> Iterator[tuple[Numbers, Case]]:
    for k, numbers in enumerate(paths):
        one = case(f"h{k}", play(Path(numbers), scope), view)
        if not taken:
            yield tuple(numbers), one
        elif one.played.losses or scope.present:
            spoilt = [less for less in spoiled(one) if not (scope.present and less.taken == NO_APPENDS)]
            yield from ((tuple(numbers), less) for less in spoilt if less.taken.startswith(of))


def alone(finding: Finding) -> bool:
    """Whether the same is wrong where the history is the only one in a replay."""
    again = found(finding.scope, [finding.numbers], [finding.view], bool(finding.taken))
    return any((one.text, one.taken) == (finding.text, finding.taken) for one in again)


def smallest(finding: Finding) -> Finding:
    """The plainest history that shows something of the same kind: fewer terms, fewer and plainer choices."""
    finding = finding._replace(numbers=_trimmed(finding.numbers))
    while True:
        terms = [finding.scope._replace(terms=n) for n in range(1, finding.scope.terms)]
        for scope in [*terms, finding.scope]:
            paths = _plainer(finding.numbers) if scope == finding.scope else [finding.numbers]
            best = min(
                (
                    one
                    for one in found(scope, paths, [finding.view], bool(finding.taken), finding.gone)
                    if one.like(finding)
                ),
                key=_size,
                default=None,
            )
            if best is not None and _size(best) < _size(finding):
                finding = best._replace(numbers=_trimmed(best.numbers))
                break
        else:
            return finding


def _trimmed(numbers: Numbers) -> Numbers:
    """Without what is the first choice anyway."""
    return numbers[: max((place for place, number in enumerate(numbers, 1) if number), default=0)]


def _plainer(numbers: Numbers) -> list[Numbers]:
    """The same choices with one of them plainer or left out."""
    changed = []
    for place, number in enumerate(numbers):
        changed += [(*numbers[:place], less, *numbers[place + 1 :]) for less in range(number)]
        changed.append((*numbers[:place], *numbers[place + 1 :]))
    return list(dict.fromkeys(map(_trimmed, changed)))


def _size(finding: Finding) -> tuple[int, int, int]:
    happenings = play(Path(finding.numbers), finding.scope).happenings
    told = sum(h.kind != "progress" for h in happenings)
    return finding.scope.terms, told, sum(finding.numbers)
