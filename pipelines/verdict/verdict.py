"""The one function that words what is known of a cluster, for every surface."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from pipelines.printable import printable
from pipelines.verdict import words
from pipelines.verdict.history import history
from pipelines.verdict.judged import Judged, judged
from pipelines.verdict.present import present
from pipelines.verdict.records import ClusterRecord, Limits, State


@dataclass(frozen=True)
class Line:
    """One sentence of a verdict; `part` is judged, present or history."""

    cluster: str
    part: str
    state: State
    text: str
    scope: str = ""
    handled: bool = False

    @property
    def rank(self) -> float:
        """The sort weight of the sentence, the worst first; a handled loss comes after every present state but OK."""
        return State.OK.rank - 0.5 if self.handled else self.state.rank

    def __str__(self) -> str:
        return printable(f"{self.cluster}{self.scope}: {self.text}")


@dataclass(frozen=True)
class Verdict:
    """The sentences about one cluster, the worst first."""

    cluster: str
    judged: Judged
    lines: tuple[Line, ...]

    @property
    def state(self) -> State:
        """The worst of its states."""
        return self.lines[0].state


def verdict(record: ClusterRecord, limits: Limits, now: datetime) -> Verdict:
    """Return the verdict on a cluster at the moment `now` of the wall clock, which must have a time zone."""
    first = judged(record, limits, now)
    said = [
        *(Line(record.cluster, "judged", first.state, text) for text in _split(first.state, first.text)),
        *(
            Line(record.cluster, "present", state, text, record.scope)
            for state, said in present(record, first)
            for text in _split(state, said)
        ),
        *(
            Line(record.cluster, "history", state, text, record.scope, handled)
            for state, text, handled in history(record, first, limits)
        ),
    ]
    return Verdict(record.cluster, first, tuple(sorted(said, key=lambda line: line.rank)))


def _split(state: State, text: str) -> list[str]:
    """Cut a text into sentences: each begins with the state if the text does, but for OK."""
    return words.sentences(text, "" if state is State.OK else f"{state.value}: ")


def lines(verdicts: Iterable[Verdict]) -> list[Line]:
    """Every sentence: the clusters with the worst states first, and the worst of each first."""
    ordered = sorted(verdicts, key=lambda one: (one.lines[0].rank, one.cluster))
    return [line for one in ordered for line in one.lines]
